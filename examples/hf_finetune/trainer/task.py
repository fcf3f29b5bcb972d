"""Teaches a transformer to tell positive sentences from negative ones, by the Trainer of transformers.

The model is a tiny BERT that `trainer.model` makes on the spot. To tune a real one instead, name a model of
the hub: --model=distilbert-base-uncased.
"""

import argparse
import os
import tempfile
from pathlib import Path

import hypertune
import numpy as np
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    EvalPrediction,
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint

from trainer.data import LABELS, sentences
from trainer.model import make_tiny_bert

HELD_OUT = 100


class HypertuneCallback(TrainerCallback):
    """Reports the accuracy of each evaluation to the tuning job, if this is a trial of one."""

    def __init__(self) -> None:
        self.hypertune = hypertune.HyperTune()

    def on_evaluate(self, args, state, control, metrics, **kwargs):  # noqa: ARG002
        self.hypertune.report_hyperparameter_tuning_metric(
            hyperparameter_metric_tag="accuracy",
            metric_value=metrics["eval_accuracy"],
            global_step=state.global_step,
        )


def folder_of(variable: str, otherwise: str) -> str:
    """A folder that Vertex AI names. The bucket gs://NAME is also the folder /gcs/NAME."""
    return os.environ.get(variable, otherwise).replace("gs://", "/gcs/", 1)


def accuracy(prediction: EvalPrediction) -> dict[str, float]:
    found = np.argmax(prediction.predictions, axis=1)
    return {"accuracy": float((found == prediction.label_ids).mean())}


def encode(rows: list[tuple[str, int]], tokenizer: PreTrainedTokenizerBase) -> list[dict]:
    return [{**tokenizer(text, truncation=True), "labels": label} for text, label in rows]


def get_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="", help="a model of the hub, or a folder (default: a tiny one)")
    parser.add_argument("--num-epochs", type=float, default=8)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=42)
    return parser.parse_args()


def main() -> None:
    args = get_args()
    set_seed(args.seed)
    rows = sentences(600, args.seed)
    name = args.model or make_tiny_bert([text for text, _ in rows], Path(tempfile.mkdtemp()))
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForSequenceClassification.from_pretrained(
        name, id2label=dict(enumerate(LABELS)), label2id={label: i for i, label in enumerate(LABELS)}
    )

    checkpoints = folder_of("AIP_CHECKPOINT_DIR", "checkpoints")
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=checkpoints,
            eval_strategy="epoch",
            save_strategy="epoch",
            save_total_limit=1,
            logging_steps=10,
            learning_rate=args.learning_rate,
            per_device_train_batch_size=args.batch_size,
            num_train_epochs=args.num_epochs,
            weight_decay=args.weight_decay,
            seed=args.seed,
            report_to=[],
            dataloader_pin_memory=False,
            disable_tqdm=True,
        ),
        train_dataset=encode(rows[HELD_OUT:], tokenizer),
        eval_dataset=encode(rows[:HELD_OUT], tokenizer),
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=accuracy,
        callbacks=[HypertuneCallback()],
    )
    # After a restart this goes on from the last checkpoint.
    last = get_last_checkpoint(checkpoints) if Path(checkpoints).is_dir() else None
    trainer.train(resume_from_checkpoint=last)
    metrics = trainer.evaluate()
    print(f"accuracy {metrics['eval_accuracy']:.3f} on {HELD_OUT} sentences that were held out", flush=True)

    folder = folder_of("AIP_MODEL_DIR", "model")
    trainer.save_model(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main()
