"""Logs of a container: 1,000,000 lines of 86 bytes, all stored, in order; and the memory of its supervisor.

The rate is that of the trainer's life: from its start until its last line is stored. Memory is the
largest PSS.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import measure
from docker_scene import docker_scene
from logs import LINES as LINES_OF_TRAINER
from logs import TRAINER, job_folder, pss_of, rate
from measure import VTRAIN, arguments, judge

LINES = 1_000_000
STORED = 40_000
MEGABYTES = 45


class Taken(NamedTuple):
    """Lines stored per second, and megabytes of the supervisor."""

    rate: float
    megabytes: float


def main() -> int:
    options = arguments(__doc__, runs=3, image=True)
    with docker_scene() as folder:
        code = folder / "code"
        code.mkdir()
        (code / "task.py").write_text(TRAINER.replace(str(LINES_OF_TRAINER), str(LINES)))
        taken = [measured(folder, code, options.image) for _ in range(options.runs)]
    for one in taken:
        print(f"  {one.rate:,.0f} lines/s; {one.megabytes:.1f} MB")
    judge(
        f"lines stored, of {LINES:,}",
        statistics.median(one.rate for one in taken),
        STORED,
        " lines/s",
        least=True,
    )
    judge("supervisor, PSS", max(one.megabytes for one in taken), MEGABYTES, " MB")
    return min(measure.failures, 1)


def measured(folder: Path, code: Path, image: str) -> Taken:
    """One job to its end, its supervisor watched; every line has to be in the raw log, in order."""
    argv = [*VTRAIN, "custom-jobs", "create", "--backend=docker", "--display-name=logs", "--script=task.py"]
    argv += [f"--executor-image-uri={image}", f"--local-package-path={code}", "--format=value(name)"]
    name = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
    job = job_folder(folder, name)
    largest = 0.0
    with subprocess.Popen(
        [*VTRAIN, "custom-jobs", "wait", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as waiting:
        while waiting.poll() is None:
            largest = max(largest, sum(pss_of(f"supervise.py\0{job}")))  # and not the program that prepares
            time.sleep(0.1)
    if waiting.returncode != 0:
        raise SystemExit(f"{name} ended with {waiting.returncode}")
    return Taken(rate(job / "logs" / "workerpool0-0.0.log", LINES), largest)


if __name__ == "__main__":
    sys.exit(main())
