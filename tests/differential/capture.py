"""A server on loopback that records what it is asked and answers as the services answered gcloud."""

from __future__ import annotations

import json
import socket
import threading
from collections import defaultdict
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

_ALT = frozenset({"alt", "$alt"})
"""How an answer is to be written: gcloud's client and Google's library spell the same wish differently."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """One request: `path` has its query in the order of the names, without the wish for JSON."""

    method: str
    path: str
    body: Any


def normal_path(path: str) -> str:
    """A path by which two requests for the same thing are equal."""
    parts = urlsplit(path)
    query = sorted(pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] not in _ALT)
    return unquote(parts.path) + "".join(f"{'&' if i else '?'}{k}={v}" for i, (k, v) in enumerate(query))


class CaptureServer:
    """Answers the requests of each kind (method and path) in the order of the record.

    After the last answer of a kind: a GET is answered as before, a log is empty, anything else is
    refused with 410, so that a request too many does not pass for success.
    """

    def __init__(self, requests: Sequence[dict[str, Any]], responses: Sequence[dict[str, Any]]) -> None:
        self.requests: list[Recorded] = []
        self._answers: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for request, response in zip(requests, responses, strict=True):
            self._answers[_kind(request["method"], request["path"])].append(response)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        """The port of 127.0.0.1 that the server listens on."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """What an endpoint variable is set to."""
        return f"http://127.0.0.1:{self.port}/"

    def __enter__(self) -> CaptureServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, method: str, path: str, body: Any) -> dict[str, Any]:
        """Record a request and take its answer."""
        with self._lock:
            self.requests.append(Recorded(method=method, path=normal_path(path), body=body))
            answers = self._answers[_kind(method, path)]
            if len(answers) > 1:
                return answers.pop(0)
            last = answers[0] if answers else None
            if last is not None and method != "GET":
                answers.clear()
            return last or _after_the_last(path)


def _kind(method: str, path: str) -> tuple[str, str]:
    return method, unquote(urlsplit(path).path)


def _after_the_last(path: str) -> dict[str, Any]:
    if path.startswith("/v2/entries:list"):
        return {"status": 200, "body": {}}
    error = {"code": 410, "status": "NOT_FOUND", "message": "There is no recorded answer to this."}
    return {"status": 410, "body": {"error": error}}


def _handler(capture: CaptureServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            response = capture.answer(self.command, self.path, _parsed(data))
            if response.get("drop"):
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self._send(response["status"], response["body"])

        def _send(self, status: int, body: Any) -> None:
            text = body if isinstance(body, str) else json.dumps(body)
            data = text.encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", self.path)
            self.send_header("Content-Type", "application/json; charset=UTF-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _serve

        def log_message(self, *_arguments: Any) -> None:
            """Say nothing: stderr belongs to the test."""

    return Handler


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data) if data else None
    except ValueError:
        return data.decode("utf-8", "replace")
