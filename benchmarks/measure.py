"""What the benchmarks share: alternating runs, medians, ratios, and the verdict against a limit."""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BASE_IMAGE = "vtrain-test/python:3.11"
VTRAIN = [sys.executable, "-m", "vtrain"]
PATIENCE_SECONDS = 600.0
PAUSE_SECONDS = 0.005
PACE_SECONDS = 0.08
"""What `import typer` takes on the machine for which the limits in seconds were chosen."""
failures = 0
sys.path.insert(0, str(ROOT))


def arguments(
    description: str | None, runs: int, *, image: bool = False, replicas: tuple[int, ...] = ()
) -> argparse.Namespace:
    """The command line of a benchmark: `--runs N`, `--image NAME` where containers run, `--replicas N`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--runs", type=int, default=runs, help="alternating runs of each side (default: %(default)s)"
    )
    if image:
        parser.add_argument(
            "--image", default=BASE_IMAGE, help="image with Python that the engine has (default: %(default)s)"
        )
    if replicas:
        parser.add_argument(
            "--replicas", type=int, nargs="+", default=replicas, help="sizes of jobs (default: %(default)s)"
        )
    return parser.parse_args()


@contextmanager
def scene() -> Iterator[Path]:
    """A temporary folder that is also HOME and holds the bytecode; this checkout is on PYTHONPATH."""
    with tempfile.TemporaryDirectory(prefix="vtrain-benchmark-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("VTRAIN_", "CLOUDSDK_", "PYTHON"))}
        os.environ.clear()
        os.environ.update(kept, HOME=name, VTRAIN_HOME=str(folder / "home"))
        os.environ.update(PYTHONPATH=str(ROOT), PYTHONPYCACHEPREFIX=str(folder / "bytecode"))
        yield folder


def until(reached: Callable[[], bool], pause: float = PAUSE_SECONDS) -> None:
    """Wait until it is so, looking again after each pause, in seconds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not reached():
        if time.monotonic() > deadline:
            raise SystemExit("FAIL  this took too long")
        time.sleep(pause)


def seconds(argv: list[str], **options: object) -> float:
    """Wall time of a command that has to succeed; its output goes through a pipe."""
    started = time.perf_counter()
    subprocess.run(argv, check=True, capture_output=True, **options)  # type: ignore[call-overload]
    return time.perf_counter() - started


def seconds_to_line(argv: list[str], line: str) -> float:
    """The time until a command that follows a job shows that line on stderr; it is left to end."""
    started = time.perf_counter()
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as command:
        assert command.stderr is not None
        if not any(line in shown for shown in command.stderr):
            raise SystemExit("FAIL  the trainer has said nothing")
        taken = time.perf_counter() - started
        command.stderr.read()
    return taken


def alternate(sides: Mapping[str, Callable[[], float]], runs: int) -> dict[str, float]:
    """The median of each side; the sides take turns, after one round that is not counted."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for run in range(runs + 1):
        for name, measure in sides.items():
            value = measure()
            if run:
                taken[name].append(value)
    for name, values in taken.items():
        spread = f"{min(values) * 1000:.0f}–{max(values) * 1000:.0f}"
        print(f"  {name:<44}{statistics.median(values) * 1000:9.1f} ms  ({spread})")
    return {name: statistics.median(values) for name, values in taken.items()}


@functools.cache
def pace() -> float:
    """How much slower than the machine of the limits this one starts Python with the library of our commands.

    Limits in seconds hold on a machine where that takes `PACE_SECONDS`.
    """
    taken = statistics.median(seconds([sys.executable, "-c", "import typer"]) for _ in range(11))
    times = taken / PACE_SECONDS
    print(f"  this machine's pace: import typer in {taken:.3f} s, {times:.2f} times {PACE_SECONDS} s")
    return times


def judge(what: str, value: float, limit: float, unit: str = "", *, least: bool = False) -> None:
    """Print one line of the verdict; a limit that is a time is stretched by this machine's pace."""
    global failures
    stretched = f" x {pace():.2f}" if unit in (" s", " ms") else ""
    bound = limit * pace() if stretched else limit
    passed = value >= bound if least else value <= bound
    failures += not passed
    word = "at least" if least else "at most"
    print(f"{'pass' if passed else 'FAIL'}  {what}: {value:,.2f}{unit} ({word} {limit:,g}{unit}{stretched})")
