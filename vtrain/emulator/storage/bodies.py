"""Request bodies, with a limit on their size and on the time between two parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from vtrain.emulator.storage.storage_refusals import StorageRefusal

LARGEST_DOCUMENT = 10 << 20
"""Bytes of a JSON body, and of a batch: the limit that Cloud Storage has for a batch."""
LARGEST_OBJECT = 5 << 40
"""Bytes of an object, as on Cloud Storage."""
LARGEST_REST = 64 << 20
"""Bytes that are read after a refusal: a client that is still sending would not see the response."""
STALL_SECONDS = 60.0
"""Within this time a body has to grow by `LEAST_BYTES`, or to end."""
LEAST_BYTES = 64 * 1024
WRITTEN_AT_ONCE = 1 << 20
"""Bytes that are gathered before a thread writes them."""


async def receive_body(request: Request) -> bytes:
    """A whole body in memory. Raises StorageRefusal for one that is too large or too slow."""
    pieces: list[bytes] = []
    await receive(request, pieces.append, LARGEST_DOCUMENT)
    return b"".join(pieces)


async def receive(request: Request, write: Callable[[bytes], object], limit: int) -> None:
    """Pass a body to `write` in large pieces, including the part before a connection broke off.

    Raises StorageRefusal for one that is too large or too slow.
    """
    gathering = _Gathering(write)
    received, mark = 0, 0
    try:
        with anyio.move_on_after(STALL_SECONDS) as patience:
            async for piece in request.stream():
                received += len(piece)
                if received > limit:
                    raise StorageRefusal(413, "uploadTooLarge", f"The body has more than {limit} bytes.")
                await gathering.add(piece)
                if received - mark >= LEAST_BYTES:
                    mark, patience.deadline = received, anyio.current_time() + STALL_SECONDS
        if patience.cancelled_caught:
            sentence = f"The body grew by fewer than {LEAST_BYTES} bytes in {STALL_SECONDS:g} seconds."
            raise StorageRefusal(408, "requestTimeout", sentence)
    finally:
        await gathering.flush()


async def drain(request: Request) -> None:
    """Read the rest of a body, up to `LARGEST_REST`."""
    try:
        await receive(request, lambda _: None, LARGEST_REST)
    except (StorageRefusal, RuntimeError):  # it is too large or too slow, or it has been read to its end
        return


class _Gathering:
    """A buffer of pieces that a thread writes together."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._pieces: list[bytes] = []
        self._size = 0

    async def add(self, piece: bytes) -> None:
        """Buffer a piece, and write when there is enough."""
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size >= WRITTEN_AT_ONCE:
            await self.flush()

    async def flush(self) -> None:
        """Write the buffered pieces."""
        full, self._pieces, self._size = self._pieces, [], 0
        await run_in_threadpool(_write_all, self._write, full)


def _write_all(write: Callable[[bytes], object], pieces: Iterable[bytes]) -> None:
    """Write piece by piece: joining them would copy every byte once more."""
    for piece in pieces:
        write(piece)
