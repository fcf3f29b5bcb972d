"""A relay in front of a storage service: counts what goes through, and breaks it as it is told to.

with storage_relay(endpoint.url) as relay:
    relay.refuse(503, times=2)            the next two uploads are answered so
    relay.cut(after=1_000_000)            the next upload's connection breaks after so many bytes
    relay.lose_answer()                   the next upload is carried out, its answer is lost
    ... relay.url, relay.requests, relay.bytes_up ...
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

from lib.serving import serving
from vtrain.staging.cloud_client import Settings

PIECE = 64 * 1024
QUICK = Settings(first_wait=0.01, longest_wait=0.02, give_up_after=5.0, timeout=10.0)
"""Pauses that nobody notices."""


class Passed(NamedTuple):
    """One request, and what it was answered with (0: the connection was cut)."""

    method: str
    target: str
    size: int
    status: int
    authorization: str


class Fault(NamedTuple):
    """What happens to a request whose method and target fit."""

    fits: Callable[[str, str], bool]
    status: int = 0
    after: int | None = None
    handled: bool = False
    body: bytes = b""


def is_upload(method: str, target: str) -> bool:
    return method in ("POST", "PUT") and "/upload/" in target


class StorageRelay:
    """What went through, and what is to go wrong next. `before` is called ahead of each request."""

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream).netloc
        self.url = ""
        self.delay = 0.0
        self.before: Callable[[str, str], None] = lambda _method, _target: None
        self.requests: list[Passed] = []
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    @property
    def bytes_up(self) -> int:
        """Bytes of content that were sent up."""
        return sum(passed.size for passed in self.requests if is_upload(passed.method, passed.target))

    @property
    def uploads(self) -> list[Passed]:
        return [passed for passed in self.requests if is_upload(passed.method, passed.target)]

    def refuse(
        self,
        status: int,
        times: int = 1,
        fits: Callable[[str, str], bool] = is_upload,
        message: str = "The relay was told to.",
    ) -> None:
        """Answer the next requests that fit with an error."""
        body = json.dumps({"error": {"code": status, "message": message}}).encode()
        self._faults += [Fault(fits=fits, status=status, body=body)] * times

    def answer(self, body: bytes, fits: Callable[[str, str], bool]) -> None:
        """Answer the next request that fits with a document of the test's."""
        self._faults.append(Fault(fits=fits, status=200, body=body))

    def cut(self, after: int, fits: Callable[[str, str], bool] = is_upload) -> None:
        """Break the connection of the next request that fits, when so many bytes of it went through."""
        self._faults.append(Fault(fits=fits, after=after))

    def lose_answer(self, fits: Callable[[str, str], bool] = is_upload) -> None:
        """Break the connection of the next request that fits when it was handled."""
        self._faults.append(Fault(fits=fits, handled=True))

    def take_fault(self, method: str, target: str) -> Fault | None:
        with self._lock:
            found = next((fault for fault in self._faults if fault.fits(method, target)), None)
            if found is not None:
                self._faults.remove(found)
            return found


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    relay: StorageRelay

    def do_GET(self) -> None:
        relay = self.relay
        time.sleep(relay.delay)
        relay.before(self.command, self.path)
        size = int(self.headers.get("Content-Length") or 0)
        fault = relay.take_fault(self.command, self.path)
        if fault is not None and fault.after is not None:
            self._cut(size, fault.after)
        elif fault is not None and fault.handled:
            self._lose(size)
        elif fault is not None:
            self.rfile.read(size)
            self._note(size, fault.status)
            self._answer(fault.status, fault.body, {"Content-Type": "application/json"})
        else:
            self._pass_on(size)

    do_POST = do_PUT = do_DELETE = do_PATCH = do_GET

    def _pass_on(self, size: int) -> None:
        with closing(self._send(size, size)) as connection:
            answer = connection.getresponse()
            body = answer.read()
            headers = {
                key: value
                for key, value in answer.getheaders()
                if key.lower() not in ("content-length", "transfer-encoding", "connection", "date")
            }
            self._note(size, answer.status)
            self._answer(answer.status, body, headers)

    def _lose(self, size: int) -> None:
        with closing(self._send(size, size)) as connection:
            connection.getresponse().read()
        self._hang_up(size)

    def _cut(self, size: int, after: int) -> None:
        self._send(size, after).close()
        self._hang_up(after)

    def _hang_up(self, size: int) -> None:
        self._note(size, 0)
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _send(self, size: int, passed_on: int) -> HTTPConnection:
        connection = HTTPConnection(self.relay.upstream, timeout=30)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for key, value in self.headers.items():
            connection.putheader(key, value)
        connection.endheaders()
        left = min(size, passed_on)
        while left and (piece := self.rfile.read(min(left, PIECE))):
            connection.send(piece)
            left -= len(piece)
        return connection

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _note(self, size: int, status: int) -> None:
        authorization = self.headers.get("Authorization", "")
        self.relay.requests.append(Passed(self.command, self.path, size, status, authorization))

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def storage_relay(upstream: str) -> Iterator[StorageRelay]:
    """A relay on a free port of loopback."""
    relay = StorageRelay(upstream)
    handler = type("Handler", (_Handler,), {"relay": relay})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    relay.url = f"http://127.0.0.1:{server.server_address[1]}"
    with serving(server):
        yield relay
