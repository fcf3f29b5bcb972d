"""HTTP with credentials: what every request to a service of Google carries, and how `--log-http` shows it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from requests import PreparedRequest, Response

from vtrain import __version__
from vtrain.backends import ServiceAccess
from vtrain.backends.vertex.credentials import find_credentials
from vtrain.http_session import BoundedAdapter, authorized_session
from vtrain.messages.secrets import MASK, masked_document, masked_text, names_secret

if TYPE_CHECKING:
    from google.auth.transport.requests import AuthorizedSession

SECRET_HEADERS = frozenset(
    "authorization cookie proxy-authorization set-cookie x-goog-api-key "
    "x-goog-iam-authorization-token".split()
)
_PARAMETER = re.compile(r"(?<=[?&])([^=&#]{1,256})=([^&#]*)")
_KEY_PARAMETERS = frozenset(["key", "trace"])
"""Parameters of Google's APIs: an API key, and a token for traces."""


def make_session(access: ServiceAccess) -> AuthorizedSession:
    """A session that sends an access token along. Raises CredentialsError where there are no credentials."""
    session = authorized_session(find_credentials(access), _Shown() if access.log_http else None)
    session.headers["User-Agent"] = f"vtrain/{__version__}"
    if access.billing_project:
        session.headers["X-Goog-User-Project"] = access.billing_project
    if access.trace_token:
        session.headers["Cookie"] = access.trace_token
    return session


class _Shown(BoundedAdapter):
    """Shows each request before it is sent, and its answer, on stderr."""

    def send(self, request: PreparedRequest, stream: bool = False, **options: Any) -> Response:  # type: ignore[override]
        """Send one request; the session follows redirects and renews credentials."""
        print(request_lines(request), file=sys.stderr, flush=True)
        response = super().send(request, stream, **options)
        print(response_lines(response), file=sys.stderr, flush=True)
        return response


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
