"""Trains a classifier of handwritten digits on all replicas of the job, and writes it to AIP_MODEL_DIR.

After each epoch, and when it has to end, the first replica saves a checkpoint. A later attempt goes on
there.
"""

from __future__ import annotations

import argparse
import json
import sys

import torch
import torch.distributed as dist

from trainer.data import Scans, load
from trainer.folders import model_folder, read_checkpoint, write_checkpoint
from trainer.group import await_restart, has_to_go, is_loss, joined, note_sigterm
from trainer.training import Training

SIGTERM_CODE = 143


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--min-accuracy", type=float, default=0.9, help="end with an error below it")
    parser.add_argument("--epoch-seconds", type=float, default=0.0, help="make an epoch last so long")
    return parser.parse_args()


def train(training: Training, held_out: Scans, args: argparse.Namespace) -> None:
    """Train until the last epoch; the first replica saves and ends between two steps when it has to go."""
    is_first = dist.get_rank() == 0
    while training.epoch < args.epochs:
        for _ in training.run_epoch(args.epoch_seconds):
            if is_first and has_to_go():
                save_and_end(training)
        if is_first:
            write_checkpoint(training.state())
            accuracy = training.accuracy(held_out)
            print(f"epoch {training.epoch:2}/{args.epochs}  accuracy {accuracy:.4f}", flush=True)


def train_or_wait(training: Training, held_out: Scans, args: argparse.Namespace) -> None:
    """Train; where another replica is lost, save, and wait to be restarted with it."""
    try:
        train(training, held_out, args)
    except RuntimeError as error:
        if not is_loss(error):
            raise
        print(f"another replica is lost: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)
    else:
        return
    await_restart()
    if has_to_go():
        save_and_end(training)
    sys.exit("the replicas were not restarted")


def save_and_end(training: Training) -> None:
    """Leave a checkpoint of the last whole step."""
    write_checkpoint(training.state())
    print(f"asked to end: saved epoch {training.epoch}, step {training.step}", flush=True)
    sys.exit(SIGTERM_CODE)


def verify(training: Training, accuracy: float, least: float) -> None:
    """End with an error unless all replicas have the same weights, and these read digits well."""
    fingerprints = [""] * dist.get_world_size()
    dist.all_gather_object(fingerprints, training.fingerprint())
    if len(set(fingerprints)) != 1:
        sys.exit(f"the replicas' weights differ: {fingerprints}")
    if accuracy < least:
        sys.exit(f"accuracy {accuracy:.4f} is below {least}")
    print(f"verified: {len(fingerprints)} replicas have the weights {fingerprints[0]}", flush=True)


def write_model(training: Training, accuracy: float) -> None:
    target = model_folder()
    torch.save(training.model.state_dict(), target / "model.pt")
    metrics = {"accuracy": accuracy, "epochs": training.epoch, "replicas": dist.get_world_size()}
    (target / "metrics.json").write_text(json.dumps(metrics) + "\n")
    print(f"accuracy {accuracy:.4f} on held-out scans; model.pt and metrics.json are in {target}", flush=True)


def run(args: argparse.Namespace) -> None:
    """Train with the other replicas, from the last checkpoint on; the first replica writes the model."""
    learned, held_out = load(args.seed)
    is_first = dist.get_rank() == 0
    print(f"replica {dist.get_rank()} of {dist.get_world_size()}", flush=True)
    training = Training(learned, learning_rate=args.learning_rate, seed=args.seed)
    if training.resume(read_checkpoint() if is_first else None):
        print(f"resumed from epoch {training.epoch}, step {training.step}", flush=True)
    if is_first:
        note_sigterm()
    train_or_wait(training, held_out, args)
    accuracy = training.accuracy(held_out)
    verify(training, accuracy, args.min_accuracy)
    if is_first:
        write_model(training, accuracy)
    # All leave together: after this, no thread of the group holds a tensor any more, and no replica waits for
    # one that has gone.
    dist.barrier()


def main() -> None:
    args = parse_args()
    with joined():
        run(args)


if __name__ == "__main__":
    main()
