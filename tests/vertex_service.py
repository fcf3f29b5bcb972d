"""What the emulator cannot play of Vertex AI: faults on the wire, resources in any state, kept requests.

It stores resources and answers requests about them. No job runs; tests of jobs that run take the emulator.

with serve_vertex() as service:
    service.fail(503, times=2)                       the next two requests
    service.drop("POST", handled=True)               the next POST is carried out, its answer is lost
    ... service.url, service.requests, service.resources ...
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from model_service import answer_models

from vtrain.emulator.api.filters import read_filter
from vtrain.emulator.api.refusals import Refusal as FilterRefusal

ENDED = ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED")
LONG_RUNNING = "persistentResources"
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


class Fault(NamedTuple):
    """What happens to a request instead of, or after, what it asks for."""

    method: str
    status: int
    body: bytes
    headers: dict[str, str]
    handled: bool
    seconds: float


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]


class Refusal(Exception):
    """An error of the API."""

    def __init__(self, code: int, message: str, status: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.status = status


class VertexService:
    """The state of the service, and the script of its faults."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[Request] = []
        self.resources: dict[str, dict[str, Any]] = {}
        self.operations: dict[str, dict[str, Any]] = {}
        self.polls_until_done = 0
        self.connections = 0
        self.tells_time = True
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._last_id = 10**18

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
    ) -> None:
        """Answer the next requests (of `method`) with these bytes; nothing is carried out."""
        self._faults += [Fault(method, status, body, headers or {}, False, 0)] * times

    def drop(self, method: str = "", *, handled: bool = False, times: int = 1) -> None:
        """Close the connection instead of answering the next requests, carried out before or not."""
        self._faults += [Fault(method, 0, b"", {}, handled, 0)] * times

    def delay(self, seconds: float, method: str = "") -> None:
        """Answer the next request (of `method`) late."""
        self._faults.append(Fault(method, -1, b"", {}, True, seconds))

    def put(self, name: str, **document: Any) -> dict[str, Any]:
        """Keep a resource, as if somebody else had created it; the newest of all."""
        self.resources[name] = {"name": name, "createTime": now(), **document}
        return self.resources[name]

    def move(self, name: str, *states: str, **fields: Any) -> bool:
        """Change a resource, if it is still in one of these states."""
        with self._lock:
            resource = self.resources.get(name, {})
            if resource.get("state") not in states:
                return False
            self.resources[name] = resource | fields  # whoever is writing the old one out is not disturbed
            return True

    def calls(self) -> list[str]:
        """The requests so far in short: `POST /v1/projects/…`."""
        return [f"{request.method} {request.path}" for request in self.requests]

    def take_fault(self, method: str) -> Fault | None:
        """The fault that this request meets."""
        with self._lock:
            for fault in self._faults:
                if fault.method in ("", method):
                    self._faults.remove(fault)
                    return fault
        return None

    def handle(self, request: Request) -> Answer:
        """What the API does with the request."""
        with self._lock:
            try:
                document = self._route(request)
            except Refusal as refusal:
                return Answer(refusal.code, error_body(refusal.code, str(refusal), status=refusal.status), {})
        return Answer(200, json.dumps(document).encode(), {})

    def _route(self, request: Request) -> dict[str, Any]:
        match = re.fullmatch(
            r"/(?:v1|v1beta1|ui)/(projects/[^/]+/locations/[^/]+)/([^/]+)(/[^:]+)?(:\w+)?", request.path
        )
        if match is None:
            raise Refusal(404, f"No such method: {request.path}")
        parent, collection, rest, verb = match.groups()
        name = f"{parent}/{collection}{rest or ''}"
        if "/operations/" in name:
            return self._operation(name)
        if collection.partition(":")[0] == "models":
            return answer_models(self, request, parent, f"{collection}{rest or ''}{verb or ''}")
        if name.endswith("/operations"):
            own = [o for key, o in self.operations.items() if key.startswith(name + "/")]
            return {"operations": [self._operation_as_it_stands(o) for o in reversed(own)]}
        if not rest:
            create = request.method == "POST"
            return self._create(parent, collection, request) if create else self._list(name, request.query)
        if name not in self.resources:
            raise Refusal(404, f"The {collection} {name} does not exist.")
        return self._change(request.method, name, verb or "")

    def _create(self, parent: str, collection: str, request: Request) -> dict[str, Any]:
        self._last_id += 1
        long_running = collection == LONG_RUNNING
        own = request.query.get("persistentResourceId", "") if long_running else str(self._last_id)
        name = f"{parent}/{collection}/{own}"
        if name in self.resources:
            raise Refusal(409, f"{name} exists already.")
        time_now = now()
        state = "PROVISIONING" if long_running else "JOB_STATE_PENDING"
        if collection == "trainingPipelines":
            state = "PIPELINE_STATE_PENDING"
        document = {
            **request.body,
            "name": name,
            "state": state,
            "createTime": time_now,
            "updateTime": time_now,
        }
        self.resources[name] = document
        return self.start_operation(name, dict(document)) if long_running else document

    def _list(self, prefix: str, query: dict[str, str]) -> dict[str, Any]:
        collection = prefix.rpartition("/")[2]
        below = [r for name, r in self.resources.items() if name.startswith(prefix + "/")]
        try:
            passes = read_filter(query.get("filter", ""))
        except FilterRefusal as error:
            raise Refusal(400, error.message) from None
        chosen = [r for r in reversed(below) if passes(r)]
        start, size = int(query.get("pageToken") or 0), int(query.get("pageSize") or 100)
        page: dict[str, Any] = {collection: chosen[start : start + size]} if chosen[start:] else {}
        if chosen[start + size :]:
            page["nextPageToken"] = str(start + size)
        return page

    def _change(self, method: str, name: str, verb: str) -> dict[str, Any]:
        resource = self.resources[name]
        if method == "GET":
            return resource
        ended = str(resource.get("state", "")).replace("PIPELINE", "JOB") in ENDED
        if verb == ":cancel":
            if not ended:
                prefix = "PIPELINE" if "/trainingPipelines/" in name else "JOB"
                resource.update(state=f"{prefix}_STATE_CANCELLED", error={"code": 1, "message": "CANCELED"})
                resource["endTime"] = now()
            return {}
        if verb == ":reboot":
            return self.start_operation(name, resource)
        if method != "DELETE":
            raise Refusal(501, f"No such method: {method} {verb}")
        if not ended and LONG_RUNNING not in name:
            raise Refusal(400, f"{name} has not ended.", "FAILED_PRECONDITION")
        del self.resources[name]
        return self.start_operation(name, None)

    def start_operation(self, name: str, response: dict[str, Any] | None) -> dict[str, Any]:
        """Begin an operation that ends with this response."""
        self._last_id += 1
        operation = {"name": f"{name}/operations/{self._last_id}", "metadata": {"polls": 0}}
        operation["response"] = response or {"@type": "type.googleapis.com/google.protobuf.Empty"}
        self.operations[str(operation["name"])] = operation
        return self._operation_as_it_stands(operation)

    def _operation(self, name: str) -> dict[str, Any]:
        if name not in self.operations:
            raise Refusal(404, f"{name} does not exist.")
        self.operations[name]["metadata"]["polls"] += 1
        return self._operation_as_it_stands(self.operations[name])

    def _operation_as_it_stands(self, operation: dict[str, Any]) -> dict[str, Any]:
        metadata = {"@type": "type.googleapis.com/google.protobuf.Empty"}
        if operation["metadata"]["polls"] < self.polls_until_done:
            return {"name": operation["name"], "metadata": metadata}
        ending = {key: operation[key] for key in ("error", "response") if key in operation}
        return {"name": operation["name"], "metadata": metadata, "done": True, **ending}


def now() -> str:
    """This moment as the service writes it, in UTC and microseconds."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def error_body(
    code: int, message: str, details: list[dict[str, Any]] | None = None, status: str = ""
) -> bytes:
    """The API's envelope of an error."""
    error: dict[str, Any] = {
        "code": code,
        "message": message,
        "status": status or STATUSES.get(code, "UNKNOWN"),
    }
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
        )
        self.service.requests.append(request)
        fault = self.service.take_fault(request.method)
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
        headers = {"Content-Type": "application/json; charset=UTF-8", **answer.headers}
        for key, value in {**headers, "Content-Length": str(len(answer.body))}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(answer.body)


class _Server(ThreadingHTTPServer):
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is none of our business."""


@contextmanager
def serve_vertex(certificate: Path | None = None) -> Iterator[VertexService]:
    """The service on a free port of 127.0.0.1, until the block ends; over TLS with a certificate and key."""
    service = VertexService()
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
