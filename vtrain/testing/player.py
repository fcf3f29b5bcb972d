"""A trainer that does what a script says: `python -m vtrain.testing.player STEPS`. Standard library only."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any


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
    for step in json.loads(sys.argv[1]):
        play(*step)
