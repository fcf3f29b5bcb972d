"""Fits a line to noisy points by gradient descent; needs nothing but Python."""

import argparse
import json
import os
import random
from pathlib import Path

SLOPE, INTERCEPT, NOISE = 3.0, -1.0, 0.1


def make_points(count: int, seed: int) -> list[tuple[float, float]]:
    """Points near the line y = 3x - 1."""
    source = random.Random(seed)
    inputs = [source.uniform(-1, 1) for _ in range(count)]
    return [(x, SLOPE * x + INTERCEPT + source.gauss(0, NOISE)) for x in inputs]


def descend(
    points: list[tuple[float, float]], slope: float, intercept: float, rate: float
) -> tuple[float, float, float]:
    """One step down the mean squared error: the new line, and the error of the old one."""
    errors = [(x, slope * x + intercept - y) for x, y in points]
    count = len(points)
    loss = sum(error * error for _, error in errors) / count
    slope -= rate * 2 * sum(error * x for x, error in errors) / count
    intercept -= rate * 2 * sum(error for _, error in errors) / count
    return slope, intercept, loss


def model_dir() -> Path:
    """Where the model goes. On Vertex AI a bucket, gs://NAME/…, is mounted at /gcs/NAME/…"""
    uri = os.environ.get("AIP_MODEL_DIR", "model")
    return Path("/gcs/" + uri.removeprefix("gs://") if uri.startswith("gs://") else uri)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--learning-rate", type=float, default=0.3)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    points = make_points(count=1000, seed=0)
    slope = intercept = 0.0
    for step in range(1, args.steps + 1):
        slope, intercept, loss = descend(points, slope, intercept, args.learning_rate)
        if step % 10 == 0:
            print(f"step {step:3}  loss {loss:.4f}  y = {slope:.3f}x {intercept:+.3f}", flush=True)

    folder = model_dir()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.json").write_text(json.dumps({"slope": slope, "intercept": intercept}) + "\n")
    print(f"model.json is in {folder}", flush=True)


if __name__ == "__main__":
    main()
