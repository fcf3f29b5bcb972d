"""The sleep of a supervisor: until a write to its FIFO, another readable descriptor, or a timeout."""

from __future__ import annotations

import os
import select
from contextlib import suppress
from pathlib import Path

from vtrain.atomic import rename_damaged


class Wakeup:
    """The reading end of the job's FIFO."""

    def __init__(self, fifo: Path) -> None:
        if not fifo.is_fifo():
            if os.path.lexists(fifo):
                rename_damaged(fifo)
            os.mkfifo(fifo, 0o600)
        # Opened for writing too, so that it never reports an end of file when a writer leaves.
        self._descriptor = os.open(fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        """Hear nothing any more."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def wait(self, seconds: float, *others: int) -> None:
        """Sleep at most that long; `others` are further descriptors that wake."""
        ready, _, _ = select.select([self._descriptor, *others], [], [], seconds)
        if self._descriptor in ready:
            with suppress(BlockingIOError):  # another supervisor, which is about to leave, has read it
                os.read(self._descriptor, 65536)
