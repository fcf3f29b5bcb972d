"""A command in a container whose engine is slow to answer: the session of the user goes on."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event

import pytest
from lib.serving import serving

pytestmark = pytest.mark.child

SESSION = """
import sys
from vtrain.containers.discovery import EngineAddress
from vtrain.containers.client import EngineCalls
from vtrain.containers.exec_session import ExecSession

calls = EngineCalls(EngineAddress(host=sys.argv[1], origin="a test"), seconds=0.3)
sys.exit(ExecSession(calls, "box", ["true"], env=[], terminal=True).run())
"""


class _Engine(BaseHTTPRequestHandler):
    """Starts a command that says that it is done when its terminal's size was told in vain."""

    asked: Event
    over: Event

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "/resize" in self.path:
            self.asked.set()
            self.over.wait(30)  # far longer than the client waits
        elif "/start" in self.path:
            self.send_response(101)
            self.end_headers()
            self.asked.wait(30)
            self.over.wait(1)
            self.wfile.write(b"done\r\n")
            self.close_connection = True
        else:
            self._answer(b'{"Id": "x"}')

    def do_GET(self) -> None:
        self._answer(b'{"Running": false, "ExitCode": 7}')

    def _answer(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


@contextmanager
def slow_engine() -> Iterator[str]:
    """The address of an engine that never answers what is told about sizes."""
    over = Event()
    handler = type("Handler", (_Engine,), {"asked": Event(), "over": over})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    with serving(server):
        try:
            yield f"tcp://127.0.0.1:{server.server_address[1]}"
        finally:
            over.set()


def test_an_engine_that_does_not_take_the_size_in_time() -> None:
    near, far = pty.openpty()
    with slow_engine() as host:
        ran = subprocess.Popen([sys.executable, "-c", SESSION, host], stdin=far, stdout=far, stderr=far)
        os.close(far)
        shown = b""
        with suppress(OSError):  # a terminal whose program has ended
            while block := os.read(near, 4096):
                shown += block
        code = ran.wait(30)
    os.close(near)
    assert (code, re.sub(rb"\s+", b" ", shown)) == (7, b"done "), shown.decode()
