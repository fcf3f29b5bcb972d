"""Fits a line to noisy points by gradient descent; needs nothing but Python.

Every ten steps it leaves a checkpoint in AIP_CHECKPOINT_DIR, if that is set; a later attempt goes on there.
"""

import argparse
import json
import os
import random
import time
from pathlib import Path
from typing import NamedTuple

SLOPE, INTERCEPT, NOISE = 3.0, -1.0, 0.1


class Progress(NamedTuple):
    """The line after some steps."""

    step: int = 0
    slope: float = 0.0
    intercept: float = 0.0


def make_points(count: int, seed: int) -> list[tuple[float, float]]:
    """Points near the line y = 3x - 1."""
    source = random.Random(seed)
    inputs = [source.uniform(-1, 1) for _ in range(count)]
    return [(x, SLOPE * x + INTERCEPT + source.gauss(0, NOISE)) for x in inputs]


def descend(points: list[tuple[float, float]], done: Progress, rate: float) -> tuple[Progress, float]:
    """One step down the mean squared error: the new line, and the error of the old one."""
    errors = [(x, done.slope * x + done.intercept - y) for x, y in points]
    count = len(points)
    loss = sum(error * error for _, error in errors) / count
    slope = done.slope - rate * 2 * sum(error * x for x, error in errors) / count
    intercept = done.intercept - rate * 2 * sum(error for _, error in errors) / count
    return Progress(done.step + 1, slope, intercept), loss


def local_path(uri: str) -> Path:
    """A folder's path. On Vertex AI a bucket, gs://NAME/…, is mounted at /gcs/NAME/…"""
    return Path("/gcs/" + uri.removeprefix("gs://") if uri.startswith("gs://") else uri)


def checkpoint_file() -> Path | None:
    """The same file in every attempt of a job; None where the job has no folder for checkpoints."""
    uri = os.environ.get("AIP_CHECKPOINT_DIR")
    return local_path(uri) / "progress.json" if uri else None


def read_progress() -> Progress:
    """How far an earlier attempt came."""
    file = checkpoint_file()
    if file is None or not file.exists():
        return Progress()
    done = Progress(*json.loads(file.read_text()))
    print(f"resumed after step {done.step}", flush=True)
    return done


def write_progress(done: Progress) -> None:
    """Put the new checkpoint in the place of the old one: a reader finds one of the two, whole."""
    file = checkpoint_file()
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(".part")
        unfinished.write_text(json.dumps(done) + "\n")
        unfinished.replace(file)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--learning-rate", type=float, default=0.3)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="rest so long after each step")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    points = make_points(count=1000, seed=0)
    done = read_progress()
    while done.step < args.steps:
        done, loss = descend(points, done, args.learning_rate)
        time.sleep(args.step_seconds)
        if done.step % 10 == 0:
            write_progress(done)
            line = f"y = {done.slope:.3f}x {done.intercept:+.3f}"
            print(f"step {done.step:3}  loss {loss:.4f}  {line}", flush=True)

    folder = local_path(os.environ.get("AIP_MODEL_DIR", "model"))
    folder.mkdir(parents=True, exist_ok=True)
    model = {"slope": done.slope, "intercept": done.intercept}
    (folder / "model.json").write_text(json.dumps(model) + "\n")
    print(f"model.json is in {folder}", flush=True)


if __name__ == "__main__":
    main()
