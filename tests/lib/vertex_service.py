"""A wire to the emulator's API, which keeps what is sent over it and plays its faults.

Behind it is the emulator itself, called in process, over resources that lie on a shelf (`vertex_shelf`).
No job runs; tests of jobs that run take `emulator_service`.

with serve_vertex() as service:
    service.fail(503, times=2)                       the next two requests
    service.drop("POST", handled=True)               the next POST is carried out, its answer is lost
    ... service.url, service.requests, service.resources ...
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest

if TYPE_CHECKING:
    from lib.vertex_shelf import Shelf

STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class Request(NamedTuple):
    """One request as it came in; `path` is decoded, `body` the document in it (None: there was none)."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    target: str
    data: bytes


class Fault(NamedTuple):
    """What happens to a request instead of, or after, what it asks for."""

    method: str
    status: int
    body: bytes
    headers: dict[str, str]
    handled: bool
    seconds: float
    path: str = ""

    def meets(self, request: Request) -> bool:
        """Whether it is about this request."""
        return self.method in ("", request.method) and request.path.endswith(self.path)


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]


class VertexService:
    """What was sent, and the script of the faults; `resources` are the emulator's, by their full names.

    `polls_until_done` is how often an operation is asked about before it is done.
    """

    def __init__(self, shelf: Shelf, api: EmulatedApi) -> None:
        self.url = ""
        self.requests: list[Request] = []
        self.operations: dict[str, int] = {}
        self.polls_until_done = 0
        self.connections = 0
        self.tells_time = True
        self.resources: MutableMapping[str, dict[str, Any]] = shelf.documents
        self.put, self.move = shelf.put, shelf.move
        self.home = api.home
        self._api = api
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def fail(
        self,
        status: int,
        message: str = "Try again.",
        *,
        method: str = "",
        times: int = 1,
        headers: dict[str, str] | None = None,
        details: list[dict[str, Any]] | None = None,
    ) -> None:
        """Refuse the next requests (of `method`) in the API's envelope."""
        self.answer(
            error_body(status, message, details), status=status, method=method, times=times, headers=headers
        )

    def answer(
        self,
        body: bytes,
        *,
        status: int = 200,
        method: str = "",
        times: int = 1,
        headers: dict[str, str] | None = None,
        handled: bool = False,
        path: str = "",
    ) -> None:
        """Answer the next requests (of `method`, to what ends with `path`) with these bytes.

        They are not carried out before, unless they are to be `handled`.
        """
        self._faults += [Fault(method, status, body, headers or {}, handled, 0, path)] * times

    def drop(self, method: str = "", *, handled: bool = False, times: int = 1) -> None:
        """Close the connection instead of answering the next requests, carried out before or not."""
        self._faults += [Fault(method, 0, b"", {}, handled, 0)] * times

    def delay(self, seconds: float, method: str = "") -> None:
        """Answer the next request (of `method`) late."""
        self._faults.append(Fault(method, -1, b"", {}, True, seconds))

    def calls(self) -> list[str]:
        """The requests so far in short: `POST /v1/projects/…`."""
        return [f"{request.method} {request.path}" for request in self.requests]

    def take_fault(self, request: Request) -> Fault | None:
        """The fault that this request meets."""
        with self._lock:
            for fault in self._faults:
                if fault.meets(request):
                    self._faults.remove(fault)
                    return fault
        return None

    def handle(self, request: Request) -> Answer:
        """What the emulator answers; its operations may seem to take longer."""
        answer = self._api.ask(request)
        if b"/operations/" not in answer.body:
            return answer
        document = json.loads(answer.body)
        with self._lock:
            for operation in document.get("operations", [document]):
                self._play_operation(request, operation)
        return answer._replace(body=json.dumps(document).encode())

    def _play_operation(self, request: Request, operation: dict[str, Any]) -> None:
        name = str(operation.get("name"))
        polls = self.operations.setdefault(name, 0)
        if request.method == "GET" and request.path.endswith(name):
            polls = self.operations[name] = polls + 1
        if polls < self.polls_until_done:
            for field in ("done", "response", "error"):
                operation.pop(field, None)


