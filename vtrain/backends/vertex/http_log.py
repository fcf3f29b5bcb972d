"""`--log-http`: requests and answers as they are shown on stderr, never with what gives access."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vtrain.messages.secrets import MASK, masked_document, masked_text, names_secret

if TYPE_CHECKING:
    from requests import PreparedRequest, Response

SECRET_HEADERS = frozenset(
    "authorization cookie proxy-authorization set-cookie x-goog-api-key "
    "x-goog-iam-authorization-token".split()
)
_PARAMETER = re.compile(r"(?<=[?&])([^=&#]{1,256})=([^&#]*)")
_KEY_PARAMETERS = frozenset(["key", "trace"])
"""Parameters of Google's APIs: an API key, and a token for traces."""


def request_lines(request: PreparedRequest) -> str:
    """A request: method and address, headers, body."""
    body = request.body or b""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)
    return _lines(">>", f"{request.method} {_shown_url(str(request.url))}", request.headers, text)


def response_lines(response: Response) -> str:
    """An answer: status and the time it took, headers, body."""
    took = f"({response.elapsed.total_seconds():.3f} s)"
    return _lines("<<", f"{response.status_code} {response.reason} {took}", response.headers, response.text)


def _lines(mark: str, first: str, headers: Mapping[str, Any], body: str) -> str:
    shown = [f"{name}: {_shown_header(name, str(value))}" for name, value in headers.items()]
    return "\n".join(f"{mark} {line}" for line in [first, *shown, "", *_shown_body(body).splitlines()])


def _shown_header(name: str, value: str) -> str:
    return "(not shown)" if name.lower() in SECRET_HEADERS or names_secret(name) else _shown_url(value)


def _shown_url(url: str) -> str:
    """A text without the passwords and the tokens of an address."""

    def shown(match: re.Match[str]) -> str:
        is_secret = match[1].lower() in _KEY_PARAMETERS or names_secret(match[1])
        return f"{match[1]}={MASK}" if is_secret else match[0]

    return _PARAMETER.sub(shown, masked_text(url, (), {}))


def _shown_body(text: str) -> str:
    """A body; in a document that is one of ours, as `describe` prints it."""
    try:
        document = json.loads(text)
        masked = masked_document(document) if isinstance(document, dict) else document
    except (ValueError, RecursionError):
        return masked_text(text, (), {})
    return text if masked == document else json.dumps(masked, indent=2, ensure_ascii=False)
