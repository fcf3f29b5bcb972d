"""The replicas as one group, and what to do when one of them is lost or this one has to go."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from traceback import clear_frames

import torch.distributed as dist

# DistributedDataParallel loads this module. Its functions keep the group that there is by then as a default,
# and so the group's threads; one that needs Python's lock when Python has ended ends the replica by SIGABRT.
import torch.distributed.nn  # noqa: F401

ALONE = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "WORLD_SIZE": "1", "RANK": "0"}
"""A job of one replica does not get these variables."""

START_PATIENCE = timedelta(minutes=30)
"""Replicas do not start at the same moment: machines are found one by one."""

RESTART_PATIENCE = 300.0
"""Seconds for which a replica that has lost another waits to be restarted with it."""

_told: list[int] = []


@contextmanager
def joined() -> Iterator[None]:
    """Meet the others, at the address that the environment names.

    A model of all replicas must be gone when this ends: make it in a function that is called inside.
    """
    for name, value in ALONE.items():
        os.environ.setdefault(name, value)
    dist.init_process_group("gloo", init_method="env://", timeout=START_PATIENCE)
    try:
        yield
    except BaseException as error:
        clear_frames(error.__traceback__)  # their variables hold the model
        raise
    finally:
        # A DistributedDataParallel that is freed after this waits for the group's threads, and holds Python's
        # lock. One of them may need that lock, to free a tensor: the replica then hangs, or ends by SIGABRT.
        dist.destroy_process_group()


def note_sigterm() -> None:
    """From now on SIGTERM is only noted, for the loop to save and end between two steps."""
    signal.signal(signal.SIGTERM, lambda number, _: _told.append(number))


def has_to_go() -> bool:
    """True once SIGTERM has come: the job is stopped, or this machine is taken away."""
    return bool(_told)


def is_loss(error: RuntimeError) -> bool:
    """True where torch says that another replica does not answer any more."""
    return isinstance(error, getattr(dist, "DistError", ())) or "gloo" in str(error).lower()


def await_restart() -> None:
    """Wait for the SIGTERM with which all replicas are restarted when one was lost.

    To end with an error instead would tell Vertex AI that the trainer is broken: that fails the job.
    """
    deadline = time.monotonic() + RESTART_PATIENCE
    while not _told and time.monotonic() < deadline:
        time.sleep(0.1)
