"""Cloud Storage at an address of this machine, for tests: vtrain's own, served from a thread."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class StorageEndpoint(NamedTuple):
    """A running service: what `STORAGE_EMULATOR_HOST` is to be, and the home whose buckets it serves."""

    url: str
    home: Path

    @property
    def buckets(self) -> Path:
        """The folder of the buckets."""
        return self.home / "buckets"


@contextmanager
def storage_service(home: Path, admission: Any = None) -> Iterator[StorageEndpoint]:
    """Serve the buckets of a home, with an `Admission` of the emulator's; needs the extra `emulator`."""
    from vtrain.emulator.http_server import address, listen, make_server
    from vtrain.emulator.storage.guard import Admission
    from vtrain.emulator.storage.storage_app import make_app

    with listen("127.0.0.1", 0) as listener:
        server = make_server(make_app(home, admission or Admission()))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield StorageEndpoint(address(listener), home)
        finally:
            server.should_exit = True
            thread.join()


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Http:
    """A connection that stays open, for requests that no client library makes, below the path of a URL."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.prefix = urlsplit(url).path
        self.connection = HTTPConnection(urlsplit(url).netloc, timeout=30)

    def __call__(
        self, method: str, path: str, body: bytes | dict[str, Any] | None = None, **headers: str
    ) -> Reply:
        """Send one request; a dictionary goes as JSON, `_` in header names stands for `-`."""
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, self.prefix + path, data, named)
        response = self.connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, found, response.read())
