"""A proxy for gRPC (HTTP CONNECT): connections to Vertex AI end at the emulator.

So do those to Resource Manager, which Google's library asks for the id of a project. All others are refused,
and so are clients that do not send the token, as gRPC does for the user information of `grpc_proxy`.
"""

from __future__ import annotations

import asyncio
import re
import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from vtrain.emulator.storage.guard import has_token

EMULATED = re.compile(
    r"(?:(?:[a-z0-9-]{1,60}-)?aiplatform|cloudresourcemanager)\.googleapis\.com:443", re.IGNORECASE
)
LARGEST_HEAD = 16 * 1024
HEAD_SECONDS = 10.0
LAST_SECONDS = 10.0
"""The time in which a client has to read what is left, and to hang up, once the server has done so."""
MOST_CLIENTS = 150
"""At the same time. Each holds three descriptors, and a process has 1024 of them."""
_FULL = "Refused: {} clients are connected to the emulator's proxy for gRPC. End some of them."
_CONNECTION_ERRORS = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.TimeoutError)
_BLOCK = 64 * 1024


@contextmanager
def proxying(server: Path, token: str) -> Iterator[int]:
    """A block during which the proxy runs, to a Unix socket; its own port. Without a token all may use it."""
    loop = asyncio.new_event_loop()
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    thread = threading.Thread(target=_run, args=(loop, listener, server, token), daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        listener.close()


def _run(loop: asyncio.AbstractEventLoop, listener: socket.socket, target: Path, token: str) -> None:
    serving: set[asyncio.Task[None] | None] = set()
    """The loop itself does not keep tasks that wait: it would lose one with a client that only listens."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = asyncio.current_task()
        serving.add(own)
        try:
            # When the proxy ends, it cancels this task. asyncio would log that as a fault.
            with suppress(*_CONNECTION_ERRORS, asyncio.CancelledError):
                async with _closing(writer):
                    if len(serving) <= MOST_CLIENTS:
                        await _serve(reader, writer, target, token)
                    else:
                        await _refuse(writer, "503 Service Unavailable", _FULL.format(MOST_CLIENTS))
        finally:
            serving.discard(own)

    asyncio.set_event_loop(loop)
    starting = loop.create_task(asyncio.start_server(connected, sock=listener, limit=LARGEST_HEAD))
    loop.run_forever()  # it may be over before the server has started
    loop.run_until_complete(starting).close()
    loop.run_until_complete(asyncio.sleep(0))  # what was accepted a moment ago begins
    while tasks := asyncio.all_tasks(loop):
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(asyncio.sleep(0))
    loop.close()


async def _serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: Path, token: str
) -> None:
    """Answer one CONNECT, and hand bytes on both ways until one side ends."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_SECONDS)
    method, _, rest = head.decode("latin-1").partition(" ")
    if token and not _has_token(rest, token):
        await _refuse(writer, "407 Proxy Authentication Required", "")
        return
    target = rest.partition(" ")[0]
    if method != "CONNECT" or not EMULATED.fullmatch(target):
        asked = f"{method} {target}"[:200]
        await _refuse(writer, "403 Forbidden", f"Refused, as it would leave this machine: {asked!r}")
        return
    inner_reader, inner_writer = await asyncio.open_unix_connection(server)
    async with _closing(inner_writer):
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await writer.drain()
        await asyncio.gather(_copy(reader, inner_writer), _answer(inner_reader, writer))


def _has_token(head: str, token: str) -> bool:
    """Whether a request's headers have the token as a password."""
    found = re.search(r"^proxy-authorization:[ \t]*([^\r\n]*)", head, re.IGNORECASE | re.MULTILINE)
    return has_token([found[1]] if found else [], token)


async def _refuse(writer: asyncio.StreamWriter, status: str, sentence: str) -> None:
    if sentence:
        print(sentence, file=sys.stderr, flush=True)
    writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
    await writer.drain()


@asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """A block with a connection, which ends when all is sent; at once after an error: nobody may take it."""
    try:
        yield
        writer.close()
        await writer.wait_closed()
    except BaseException:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()
        raise


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand on what the server says; then the client has a while to hang up."""
    await _copy(reader, writer)
    asyncio.get_running_loop().call_later(LAST_SECONDS, writer.transport.abort)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while block := await reader.read(_BLOCK):
            writer.write(block)
            await writer.drain()
    finally:
        if writer.can_write_eof():
            with suppress(OSError):
                writer.write_eof()
