"""A stand-in for a Docker engine on loopback: it records what is built, pushed and run, and runs nothing.

    with stand_in_engine() as engine:
        monkeypatch.setenv("DOCKER_HOST", engine.host)
        engine.codes["build"] = 7                        a step of every build ends with 7
        ... engine.builds, engine.pushed, engine.runs ...

For tests of command lines. What engines really do is tested with a real one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qs, unquote, urlsplit

from lib.serving import serving
from lib.stand_in_api import ROUTES
from lib.stand_in_state import Refusal, StandInEngine

API_VERSION = "1.45"


class _Handler(BaseHTTPRequestHandler):
    """The part of the Engine API that vtrain speaks."""

    server: _Server

    def do_GET(self) -> None:
        self._route()

    do_POST = do_DELETE = do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""

    def _route(self) -> None:
        url = urlsplit(self.path)
        path = re.sub(r"^/v[0-9.]+", "", unquote(url.path))
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        body = self._body()
        for method, pattern, act in ROUTES:
            if method in (self.command, "ANY") and (found := re.fullmatch(pattern, path)):
                try:
                    self._answer(200, act(self.server.engine, query, body, *found.groups()))
                except Refusal as refusal:
                    self._answer(refusal.status, {"message": str(refusal)})
                return
        self._answer(404, {"message": "page not found"})

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        blocks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            blocks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(blocks)

    def _answer(self, status: int, content: Any) -> None:
        """A document, bytes or pieces of them, each sent at once; the connection ends with it."""
        self.send_response(status)
        self.send_header("Api-Version", API_VERSION)
        self.end_headers()
        if self.command == "HEAD":
            return
        if isinstance(content, Iterator):
            for piece in content:
                self.wfile.write(piece)
        else:
            self.wfile.write(content if isinstance(content, bytes) else json.dumps(content).encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    engine: StandInEngine


@contextmanager
def stand_in_engine() -> Iterator[StandInEngine]:
    """An engine without images; it pulls whatever it is asked for, and builds by the Engine API alone."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.engine = StandInEngine()
    server.engine.host = f"tcp://127.0.0.1:{server.server_address[1]}"
    with serving(server), patch.dict(os.environ, DOCKER_BUILDKIT="0"):
        yield server.engine
