"""Each replica computes the gradient on its own points; all take the same step, with the mean of them."""

import argparse
import json
import math
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

from trainer.cluster import read_cluster
from trainer.exchange import Group

SLOPE, INTERCEPT, NOISE = 3.0, -1.0, 0.1
POINTS_PER_REPLICA = 500
LEARNING_RATE = 0.3

Points = list[tuple[float, float]]
Mean = Callable[[list[float]], list[float]]


def make_points(rank: int) -> Points:
    """The points of one replica, near the line y = 3x - 1."""
    source = random.Random(rank)
    inputs = [source.uniform(-1, 1) for _ in range(POINTS_PER_REPLICA)]
    return [(x, SLOPE * x + INTERCEPT + source.gauss(0, NOISE)) for x in inputs]


def gradient(points: Points, slope: float, intercept: float) -> list[float]:
    """Of the mean squared error: by slope, by intercept; and the error itself."""
    errors = [(x, slope * x + intercept - y) for x, y in points]
    by_slope = 2 * sum(error * x for x, error in errors)
    by_intercept = 2 * sum(error for _, error in errors)
    loss = sum(error * error for _, error in errors)
    return [total / len(points) for total in (by_slope, by_intercept, loss)]


def fit(points: Points, steps: int, mean: Mean, show: bool) -> tuple[float, float]:
    """Slope and intercept after some steps, each with the gradient that `mean` makes of our own."""
    slope = intercept = 0.0
    for step in range(1, steps + 1):
        by_slope, by_intercept, loss = mean(gradient(points, slope, intercept))
        slope -= LEARNING_RATE * by_slope
        intercept -= LEARNING_RATE * by_intercept
        if show and step % 10 == 0:
            print(f"step {step:3}  loss {loss:.4f}  y = {slope:.3f}x {intercept:+.3f}", flush=True)
    return slope, intercept


def verify(line: tuple[float, float], size: int, steps: int) -> None:
    """End with an error unless one machine with everybody's points finds the same line."""
    everybody = [point for rank in range(size) for point in make_points(rank)]
    alone = fit(everybody, steps, mean=list, show=False)
    if not all(math.isclose(ours, theirs, rel_tol=1e-9) for ours, theirs in zip(line, alone, strict=True)):
        sys.exit(f"together we found {line}, one machine alone {alone}")


def write_model(line: tuple[float, float], size: int) -> Path:
    """Write model.json to AIP_MODEL_DIR. On Vertex AI a bucket, gs://NAME/…, is mounted at /gcs/NAME/…"""
    uri = os.environ.get("AIP_MODEL_DIR", "model")
    folder = Path("/gcs/" + uri.removeprefix("gs://") if uri.startswith("gs://") else uri)
    folder.mkdir(parents=True, exist_ok=True)
    model = {"slope": line[0], "intercept": line[1], "replicas": size}
    (folder / "model.json").write_text(json.dumps(model) + "\n")
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    steps = parser.parse_args().steps

    cluster = read_cluster()
    is_chief = cluster.rank == 0
    print(f"replica {cluster.rank} of {cluster.size}; the chief is at {cluster.addresses[0]}", flush=True)
    group = Group(cluster)
    line = fit(make_points(cluster.rank), steps, group.mean, show=is_chief)
    verify(line, cluster.size, steps)
    print(f"verified: y = {line[0]:.6f}x {line[1]:+.6f}", flush=True)
    group.leave()
    if is_chief:
        folder = write_model(line, cluster.size)
        print(f"{cluster.size} replicas agree; model.json is in {folder}", flush=True)


if __name__ == "__main__":
    main()
