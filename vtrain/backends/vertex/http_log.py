"""`--log-http`: requests and answers as they are shown on stderr, never with what gives access."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from requests import PreparedRequest, Response

SECRET_HEADERS = ("authorization", "cookie", "set-cookie", "x-goog-iam-authorization-token")


def request_lines(request: PreparedRequest) -> str:
    """A request: method and address, headers, body."""
    body = request.body or b""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)
    return _lines(">>", f"{request.method} {request.url}", request.headers, text)


def response_lines(response: Response) -> str:
    """An answer: status and the time it took, headers, body."""
    took = f"({response.elapsed.total_seconds():.3f} s)"
    return _lines("<<", f"{response.status_code} {response.reason} {took}", response.headers, response.text)


def _lines(mark: str, first: str, headers: Mapping[str, Any], body: str) -> str:
    shown = [
        f"{name}: {'(not shown)' if name.lower() in SECRET_HEADERS else value}"
        for name, value in headers.items()
    ]
    return "\n".join(f"{mark} {line}" for line in [first, *shown, "", *body.splitlines()])
