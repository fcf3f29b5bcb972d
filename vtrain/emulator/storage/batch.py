"""Several requests in one: `multipart/mixed` of HTTP requests, answered in their order."""

from __future__ import annotations

import email
import uuid
from email.message import Message
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Scope
from starlette.types import Message as Event

from vtrain.emulator.storage.refusals import invalid

MOST_CALLS = 100
"""Requests in one batch."""


async def answer_batch(app: ASGIApp, request: Request) -> Response:
    """Hand each part to the app as if it had come by itself. Raises Refusal."""
    head = f"content-type: {request.headers.get('content-type', '')}\r\n\r\n".encode("latin-1")
    whole = email.message_from_bytes(head + await request.body())
    if not whole.is_multipart():
        raise invalid("The body of a batch is multipart/mixed.")
    parts = [part for part in whole.get_payload() if isinstance(part, Message)]
    if len(parts) > MOST_CALLS:
        raise invalid(f"A batch has at most {MOST_CALLS} requests, not {len(parts)}.")
    boundary = f"batch_{uuid.uuid4().hex}"
    answers = [await _answer_part(app, request, part) for part in parts]
    body = b"".join(b"--%s\r\n%s\r\n" % (boundary.encode(), text) for text in answers)
    content_type = f"multipart/mixed; boundary={boundary}"
    return Response(body + f"--{boundary}--\r\n".encode(), headers={"content-type": content_type})


async def _answer_part(app: ASGIApp, request: Request, part: Message) -> bytes:
    head, _, body = _payload(part).replace(b"\r\n", b"\n").partition(b"\n\n")
    line, _, headers = head.partition(b"\n")
    words = line.split()
    if len(words) < 2:
        raise invalid(f"A part of the batch does not begin with a request: {line[:100]!r}.")
    inner = email.message_from_bytes(headers + b"\n\n")
    events = await _call(app, _scope(request.scope, words[0], words[1], inner), body.strip())
    content_id = part.get("content-id", "").strip("<>")
    return _as_part(content_id, events)


def _payload(part: Message) -> bytes:
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _scope(outer: Scope, method: bytes, target: bytes, headers: Message) -> Scope:
    path, _, query = target.partition(b"?")
    if path.startswith((b"http://", b"https://")):
        path = b"/" + path.split(b"/", 3)[3]
    given = [(name.lower().encode(), str(value).encode("latin-1")) for name, value in headers.items()]
    host = [pair for pair in outer["headers"] if pair[0] == b"host"]
    inner = {"method": method.decode("latin-1"), "raw_path": path, "query_string": query}
    kept = {key: outer[key] for key in ("type", "asgi", "http_version", "scheme", "client", "server")}
    return {**kept, **inner, "path": path.decode("latin-1"), "root_path": "", "headers": [*host, *given]}


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
