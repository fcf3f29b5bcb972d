"""Checks of every request: it must have the token, and must not come from a web page.

Every user of this machine reaches its loopback address, and anyone who is answered can run programs as the
user who serves. The token stands in the first part of the path, for clients that know an address only; a
header will do as well. A browser that comes by such an address gets a cookie, and goes on without it.

A page in a browser can send requests to this machine. The browser then sends `Origin` or `Sec-Fetch-Site`. A
page whose own name resolves to this machine (DNS rebinding) is noticed by its name in `Host`. Pages that the
service shows itself may read themselves and send their own forms, and nothing else.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import html
import ipaddress
import re
import secrets

import msgspec
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from vtrain.emulator.proxy import GOOGLE, LED
from vtrain.emulator.request_log import OncePerHost
from vtrain.emulator.storage.storage_call import answer_refusal
from vtrain.emulator.storage.storage_refusals import StorageRefusal

OWN_NAMES = frozenset({"localhost", "host.docker.internal", "host.containers.internal"})
"""Names that lead to this machine from programs and from containers, and that no web page can have."""
CLOUD_STORAGE = r"(?:storage|www)\.googleapis\.com"
"""The hosts of the API of Cloud Storage; `www` has other APIs besides."""
STORAGE_PATHS = ("/storage/", "/upload/", "/resumable/", "/download/", "/batch")
NOT_EMULATED = "notImplemented"
PREFIX = "vtrain.prefix"
"""The key of a request's scope for what was taken off its path: `/TOKEN`, which links in answers need."""
_TOKEN = "token-"
_OR_VARIABLES = "or the variables that `vtrain emulator env` prints."
_ENTRY = {"cache-control": "no-store", "referrer-policy": "no-referrer"}


def new_token() -> str:
    """A token, in a form that `messages.secrets` masks wherever it is the first part of a path."""
    return f"{_TOKEN}{secrets.token_urlsafe(24)}"


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """The names that requests may be sent to, besides addresses, and the token that they need, if any.

    `pages` are first parts of paths, of pages that the service shows: those pages may read each other.
    `emulated` is a pattern of the hosts of Google's that the service answers for, and `refusal` the sentence
    about a call to another one.
    """

    hosts: frozenset[str] = frozenset()
    token: str = ""
    pages: frozenset[str] = frozenset()
    emulated: str = CLOUD_STORAGE
    refusal: str = "The emulator does not emulate {}."

    def without_token(self, scope: Scope) -> Scope:
        """The request with the token taken off its path, if it begins with it."""
        first, _, rest = scope["raw_path"][1:].partition(b"/")
        if not self.token or not hmac.compare_digest(first, self.token.encode()):
            return scope
        path = scope["path"][1 + len(self.token) :] or "/"
        return {**scope, "path": path, "raw_path": b"/" + rest, PREFIX: f"/{self.token}"}

    def is_page(self, scope: Scope) -> bool:
        """Whether a request asks for a page that the service shows."""
        return scope["method"] in ("GET", "HEAD") and scope["path"][1:].partition("/")[0] in self.pages

    def is_form(self, scope: Scope) -> bool:
        """Whether a page that the service shows sends its form: the browser says so in `Origin`."""
        headers = Headers(scope=scope)
        own = f"{scope.get('scheme', 'http')}://{headers.get('host', '')}"
        return (
            scope["method"] == "POST"
            and scope["path"][1:].partition("/")[0] in self.pages - {""}
            and headers.getlist("origin") == [own]
            and headers.get("sec-fetch-site", "same-origin") == "same-origin"
        )

    @property
    def cookie(self) -> tuple[str, str]:
        """The name and the value of the cookie that opens pages.

        Browsers send it to every port of this machine: so it does not tell the token, and has its own name.
        """
        name, value = (
            hmac.new(self.token.encode(), what, "sha256").hexdigest() for what in (b"name", b"pages")
        )
        return f"vtrain-{name[:8]}", value

    def check(self, scope: Scope) -> None:
        """Raise StorageRefusal for a request of a web page, and for one without the token."""
        headers, is_page, has_address = Headers(scope=scope), self.is_page(scope), PREFIX in scope
        is_form = self.is_form(scope)
        is_from_here = is_form or headers.get("sec-fetch-site", "none") in (
            "none",
            *(("same-origin",) if is_page else ()),
        )
        # A page of another origin does not know the address with the token, so that a user has come by it.
        if ("origin" in headers and not is_form) or not (is_from_here or (is_page and has_address)):
            raise StorageRefusal(403, "forbidden", "Requests of web pages are not answered.")
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_ours(host_name(hosts[0])):
            named = ", ".join(map(repr, hosts)) or "nothing"
            sentence = f"The header Host names {named}, which is not this service."
            raise StorageRefusal(403, "forbidden", f"{sentence} Start it with --allowed-host=NAME.")
        self._check_token(scope, headers, opens_by_cookie=is_page or is_form)
        self._check_emulated(scope, host_name(hosts[0]))

    def admits(self, authorizations: list[str]) -> bool:
        """Whether a client may come in with these headers."""
        return not self.token or has_token(authorizations, self.token)

    def _check_token(self, scope: Scope, headers: Headers, *, opens_by_cookie: bool) -> None:
        """Raise StorageRefusal for a request without the token, or with that of another start in its path."""
        has_it = PREFIX in scope or LED in scope
        if not (has_it or self.admits(headers.getlist("authorization"))):
            if opens_by_cookie and self._has_cookie(headers):
                return
            sentence = "This service asks for a token. Use the whole address that it printed when it started"
            raise StorageRefusal(401, "required", f"{sentence}, {_OR_VARIABLES}")
        # gcloud reads the token from a file, where it is the new one. At 401 vtrain would call it too old.
        if not has_it and scope["path"].startswith(f"/{_TOKEN}"):
            sentence = "This address is that of an earlier start. Use the one that the service printed now"
            raise StorageRefusal(403, "forbidden", f"{sentence}, {_OR_VARIABLES}")

    def _check_emulated(self, scope: Scope, host: str) -> None:
        """Raise StorageRefusal for a call of Google's that is not emulated, by its host or by its path."""
        is_elsewhere = host.startswith("www.") and not scope["path"].startswith(STORAGE_PATHS)
        if GOOGLE.fullmatch(host) and (is_elsewhere or not re.fullmatch(self.emulated, host)):
            call = f"{scope['method']} https://{host}{scope['path'][:300]}"
            raise StorageRefusal(405, NOT_EMULATED, self.refusal.format(call))

    def _has_cookie(self, headers: Headers) -> bool:
        name, value = self.cookie
        return hmac.compare_digest(
            cookie_parser(headers.get("cookie", "")).get(name, "").encode(), value.encode()
        )

    def _is_ours(self, name: str) -> bool:
        is_google = GOOGLE.fullmatch(name) is not None  # no web page has such a name
        return is_google or name in OWN_NAMES or name in self.hosts or _is_address(name)


