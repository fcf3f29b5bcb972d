"""A trainer that does what a script says: `python -m vtrain.testing.player STEPS`. Standard library only."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

_starts = 0


def play(action: str, value: Any) -> None:
    """Do one step."""
    if action in ("stdout", "stderr"):
        write(1 if action == "stdout" else 2, value)
    elif action == "count":
        write(1, "".join(f"line {number}\n" for number in range(value)))
    elif action == "sleep":
        time.sleep(value)
    elif action == "ignore":
        signal.signal(value, signal.SIG_IGN)
    elif action == "grandchild":
        leave_grandchild()
    elif action == "hang":
        while True:
            signal.pause()
    elif action == "exit":
        os._exit(value)
    elif action == "die":
        os.kill(os.getpid(), value)
    elif action == "crash_first" and starts() <= value:
        os.kill(os.getpid(), signal.SIGABRT)
    elif action == "hang_first" and starts() <= value:
        play("hang", 0)


def starts() -> int:
    """How often this replica has been started, this time included; AIP_CHECKPOINT_DIR keeps the count."""
    global _starts
    if not _starts:
        task = json.loads(os.environ["CLUSTER_SPEC"])["task"]
        folder = os.environ["AIP_CHECKPOINT_DIR"].replace("gs://", "/gcs/")
        with Path(folder, f"starts-{task['type']}-{task['index']}").open("a+b") as file:
            file.write(b".")
            _starts = file.tell()
    return _starts


def write(descriptor: int, text: str) -> None:
    """Write all of it now."""
    left = text.encode()
    while left:
        left = left[os.write(descriptor, left) :]


def leave_grandchild() -> None:
    """A process that wants to live on, as a careless data loader does."""
    child = os.fork()
    if child:
        write(1, f"{child}\n")
        return
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
    os._exit(0)


if __name__ == "__main__":
    steps = json.loads(sys.argv[1])
    if any(action.endswith("_first") for action, _ in steps):
        starts()  # before anything is seen of this start, after which it may be ended
    for step in steps:
        play(*step)
