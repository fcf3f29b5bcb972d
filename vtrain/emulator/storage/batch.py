"""Several requests in one: `multipart/mixed` of HTTP requests, answered in their order."""

from __future__ import annotations

import re
import uuid
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Scope
from starlette.types import Message as Event

from vtrain.emulator.storage.bodies import receive_body
from vtrain.emulator.storage.refusals import invalid

MOST_CALLS = 100
"""Requests in one batch."""
_BOUNDARY = re.compile(r"""boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))""", re.IGNORECASE)
_OF_THE_BATCH = (b"host", b"authorization")


async def answer_batch(app: ASGIApp, request: Request) -> Response:
    """Hand each part to the app as if it had come by itself. Raises Refusal."""
    parts = _parts(await receive_body(request), request.headers.get("content-type", ""))
    boundary = f"batch_{uuid.uuid4().hex}"
    answers = [await _answer_part(app, request, part) for part in parts]
    body = b"".join(b"--%s\r\n%s\r\n" % (boundary.encode(), text) for text in answers)
    content_type = f"multipart/mixed; boundary={boundary}"
    return Response(body + f"--{boundary}--\r\n".encode(), headers={"content-type": content_type})


def _parts(body: bytes, content_type: str) -> list[bytes]:
    """The parts of a body, with line endings of one character. Raises Refusal."""
    found = _BOUNDARY.search(content_type)
    if not content_type.lower().startswith("multipart/") or found is None:
        raise invalid("The body of a batch is multipart/mixed.")
    mark = b"\n--" + (found[1] or found[2]).encode("latin-1")
    whole = b"\n" + body.replace(b"\r\n", b"\n")
    count = whole.count(mark) - whole.count(mark + b"--")
    if count > MOST_CALLS:
        raise invalid(f"A batch has at most {MOST_CALLS} requests, not {count}.")
    parts = whole.partition(mark + b"--")[0].split(mark)[1:]
    if not parts:
        raise invalid("The body of a batch is multipart/mixed.")
    return parts


async def _answer_part(app: ASGIApp, request: Request, part: bytes) -> bytes:
    own, _, inner = (b"\n" + part.partition(b"\n")[2]).partition(b"\n\n")
    head, _, body = inner.partition(b"\n\n")
    line, _, headers = head.partition(b"\n")
    words = line.split()
    if len(words) < 2:
        raise invalid(f"A part of the batch does not begin with a request: {line[:100]!r}.")
    scope = _scope(request.scope, words[0], words[1], _read_headers(headers))
    events = await _call(app, scope, body.strip())
    content_id = dict(_read_headers(own)).get(b"content-id", b"")
    return _as_part(content_id.strip(b"<>").decode("latin-1"), events)


def _read_headers(head: bytes) -> list[tuple[bytes, bytes]]:
    pairs = (line.partition(b":") for line in head.split(b"\n"))
    return [(name.strip().lower(), value.strip()) for name, _, value in pairs if name.strip()]


def _scope(outer: Scope, method: bytes, target: bytes, headers: list[tuple[bytes, bytes]]) -> Scope:
    """The request of a part; its host and its credentials are those of the batch, which were checked."""
    path, _, query = target.partition(b"?")
    if path.startswith((b"http://", b"https://")):
        path = b"/" + path.split(b"/", 3)[-1]
    given = [pair for pair in headers if pair[0] not in _OF_THE_BATCH]
    kept_headers = [pair for pair in outer["headers"] if pair[0] in _OF_THE_BATCH]
    inner = {"method": method.decode("latin-1"), "raw_path": path, "query_string": query}
    kept = {key: outer[key] for key in ("type", "asgi", "http_version", "scheme", "client", "server")}
    headers = [*kept_headers, *given]
    return {**kept, **inner, "path": path.decode("latin-1"), "root_path": "", "headers": headers}


async def _call(app: ASGIApp, scope: Scope, body: bytes) -> list[Event]:
    events: list[Any] = []

    async def receive() -> Event:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(event: Event) -> None:
        events.append(event)

    await app(scope, receive, send)
    return events


def _as_part(content_id: str, events: list[Event]) -> bytes:
    status = events[0]["status"]
    body = b"".join(event.get("body", b"") for event in events[1:])
    phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else ""
    lines = [f"HTTP/1.1 {status} {phrase}".encode()]
    lines += [name + b": " + value for name, value in events[0]["headers"]]
    above = f"Content-Type: application/http\r\nContent-ID: <response-{content_id}>\r\n\r\n"
    return above.encode() + b"\r\n".join(lines) + b"\r\n\r\n" + body