class Guard:
    """ASGI middleware that refuses requests without admission."""

    def __init__(self, app: ASGIApp, admission: Admission) -> None:
        self._app = app
        self._admission = admission
        self._refused = OncePerHost()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = self._admission.without_token(scope)
        is_browser = "text/html" in Headers(scope=scope).get("accept", "")
        try:
            self._admission.check(scope)
        except StorageRefusal as refusal:
            if refusal.reason == NOT_EMULATED:
                self._refused.record(Headers(scope=scope)["host"], refusal.message)
            response = _refusal_page(refusal) if is_browser else answer_refusal(refusal)
            response.headers["connection"] = "close"  # the body of the request has not been read
            await response(scope, receive, send)
            return
        if PREFIX in scope and is_browser and self._admission.is_page(scope):
            await _entry(scope, self._admission.cookie)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _entry(scope: Scope, cookie: tuple[str, str]) -> Response:
    """The answer to a browser that has come by the address with the token: a cookie, and the way on."""
    headers, query = Headers(scope=scope), scope["query_string"].decode("latin-1")
    path = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
    target = f"{scope['scheme']}://{headers['host']}{path}"
    if headers.get("sec-fetch-site", "none") == "none":
        response: Response = RedirectResponse(target, 303, _ENTRY)
    else:  # a browser that another page led here keeps such a cookie from a redirect, but not from a page
        page = f'<meta http-equiv="refresh" content="0; url={html.escape(target)}"><title>vtrain</title>'
        response = Response(page, 200, _ENTRY, media_type="text/html; charset=utf-8")
    response.set_cookie(*cookie, httponly=True, samesite="strict")
    return response


def _refusal_page(refusal: StorageRefusal) -> Response:
    """A refusal for a person, who has typed an address."""
    page = f"<title>vtrain</title><p>{html.escape(refusal.message)}"
    return Response(page, refusal.status, media_type="text/html; charset=utf-8")


def user_information(authorization: str) -> str:
    """The user information of a URL, up to its `@`, that makes a client send this header; or nothing."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value.strip().encode("latin-1"), validate=True).decode("ascii") + "@"
    except (binascii.Error, UnicodeError):
        return ""


def has_token(authorizations: list[str], token: str) -> bool:
    """Whether a request has the token: as a bearer token, or as a password."""
    if len(authorizations) != 1:
        return False
    scheme, _, value = authorizations[0].partition(" ")
    password = user_information(authorizations[0]).removesuffix("@").partition(":")[2]
    given = value.strip() if scheme.lower() == "bearer" else password
    return hmac.compare_digest(given.encode(), token.encode())


def host_name(header: str) -> str:
    """The name in a `Host` header, without its port."""
    name = header[1:].partition("]")[0] if header.startswith("[") else header.partition(":")[0]
    return name.rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