class EmulatedApi:
    """The emulator's application, called without a connection, by a loop in a thread of its own."""

    def __init__(self, home: Path, shelf: Shelf) -> None:
        from starlette.applications import Starlette

        from lib.vertex_shelf import ShelfService
        from vtrain.emulator.vertex.rest import api_routes

        self.home = home
        self.crashes: list[BaseException] = []
        self._app = Starlette(routes=api_routes(ShelfService(home, shelf)))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def ask(self, request: Request) -> Answer:
        """The answer to a request."""
        try:
            return asyncio.run_coroutine_threadsafe(self._ask(request), self._loop).result()
        except Exception as crash:
            self.crashes.append(crash)
            raise

    async def _ask(self, request: Request) -> Answer:
        target = urlsplit(request.target)
        scope = {
            "type": "http",
            "http_version": "1.1",
            "scheme": "http",
            "server": ("127.0.0.1", 80),
            "root_path": "",
            "method": request.method,
            "path": request.path,
            "raw_path": target.path.encode(),
            "query_string": target.query.encode(),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in request.headers.items()],
        }
        parts: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": request.data, "more_body": False}

        async def send(part: Any) -> None:
            parts.append(part)

        await self._app(scope, receive, send)
        headers = {name.decode(): value.decode("latin-1") for name, value in parts[0]["headers"]}
        return Answer(parts[0]["status"], b"".join(part["body"] for part in parts[1:]), headers)

    def close(self) -> None:
        """End the loop, once all requests are answered."""
        asyncio.run_coroutine_threadsafe(_others(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _others() -> None:
    """Wait for the other tasks of the loop."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*tasks, return_exceptions=True)


def error_body(code: int, message: str, details: list[dict[str, Any]] | None = None) -> bytes:
    """The API's envelope of an error."""
    error: dict[str, Any] = {"code": code, "message": message, "status": STATUSES.get(code, "UNKNOWN")}
    if details:
        error["details"] = details
    return json.dumps({"error": error}).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    service: VertexService
    connections: set[socket.socket]

    def setup(self) -> None:
        super().setup()
        self.connections.add(self.connection)
        self.service.connections += 1

    def finish(self) -> None:
        self.connections.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""

    def do_GET(self) -> None:
        target = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        data = self.rfile.read(length)
        request = Request(
            self.command,
            unquote(target.path),
            dict(parse_qsl(target.query, keep_blank_values=True)),
            {key.lower(): value for key, value in self.headers.items()},
            json.loads(data) if data else None,
            self.path,
            data,
        )
        self.service.requests.append(request)
        fault = self.service.take_fault(request)
        answer = self.service.handle(request) if fault is None or fault.handled else Answer(0, b"", {})
        if fault is not None:
            time.sleep(fault.seconds)
            if fault.status == 0:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if fault.status > 0:
                answer = Answer(fault.status, fault.body, fault.headers)
        self._send(answer)

    do_POST = do_DELETE = do_PATCH = do_GET

    def _send(self, answer: Answer) -> None:
        self.send_response_only(answer.status)
        if self.service.tells_time:
            self.send_header("Date", self.date_time_string())
        headers = {"content-type": "application/json; charset=UTF-8"}
        headers |= {name.lower(): value for name, value in answer.headers.items()}
        for key, value in {**headers, "content-length": str(len(answer.body))}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(answer.body)


class _Server(ThreadingHTTPServer):
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is none of our business."""


@contextmanager
def serve_vertex(certificate: Path | None = None) -> Iterator[VertexService]:
    """The service on a free port of 127.0.0.1, until the block ends; over TLS with a certificate and key.

    Skips the test where the extra `emulator` is not installed.
    """
    pytest.importorskip("starlette", reason="needs the extra emulator")
    from lib.vertex_shelf import Shelf

    shelf = Shelf()
    with tempfile.TemporaryDirectory() as home:
        api = EmulatedApi(Path(home), shelf)
        try:
            with _listening(VertexService(shelf, api), certificate) as service:
                yield service
        finally:
            api.close()
    assert api.crashes == []


@contextmanager
def _listening(service: VertexService, certificate: Path | None) -> Iterator[VertexService]:
    connections: set[socket.socket] = set()
    handler = type("Handler", (_Handler,), {"service": service, "connections": connections})
    server = _Server(("127.0.0.1", 0), handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "http" if certificate is None else "https"
    service.url = f"{scheme}://127.0.0.1:{server.server_address[1]}/"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        thread.join()
        for connection in list(connections):
            _hang_up(connection)
        server.server_close()


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the client was faster
