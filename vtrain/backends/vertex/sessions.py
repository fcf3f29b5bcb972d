"""HTTP sessions with credentials, for the services of Google that need no client library of their own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from vtrain.backends import ServiceAccess
from vtrain.backends.vertex.credentials import find_credentials

if TYPE_CHECKING:
    from google.auth.transport.requests import AuthorizedSession
    from requests import Response


def make_session(access: ServiceAccess) -> AuthorizedSession:
    """A session that sends an access token along. Raises CredentialsError where there is none to be had."""
    from google.auth.transport.requests import AuthorizedSession

    from vtrain.http_adapter import BoundedAdapter

    session = AuthorizedSession(find_credentials(access))
    for scheme in ("https://", "http://"):
        session.mount(scheme, BoundedAdapter())
    if access.billing_project:
        session.headers["x-goog-user-project"] = access.billing_project
    if access.trace_token:
        session.headers["Cookie"] = access.trace_token
    if access.log_http:
        session.hooks["response"].append(_show)
    return session


def _show(response: Response, **_: Any) -> None:
    from vtrain.backends.vertex.http_log import request_lines, response_lines

    for text in (request_lines(response.request), response_lines(response)):
        print(text, file=sys.stderr, flush=True)
