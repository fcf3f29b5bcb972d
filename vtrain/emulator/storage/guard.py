"""Checks of every request: it must not come from a web page, and must have the token.

A page in a browser can send requests to this machine. The browser then sends `Origin` or `Sec-Fetch-Site`. A
page whose own name resolves to this machine (DNS rebinding) is noticed by its name in `Host`. Pages that the
service shows itself may read themselves, and nothing else.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress

import msgspec
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from vtrain.emulator.storage.call import answer_refusal
from vtrain.emulator.storage.refusals import Refusal

OWN_NAMES = frozenset({"localhost", "host.docker.internal", "host.containers.internal"})
"""Names that lead to this machine from programs and from containers, and that no web page can have."""
TOKEN_USER = "token"
"""The user before the token in an address; any other name will do."""


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """The names that requests may be sent to, besides addresses, and the token that they need, if any.

    `pages` are first parts of paths, of pages that the service shows: those pages may read each other.
    """

    hosts: frozenset[str] = frozenset()
    token: str = ""
    pages: frozenset[str] = frozenset()

    def check(self, headers: Headers, method: str = "", path: str = "") -> None:
        """Raise Refusal for a request of a web page, and for one without the token."""
        is_own = method in ("GET", "HEAD") and path[1:].partition("/")[0] in self.pages
        sites = ("none", "same-origin") if is_own else ("none",)
        if "origin" in headers or headers.get("sec-fetch-site", "none") not in sites:
            raise Refusal(403, "forbidden", "Requests of web pages are not answered.")
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_ours(_host_name(hosts[0])):
            named = ", ".join(map(repr, hosts)) or "nothing"
            sentence = f"The header Host names {named}, which is not this service."
            raise Refusal(403, "forbidden", f"{sentence} Start it with --allowed-host=NAME.")
        if self.token and not _has_token(headers.getlist("authorization"), self.token):
            sentence = "This service asks for the token that it printed when it started."
            raise Refusal(401, "required", f"{sentence} Use the whole address that it printed.")

    def _is_ours(self, name: str) -> bool:
        return name in OWN_NAMES or name in self.hosts or _is_address(name)


class Guard:
    """ASGI middleware that refuses requests without admission."""

    def __init__(self, app: ASGIApp, admission: Admission) -> None:
        self._app = app
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._admission.check(Headers(scope=scope), scope["method"], scope["path"])
        except Refusal as refusal:
            response = answer_refusal(refusal)
            response.headers["connection"] = "close"  # the body of the request has not been read
            if refusal.status == 401:  # a browser asks for the token, or takes that of the address
                response.headers["www-authenticate"] = 'Basic realm="vtrain", charset="UTF-8"'
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)


def user_information(authorization: str) -> str:
    """The user information of a URL, up to its `@`, that makes a client send this header; or nothing."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value.strip().encode("latin-1"), validate=True).decode("ascii") + "@"
    except (binascii.Error, UnicodeError):
        return ""


def _has_token(authorizations: list[str], token: str) -> bool:
    """Whether a request has the token: as a bearer token, or as a password."""
    if len(authorizations) != 1:
        return False
    scheme, _, value = authorizations[0].partition(" ")
    password = user_information(authorizations[0]).removesuffix("@").partition(":")[2]
    given = value.strip() if scheme.lower() == "bearer" else password
    return hmac.compare_digest(given.encode(), token.encode())


def _host_name(header: str) -> str:
    """The name in a `Host` header, without its port."""
    name = header[1:].partition("]")[0] if header.startswith("[") else header.partition(":")[0]
    return name.rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
