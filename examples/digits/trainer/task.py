"""Trains the classifier and writes `model.joblib` and `metrics.json` to AIP_MODEL_DIR."""

import argparse
import json
import os
from pathlib import Path

import joblib

from trainer.data import load
from trainer.model import train


def model_dir() -> Path:
    """Where the model goes. On Vertex AI a bucket, gs://NAME/…, is mounted at /gcs/NAME/…"""
    uri = os.environ.get("AIP_MODEL_DIR", "model")
    return Path("/gcs/" + uri.removeprefix("gs://") if uri.startswith("gs://") else uri)


def report(accuracy: float, epoch: int) -> None:
    """Report to the tuning job whose trial this is, if any, in the lines of the package cloudml-hypertune."""
    file = os.environ.get("CLOUD_ML_HP_METRIC_FILE")
    if file:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        with Path(file).open("a") as reports:
            print(json.dumps({"accuracy": str(accuracy), "global_step": str(epoch)}), file=reports)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--learning-rate", type=float, default=0.003)
    parser.add_argument("--alpha", type=float, default=0.0001, help="strength of the L2 regularization")
    parser.add_argument("--hidden", type=int, default=128, help="neurons of the hidden layer")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.epochs < 1:
        parser.error("--epochs must be at least 1")
    return args


def main() -> None:
    args = parse_args()
    split = load(args.seed)
    print(f"{len(split.train_digits)} scans to learn from, {len(split.held_out_digits)} held out", flush=True)
    progress = train(
        split,
        epochs=args.epochs,
        learning_rate=args.learning_rate,
        alpha=args.alpha,
        hidden=args.hidden,
        seed=args.seed,
    )
    for epoch, (model, accuracy) in enumerate(progress, start=1):
        report(accuracy, epoch)
        print(f"epoch {epoch:2}/{args.epochs}  loss {model.loss_:.4f}  accuracy {accuracy:.4f}", flush=True)

    folder = model_dir()
    folder.mkdir(parents=True, exist_ok=True)
    joblib.dump(model, folder / "model.joblib")
    (folder / "metrics.json").write_text(json.dumps({"accuracy": accuracy}) + "\n")
    print(f"accuracy {accuracy:.4f} on held-out scans; model and metrics.json are in {folder}", flush=True)


if __name__ == "__main__":
    main()
