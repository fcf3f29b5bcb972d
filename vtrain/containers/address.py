"""The address of a Docker Engine, in the words of DOCKER_HOST and of Docker's contexts."""

from __future__ import annotations

import re

import msgspec

from vtrain.errors import EngineError

PLAIN_PORT = 2375
TLS_PORT = 2376
_SCHEMES = ("unix", "tcp", "http", "https", "ssh")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class EngineAddress(msgspec.Struct, frozen=True, kw_only=True):
    """An engine, and how it was found.

    `host` is `unix:///var/run/docker.sock`, `tcp://host:2376` or `ssh://user@host`; `origin` is
    "DOCKER_HOST", "the context colima", "the default socket". `tls_folder` holds ca.pem, cert.pem and
    key.pem; `tls_verify` says whether the engine has to prove who it is.
    """

    host: str
    origin: str
    tls_folder: str = ""
    tls_verify: bool = True

    @property
    def is_local(self) -> bool:
        """Whether the engine sees this machine's files: a socket here, or TCP on loopback."""
        from urllib.parse import urlsplit

        url = urlsplit(self.host)
        return url.scheme == "unix" or (url.scheme != "ssh" and url.hostname in _LOOPBACK)


def checked(address: EngineAddress) -> EngineAddress:
    """The address in full: with a scheme and a port. Raises EngineError where it makes no sense."""
    if mistake := _mistake(address.host):
        raise _malformed(address, mistake)
    host = address.host if "://" in address.host else f"tcp://{address.host}"
    try:
        from urllib.parse import urlsplit

        url = urlsplit(host)
        if url.port == 0:
            raise ValueError("no engine listens at port 0")
    except ValueError as error:
        raise _malformed(address, f"{error}") from error
    if url.scheme not in _SCHEMES:
        raise _malformed(address, f"vtrain speaks to engines over {', '.join(_SCHEMES)}")
    if url.scheme == "unix":
        if not url.path.strip("/"):
            raise _malformed(address, "it names no socket")
        return msgspec.structs.replace(address, host=f"unix://{url.path}")
    if not url.hostname:
        raise _malformed(address, "it names no host")
    if url.scheme != "ssh" and url.port is None:
        secure = url.scheme == "https" or bool(address.tls_folder)
        host = f"{url.scheme}://{url.netloc.rstrip(':')}:{TLS_PORT if secure else PLAIN_PORT}"
    return msgspec.structs.replace(address, host=host)


def _mistake(host: str) -> str:
    """The mistake where slashes are missing; empty where they are not."""
    is_socket = host.startswith("/") or (host.startswith("unix:") and not host.startswith("unix:///"))
    path = host.removeprefix("unix:").strip("/")
    if is_socket and path and not path.isdecimal():  # unix:2375 is a host of that name
        return f"a socket is written unix:///{path}"
    one_slash = next((scheme for scheme in _SCHEMES if re.match(f"{scheme}:/(?!/)", host)), "")
    return f"two slashes follow {one_slash}:" if one_slash else ""


def _malformed(address: EngineAddress, why: str) -> EngineError:
    return EngineError(
        f"'{address.host}' (from {address.origin}) is not an address of a Docker engine: {why}.",
        hint="Write it as unix:///path/docker.sock, tcp://host:2376 or ssh://user@host.",
    )
