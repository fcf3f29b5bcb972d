"""The address of a Docker Engine, in the words of DOCKER_HOST and of Docker's contexts."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from vtrain.errors import EngineError

_SCHEMES = ("unix", "tcp", "http", "https", "ssh")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class EngineAddress(msgspec.Struct, frozen=True, kw_only=True):
    """An engine, and how it was found."""

    host: str
    """`unix:///var/run/docker.sock`, `tcp://host:2375`, `https://host:2376` with TLS, or `ssh://user@host`."""
    origin: str
    """`DOCKER_HOST`, `the context colima`, `the default socket`."""
    context: str = ""
    """The Docker context that names it, if one does."""

    @property
    def is_local(self) -> bool:
        """Whether vtrain runs containers there: on a socket here, or a port of this machine without TLS."""
        url = urlsplit(self.host)
        return url.scheme == "unix" or (url.scheme in ("tcp", "http") and url.hostname in _LOOPBACK)


def checked(address: EngineAddress) -> EngineAddress:
    """The address with its scheme. Raises EngineError where it makes no sense."""
    host = address.host if "://" in address.host or "/" in address.host else f"tcp://{address.host}"
    try:
        url = urlsplit(host)
        names_one = (url.path.strip("/") and not url.netloc) if url.scheme == "unix" else url.hostname
        is_sound = url.scheme in _SCHEMES and "://" in host and names_one and url.port != 0
    except ValueError:
        is_sound = False
    if not is_sound:
        raise EngineError(
            f"'{address.host}' (from {address.origin}) is not an address of a Docker engine.",
            hint="Write it as unix:///path/docker.sock, tcp://host:2376 or ssh://user@host.",
        )
    return msgspec.structs.replace(address, host=host)
