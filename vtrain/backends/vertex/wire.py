"""What goes over the wire: the one place where the client library's own requests are touched.

The library knows the API as it was when the library was made: it writes enums as numbers, drops names that it
does not know, and cannot read an answer that is newer than itself. So it makes the request (path, parameters,
credentials, deadline), and here, in the adapter of its own `requests` session,

- the body of a create is the document that the plan shows, enums by name, unknown fields included;
- the answer is kept as the service wrote it, and the library is handed an empty one;
- enums are asked for by name, and operations at their documented path (the library asks under `/ui/`);
- the project to bill, the trace token and `--log-http` are added.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from threading import RLock
from typing import Any

from requests import PreparedRequest, Response

from vtrain.backends import ServiceAccess
from vtrain.backends.vertex.envelope import read_envelope
from vtrain.backends.vertex.http_log import request_lines, response_lines
from vtrain.errors import ServiceError, UnusableAnswerError
from vtrain.http_adapter import BoundedAdapter

_ENUM_NUMBERS = "%24alt=json%3Benum-encoding%3Dint"
SHOWN_CHARACTERS = 300
"""How much is shown of an answer that is no JSON."""


class Wire(BoundedAdapter):
    """The adapter. It keeps its connection, and carries one exchange at a time."""

    def __init__(self, access: ServiceAccess, write_log: Callable[[str], None]) -> None:
        super().__init__()
        self._access = access
        self._write_log = write_log
        self._lock = RLock()
        self._body: dict[str, Any] | None = None
        self._answer: dict[str, Any] = {}
        self.service_time = 0.0
        """The service's clock at its last answer, in seconds since the epoch; 0 before there was one."""

    def exchange(self, call: Callable[[], object], body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Make the library's call, with `body` as its body where given; the answer, as it was written.

        Raises UnusableAnswerError for an answer that is no JSON object, and whatever the call raises.
        """
        with self._lock:
            self._body, self._answer = body, {}
            call()
            return self._answer

    def send(self, request: PreparedRequest, stream: bool = False, **options: Any) -> Response:  # type: ignore[override]
        """Send one request; called by the session, which follows redirects and renews credentials."""
        self._prepare(request)
        if self._access.log_http:
            self._write_log(request_lines(request))
        response = super().send(request, stream, **options)
        content = response.content
        if self._access.log_http:
            self._write_log(response_lines(response))
        self._keep_time(response)
        if response.status_code < 300:
            self._answer = _read_object(content, str(request.url))
            response._content = b"{}"
        elif response.status_code >= 400:
            response._content = content if read_envelope(content) else _envelope(response)
        elif not (request.method == "GET" and response.is_redirect):
            words = f"{response.status_code} {response.reason}"
            raise _not_of_this_api(str(request.url), words, ServiceError)
        return response

    def _prepare(self, request: PreparedRequest) -> None:
        url = str(request.url).replace(_ENUM_NUMBERS, "alt=json")
        url = url.replace("/ui/projects/", f"/{self._access.api_version}/projects/")
        request.url = url
        if self._access.trace_token:
            request.headers["Cookie"] = self._access.trace_token
        if self._access.billing_project:
            request.headers["X-Goog-User-Project"] = self._access.billing_project
        if self._body is not None and request.method == "POST":
            request.prepare_body(json.dumps(self._body).encode(), None)

    def _keep_time(self, response: Response) -> None:
        try:
            self.service_time = parsedate_to_datetime(response.headers["Date"]).timestamp()
        except (KeyError, TypeError, ValueError):
            self.service_time = 0.0


def _read_object(content: bytes, url: str) -> dict[str, Any]:
    if not content.strip():
        return {}
    if not _is_object(content):
        raise _not_of_this_api(url, _shortened(content))
    document: dict[str, Any] = json.loads(content)
    return document


def _is_object(content: bytes) -> bool:
    try:
        return isinstance(json.loads(content), dict)
    except (ValueError, RecursionError):
        return False


def _not_of_this_api(url: str, answer: str, kind: type[ServiceError] = UnusableAnswerError) -> ServiceError:
    return kind(
        f"{url.partition('?')[0]} answered with something that is not of this API: {answer}",
        hint="Is there a proxy in between, or an endpoint override that leads elsewhere?",
    )


def _envelope(response: Response) -> bytes:
    """The API's envelope around an error that came without one, from a proxy for instance."""
    text = f"{response.status_code} {response.reason}"
    if "html" not in response.headers.get("Content-Type", "") and response.content.strip():
        text += f": {_shortened(response.content)}"
    return json.dumps({"error": {"code": response.status_code, "message": text}}).encode()


def _shortened(content: bytes) -> str:
    text = " ".join(content.decode("utf-8", "replace").split())
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
