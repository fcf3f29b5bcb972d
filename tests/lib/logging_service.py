"""A stand-in for Cloud Logging on loopback: keeps entries, honours filters and pages, fails as it is told to.

with serve_logs() as service:
    service.write("hello")                            an entry, now
    service.write("late", age=3, delay=1)             3 s old, and not to be seen before a second has passed
    service.faults += [429, 503, DROP]                what the next requests get
    ... service.url, service.bodies ...
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lib.serving import serving

DROP = 0
"""The connection is closed without an answer."""


class LoggingService:
    """What the server knows. `repeats` hands every entry out twice; `shuffles` turns pages around."""

    def __init__(self) -> None:
        self.url = ""
        self.bodies: list[dict[str, Any]] = []
        self.targets: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.faults: list[int] = []
        self.retry_after = ""
        self.repeats = self.shuffles = self.forgets_tokens = False
        self.page_size = 1000
        self._entries: list[tuple[float, dict[str, Any]]] = []
        self._lock = threading.Lock()

    def write(
        self,
        line: str | None = None,
        *,
        age: float = 0.0,
        delay: float = 0.0,
        timestamp: str = "",
        job: str = "1",
        task: str = "workerpool0-0",
        **fields: Any,
    ) -> None:
        """An entry of that age in seconds, or of that timestamp, which is visible after `delay` seconds."""
        labels = {"job_id": job, **({"task_name": task} if task else {})}
        now = time.time()
        with self._lock:
            document = {
                "timestamp": timestamp or written(now - age),
                "insertId": f"id{len(self._entries):06}",
                "resource": {"type": "ml_job", "labels": labels},
                **({} if line is None else {"textPayload": line}),
                **fields,
            }
            self._entries.append((now + delay, document))

    def answer(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """The page that is asked for; None for a token that does not count."""
        if self.forgets_tokens and "pageToken" in body:
            return None
        with self._lock:
            visible = [document for since, document in self._entries if since <= time.time()]
        found = sorted((d for d in visible if fits(d, body["filter"])), key=sort_key)
        start, size = int(body.get("pageToken", 0)), min(body["pageSize"], self.page_size)
        page = found[start : start + size]
        if self.repeats:
            page = page + page
        if self.shuffles:
            page = page[::-1]
        token = {"nextPageToken": str(start + size)} if start + size < len(found) else {}
        return {**({"entries": page} if page else {}), **token}


def written(seconds: float) -> str:
    """An instant with microseconds."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def instant(text: str) -> tuple[str, float]:
    """What orders instants: seconds as text, then the fraction."""
    seconds, fraction = re.fullmatch(r"(.*:\d\d)(\.\d+)?(?:Z|\+00:00)", text).groups()  # type: ignore[union-attr]
    return seconds, float(fraction or 0)


def sort_key(document: dict[str, Any]) -> tuple[tuple[str, float], str]:
    return instant(document["timestamp"]), document.get("insertId", "")


def fits(document: dict[str, Any], filter_text: str) -> bool:
    """Whether an entry passes a filter of the clauses that are used here."""
    for clause in filter_text.split(" AND "):
        name, sign, value = re.fullmatch(r"(.*?)(>=|<|=)(\".*\")", clause).groups()  # type: ignore[union-attr]
        wanted = json.loads(value)
        if name == "timestamp":
            own, bound = instant(document["timestamp"]), instant(wanted)
            if (own < bound) if sign == ">=" else (own >= bound):
                return False
        elif name.startswith("resource.labels."):
            if document["resource"]["labels"].get(name.rpartition(".")[2]) != wanted:
                return False
        elif name.startswith("labels.") and document.get("labels", {}).get(name[8:-1]) != wanted:
            return False
    return True


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        service = self.server.service
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        service.bodies.append(body)
        service.targets.append(self.path)
        service.headers.append(dict(self.headers))
        fault = service.faults.pop(0) if service.faults else 200
        if fault == DROP:
            self.close_connection = True
            return
        page = service.answer(body) if fault == 200 else None
        status = 400 if fault == 200 and page is None else fault
        error = {"error": {"code": status, "message": f"refused with {status}"}}
        data = json.dumps(error if page is None else page).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if service.retry_after:
            self.send_header("Retry-After", service.retry_after)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    service: LoggingService


@contextmanager
def serve_logs() -> Iterator[LoggingService]:
    """A service of its own on a port of its own."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.service = LoggingService()
    server.service.url = f"http://127.0.0.1:{server.server_port}/"
    with serving(server):
        yield server.service
