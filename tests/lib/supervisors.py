"""The processes that look after jobs, for tests that kill them."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from pathlib import Path

from vtrain.backends import SUPERVISE
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.supervisor_process import start_supervisor

START = partial(start_supervisor, SUPERVISE)
"""Starts a job's supervisor as every command does."""


def supervisor_of(folder: JobFolder) -> int:
    """The process of a job's supervisor; 0 when none lives."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = [*(entry / "cmdline").read_bytes().split(b"\0"), b""]
            if words[1].endswith(b"/supervise.py") and os.fsencode(folder.path) in words:
                return int(entry.name)
    return 0


def living_supervisor(folder: JobFolder) -> int:
    """The process of a job's supervisor, which has to live: to kill(2) 0 would mean all of our own group."""
    found = supervisor_of(folder)
    assert found > 0, f"{folder.path} has no supervisor"
    return found
