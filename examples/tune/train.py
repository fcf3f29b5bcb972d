"""Fits a polynomial to noisy points, and reports its error on held-out points after each epoch."""

import argparse
import json
import math
import os
import random
from pathlib import Path

import hypertune

parser = argparse.ArgumentParser()
parser.add_argument("--optimizer", choices=["sgd", "momentum"], default="sgd")
parser.add_argument("--learning-rate", type=float, default=0.05)
parser.add_argument("--momentum", type=float, default=0.0)
parser.add_argument("--degree", type=int, default=3, help="of the polynomial")
parser.add_argument("--epochs", type=int, default=30)
args = parser.parse_args()

source = random.Random(0)
inputs = [source.uniform(-1, 1) for _ in range(120)]
points = [(x, math.sin(3 * x) + source.gauss(0, 0.1)) for x in inputs]
train, held_out = points[:80], points[80:]
weights = [0.0] * (args.degree + 1)
speeds = [0.0] * (args.degree + 1)
momentum = args.momentum if args.optimizer == "momentum" else 0.0


def predict(x: float) -> float:
    return sum(weight * x**power for power, weight in enumerate(weights))


def mean_squared_error(points: list[tuple[float, float]]) -> float:
    return sum((predict(x) - y) ** 2 for x, y in points) / len(points)


report = hypertune.HyperTune()
loss = math.inf
for epoch in range(1, args.epochs + 1):
    source.shuffle(train)
    for x, y in train:
        error = predict(x) - y
        for power in range(len(weights)):
            speeds[power] = momentum * speeds[power] - args.learning_rate * 2 * error * x**power
            weights[power] += speeds[power]
    loss = mean_squared_error(held_out)
    if loss > 10:
        raise SystemExit(f"diverged in epoch {epoch}")  # the trial fails, and the study goes on
    report.report_hyperparameter_tuning_metric("loss", loss, global_step=epoch)
    print(f"epoch {epoch:2}/{args.epochs}  loss {loss:.4f}", flush=True)

# On Vertex AI the bucket gs://NAME is also the folder /gcs/NAME.
folder = Path(os.environ.get("AIP_MODEL_DIR", "model").replace("gs://", "/gcs/", 1))
folder.mkdir(parents=True, exist_ok=True)
(folder / "model.json").write_text(json.dumps({"weights": weights, "loss": loss}) + "\n")
