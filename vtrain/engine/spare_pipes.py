"""A second reading end of a replica's pipes, so that what a killed shim had not read yet is not lost.

The supervisor opens them in /proc while the shim lives, and reads from them only when it is gone. Where the
kernel has no /proc, or shim and supervisor die together, the lines that nobody had read are lost.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from vtrain.engine.folder import DamagedFileError, ReplicaFolder, ReplicaOrder, read_struct, require_struct
from vtrain.engine.journal import STDERR, STDOUT, JournalWriter

PATIENCE_SECONDS = 2.0
"""How long the writers, which were killed, may take to be gone."""
_BLOCK_BYTES = 65536


class _Started(msgspec.Struct):
    """What a shim tells of the program it has started: the numbers of its pipes, stdout first."""

    pipes: tuple[int, ...] = ()


def open_pipes(replica: ReplicaFolder, shim: int) -> dict[int, int]:
    """Stream by descriptor of a living shim's pipes; empty where they cannot be had."""
    try:
        started = read_struct(replica.path / "started.json", _Started)
    except DamagedFileError:
        started = None
    found: dict[int, int] = {}
    for number, stream in zip(started.pipes if started else (), (STDOUT, STDERR), strict=False):
        path = Path(f"/proc/{shim}/fd/{number}")
        try:
            if str(path.readlink()).startswith("pipe:"):  # its number may be another file's by now
                found[os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)] = stream
        except OSError:
            continue
    return found


def salvage(replica: ReplicaFolder, pipes: dict[int, int]) -> None:
    """Store what is left in the pipes of a shim that is gone, as are all that could write to them.

    Raises DamagedFileError where the replica's order cannot be read; the pipes are closed then.
    """
    try:
        order = require_struct(replica.path / "spec.json", ReplicaOrder)
    except DamagedFileError:
        close(pipes)
        raise
    with _journal(order) as journal:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while pipes and time.monotonic() < deadline:
            for pipe in select.select([*pipes], [], [], max(deadline - time.monotonic(), 0))[0]:
                block = os.read(pipe, _BLOCK_BYTES)
                if block:
                    journal.write(block, pipes[pipe])
                else:
                    os.close(pipe)
                    del pipes[pipe]
    close(pipes)


def close(pipes: dict[int, int]) -> None:
    """Let the pipes go."""
    while pipes:
        os.close(pipes.popitem()[0])


@contextmanager
def _journal(order: ReplicaOrder) -> Iterator[JournalWriter]:
    journal = JournalWriter(order.log, order.attempt, goes_on=True)
    try:
        yield journal
    finally:
        journal.close()
