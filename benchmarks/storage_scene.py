"""The storage emulator in a process of its own, which counts what it receives, and may answer late."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

COUNT = "/count"


@contextmanager
def storage_server(home: Path, delay: float = 0.0) -> Iterator[str]:
    """Serve the buckets of a home at the URL that is yielded; each answer waits `delay` seconds."""
    argv = [sys.executable, __file__, str(home), str(delay)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def bytes_received(url: str) -> int:
    """Bytes of request bodies since the server was started."""
    with urlopen(url + COUNT, timeout=10) as answer:
        return int(answer.read())


def main() -> None:
    import uvicorn

    from vtrain.emulator.http_server import address, listen
    from vtrain.emulator.storage.storage_app import make_service

    app, delay, received = make_service(Path(sys.argv[1])), float(sys.argv[2]), 0

    async def counted(scope: Any, receive: Any, send: Any) -> None:
        nonlocal received

        async def count() -> Any:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            return message

        if scope["type"] == "http" and scope["path"] == COUNT:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"%d" % received})
            return
        if scope["type"] == "http":
            await asyncio.sleep(delay)
        await app(scope, count, send)

    with listen("127.0.0.1", 0) as listener:
        print(address(listener), flush=True)
        uvicorn.Server(uvicorn.Config(counted, log_config=None, access_log=False)).run(sockets=[listener])


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    main()
