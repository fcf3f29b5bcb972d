"""A trainer that numbers its lines and keeps books of them, where no kill can take them back.

Each start is a run with a number and a book of its own in AIP_CHECKPOINT_DIR: how many lines it has written.
So a test knows what has to be in the log. It writes until the file `enough` is there. Standard library only.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ERROR_LINES = 7
"""Every line with a number that this divides goes to stderr."""
CRASH_AFTER = 10


def replica_name() -> str:
    """`workerpool1-0`, from what the replica is told."""
    task = json.loads(os.environ["CLUSTER_SPEC"])["task"]
    return f"{'workerpool0' if task['type'] == 'chief' else task['type']}-{task['index']}"


def checkpoints() -> Path:
    """The job's checkpoints; on docker a bucket is mounted."""
    place = os.environ["AIP_CHECKPOINT_DIR"]
    return Path("/gcs/" + place.removeprefix("gs://") if place.startswith("gs://") else place)


def open_book(folder: Path) -> tuple[int, int]:
    """The number of this run, and its book."""
    for run in itertools.count():
        try:
            return run, os.open(folder / f"{replica_name()}.run{run}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            continue
    raise AssertionError


def write_lines(folder: Path, run: int, book: int, lines: int, pause: float, *, halves: bool) -> None:
    """Write lines, or each in two halves, until there are as many, or until the test has enough."""
    for number in range(lines):
        if (folder / "enough").exists():
            return
        beginning, end = b"run %d " % run, b"line %d\n" % number
        for piece in (beginning, end) if halves else (beginning + end,):
            os.write(2 if number % ERROR_LINES == 0 else 1, piece)
        os.pwrite(book, b"%012d" % (number + 1), 0)
        time.sleep(pause)


def main() -> None:
    options = json.loads(sys.argv[1])
    folder = checkpoints()
    run, book = open_book(folder)
    if options.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.get("grandchild"):
        subprocess.Popen(["sh", "-c", "trap '' TERM; exec sleep 600"], start_new_session=True)
    crashes = options.get("crashes", [])
    lines = CRASH_AFTER if run < len(crashes) else options.get("lines", sys.maxsize)
    pause, halves = options.get("pause", 0.02), bool(options.get("halves"))
    write_lines(folder, run, book, lines, pause, halves=halves)
    os._exit(crashes[run] if run < len(crashes) else options.get("code", 0))


if __name__ == "__main__":
    main()
