"""A client of the Debug Adapter Protocol, as VS Code is one: enough to break at a line and look around."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from lib.waiting import wait_until

PATIENCE = 60.0


class DebugClient:
    """One session with a debugger that listens on this machine."""

    def __init__(self, port: int) -> None:
        self._socket = _connected(port)
        self._file = self._socket.makefile("rb")
        self._count = 0

    def attach(self) -> None:
        """Attach as the launch.json of the docs does."""
        self._send("initialize", adapterID="python", pathFormat="path")
        self._send("attach", justMyCode=True)
        self.event("initialized")

    def break_at(self, file: Path, line: int) -> None:
        """Stop at a line of a file, and run until then."""
        self._send("setBreakpoints", source={"path": str(file)}, breakpoints=[{"line": line}])
        self.go()

    def go(self) -> None:
        """Run on: the breakpoints are set."""
        self._send("configurationDone")

    def event(self, name: str) -> dict[str, Any]:
        """The body of the next event of that name."""
        return self._next(lambda message: message.get("event") == name).get("body", {})

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """The body of the answer to a request."""
        number = self._send(command, **arguments)
        answer = self._next(lambda message: message.get("request_seq") == number)
        assert answer["success"], answer
        return answer.get("body", {})

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def _send(self, command: str, **arguments: Any) -> int:
        self._count += 1
        message = {"seq": self._count, "type": "request", "command": command, "arguments": arguments}
        body = json.dumps(message).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        return self._count

    def _next(self, is_meant: Any) -> dict[str, Any]:
        while True:
            length = 0
            while line := self._file.readline().strip():
                length = int(line.rpartition(b":")[2])
            message: dict[str, Any] = json.loads(self._file.read(length))
            if is_meant(message):
                return message


def _connected(port: int) -> socket.socket:
    def connect() -> socket.socket | None:
        try:
            return socket.create_connection(("127.0.0.1", port), PATIENCE)
        except ConnectionRefusedError:
            return None

    found = wait_until(connect, "no debugger listens", pause=0.1, patience=PATIENCE)
    assert found is not None
    return found
