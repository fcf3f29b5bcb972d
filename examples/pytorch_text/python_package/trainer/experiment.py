"""Training and evaluation."""

import argparse
from collections.abc import Callable

import torch
from torch import nn

from trainer import metadata, utils
from trainer.model import SentimentModel


def run(args: argparse.Namespace) -> float:
    """Train, evaluate after each epoch, save the model of the best; its accuracy on held-out sentences."""
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # so small a model is fastest on one thread, and trials run side by side
    training, held_out = utils.split(utils.read_sentences())
    vocabulary = utils.make_vocabulary(training)
    model = SentimentModel(len(vocabulary) + 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=args.weight_decay)
    data = tensors(training, vocabulary)
    evaluation = tensors(held_out, vocabulary)
    report = make_reporter() if args.hp_tune else None
    best = -1.0
    for epoch in range(1, args.num_epochs + 1):
        loss = train(model, optimizer, data, args.batch_size)
        accuracy = evaluate(model, evaluation)
        print(f"epoch {epoch}/{args.num_epochs}  loss {loss:.3f}  accuracy {accuracy:.3f}", flush=True)
        if report is not None:
            report(accuracy, epoch)
        if accuracy > best:
            best = accuracy
            state = {"weights": model.state_dict(), "vocabulary": vocabulary}
            utils.save(state, accuracy, utils.model_folder())
    return best


def tensors(
    sentences: list[tuple[int, str]], vocabulary: dict[str, int]
) -> tuple[torch.Tensor, torch.Tensor]:
    labels, texts = zip(*sentences, strict=True)
    return utils.encode(list(texts), vocabulary), torch.tensor(labels)


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: tuple[torch.Tensor, torch.Tensor],
    batch_size: int,
) -> float:
    """One epoch; the mean loss."""
    model.train()
    numbers, labels = data
    losses = []
    for batch in torch.randperm(len(labels)).split(batch_size):
        loss = nn.functional.cross_entropy(model(numbers[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def evaluate(model: nn.Module, data: tuple[torch.Tensor, torch.Tensor]) -> float:
    """The share of sentences whose label the model finds."""
    model.eval()
    numbers, labels = data
    with torch.no_grad():
        return (model(numbers).argmax(1) == labels).float().mean().item()


def make_reporter() -> Callable[[float, int], None]:
    """The report to the tuning job. One reporter serves all epochs, as it rewrites its file each time."""
    import hypertune

    reporter = hypertune.HyperTune()
    return lambda accuracy, epoch: reporter.report_hyperparameter_tuning_metric(
        hyperparameter_metric_tag=metadata.METRIC, metric_value=accuracy, global_step=epoch
    )
