"""Faults that nobody foresaw, while a container is watched: told once, and borne for some time only."""

from __future__ import annotations

import sys
import time
import traceback

from vtrain.engine.database import lacks_room

FAULT_PATIENCE_SECONDS = 60.0
"""How long the same fault is tried again."""
FORGOTTEN_SECONDS = 10.0
"""After so much time without it a fault counts as a new one."""


class Faults:
    """What went wrong last, and since when it has."""

    def __init__(self) -> None:
        self._place = ""
        self._since = 0.0
        self._last = 0.0

    def are_borne(self, fault: Exception) -> bool:
        """Whether to try again. The traceback goes to stderr, a file of the job, when the fault is a new one.

        A full disk is waited for: the engine keeps what is written meanwhile.
        """
        now, place = time.monotonic(), _place(fault)
        if place != self._place or now - self._last > FORGOTTEN_SECONDS:
            print("".join(traceback.format_exception(fault)), file=sys.stderr, flush=True)
            self._place, self._since = place, now
        self._last = now
        return lacks_room(fault) or now - self._since < FAULT_PATIENCE_SECONDS


def _place(fault: Exception) -> str:
    """Where the fault was raised, and its kind: its words may differ each time."""
    frames = traceback.extract_tb(fault.__traceback__)
    return f"{type(fault).__name__} {frames[-1].filename}:{frames[-1].lineno}" if frames else repr(fault)
