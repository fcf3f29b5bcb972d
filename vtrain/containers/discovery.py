"""The search for this user's Docker Engine: the environment's choice, else the usual sockets."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from vtrain.containers.client import EngineAddress as EngineAddress
from vtrain.containers.client import ping, reason_of
from vtrain.digests import content_digest
from vtrain.errors import EngineError

_SCHEMES = ("unix", "tcp", "http", "https", "ssh")


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


S = TypeVar("S", bound=msgspec.Struct)

PING_SECONDS = 2.0
_START_HINT = (
    "Start one (Docker Engine, Docker Desktop, Colima, Podman's service), or name it in DOCKER_HOST."
)


def find_engine(environ: Mapping[str, str] = os.environ) -> EngineAddress:
    """The first engine that answers. Raises EngineError telling what was tried.

    What DOCKER_HOST, DOCKER_CONTEXT or Docker's current context names is the only one tried; one on another
    machine is not asked.
    """
    chosen = named_engine(environ)
    if chosen is not None:
        if chosen.is_local and (reason := refusal(chosen)):
            raise EngineError(
                f"The Docker engine at {chosen.host} (from {chosen.origin}) does not answer: {reason}.",
                hint=_hint(chosen, reason),
            )
        return chosen
    tried: dict[str, list[str]] = {}
    for address in usual_sockets(environ):
        reason = refusal(address)
        if not reason:
            return address
        tried.setdefault(reason, []).append(address.host.removeprefix("unix://"))
    raise EngineError(
        "No Docker engine answers. Tried: "
        + "; ".join(f"{', '.join(paths)} ({reason})" for reason, paths in tried.items())
        + ".",
        hint=_permission_hint(tried) or _START_HINT,
    )


def find_local_engine() -> EngineAddress:
    """The engine that `find_engine` finds. Raises EngineError where it cannot run jobs of this machine."""
    found = find_engine()
    if not found.is_local:
        raise EngineError(
            f"The Docker engine at {found.host} (from {found.origin}) is on another machine or behind TLS: "
            "its containers do not see the folders of this machine.",
            hint="Choose an engine of this machine with DOCKER_HOST, or take --backend=process.",
        )
    return found


def refusal(address: EngineAddress) -> str:
    """The reason why no engine answers there within two seconds, in a few words; empty when one does."""
    try:
        ping(address, PING_SECONDS)
    except OSError as error:
        return reason_of(error)
    return ""


def usual_sockets(environ: Mapping[str, str]) -> Iterator[EngineAddress]:
    """The sockets that engines of this user listen on unless configured otherwise, most usual first."""
    home = _home(environ)
    runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    colima = environ.get("COLIMA_HOME") or f"{home}/.colima"
    places = {
        "/var/run/docker.sock": "the default socket",
        f"{runtime}/docker.sock": "the rootless engine's socket",
        f"/run/user/{os.getuid()}/docker.sock": "the rootless engine's socket",
        f"{home}/.docker/run/docker.sock": "Docker Desktop's socket",
        f"{home}/.docker/desktop/docker.sock": "Docker Desktop's socket",
        f"{colima}/default/docker.sock": "Colima's socket",
        f"{home}/.config/colima/default/docker.sock": "Colima's socket",
        f"{home}/.orbstack/run/docker.sock": "OrbStack's socket",
        f"{home}/.rd/docker.sock": "Rancher Desktop's socket",
        f"{runtime}/podman/podman.sock": "Podman's socket",
        "/run/podman/podman.sock": "Podman's socket",
    }
    for path, origin in places.items():
        yield EngineAddress(host=f"unix://{path}", origin=origin)


def _home(environ: Mapping[str, str]) -> str:
    return environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - Path.home raises for a user without


def docker_settings(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of Docker's own configuration."""
    return Path(environ.get("DOCKER_CONFIG") or f"{_home(environ)}/.docker")


def named_engine(environ: Mapping[str, str] = os.environ) -> EngineAddress | None:
    """The engine that was named, if any. Raises EngineError where what names it makes no sense."""
    folder = docker_settings(environ)
    host = environ.get("DOCKER_HOST", "").strip()
    if host:
        with_tls = any(environ.get(name) for name in ("DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"))
        return _with_tls(checked(EngineAddress(host=host, origin="DOCKER_HOST")), with_tls)
    context = current_context(folder, environ.get("DOCKER_CONTEXT", ""))
    return checked(context) if context else None


def _with_tls(address: EngineAddress, with_tls: bool) -> EngineAddress:
    if not with_tls or not address.host.startswith("tcp:"):
        return address
    return msgspec.structs.replace(address, host=address.host.replace("tcp:", "https:", 1))


class _Configuration(msgspec.Struct, frozen=True, rename="camel"):
    """The part of Docker's config.json that names an engine."""

    current_context: str | None = None


class _Endpoint(msgspec.Struct, frozen=True, rename="pascal"):
    """The engine of a context."""

    host: str = ""
    skip_tls_verify: bool = msgspec.field(name="SkipTLSVerify", default=False)


class _Context(msgspec.Struct, frozen=True, rename="pascal"):
    """A context's meta.json."""

    endpoints: dict[str, _Endpoint] = {}


def current_context(folder: Path, named: str) -> EngineAddress | None:
    """The engine of the context `named` (DOCKER_CONTEXT), else of the configuration's current one.

    None where neither names one. Raises EngineError for a context that is not there or not readable.
    """
    origin = "DOCKER_CONTEXT" if named else f"currentContext in {folder / 'config.json'}"
    name = named or _read(folder / "config.json", _Configuration).current_context
    if not name or name == "default":
        return None
    place = content_digest(name.encode("utf-8", "surrogateescape"))  # Docker's own name of the folder
    found = _read(folder / "contexts/meta" / place / "meta.json", _Context)
    endpoint = found.endpoints.get("docker", _Endpoint())
    if not endpoint.host:
        raise EngineError(
            f"{origin} names the Docker context '{name}', which {folder} does not have.",
            hint='"docker context ls" lists the contexts.',
        )
    files = folder / "contexts/tls" / place / "docker"
    address = EngineAddress(host=endpoint.host, origin=f"the context {name}", context=name)
    return _with_tls(address, files.is_dir() or endpoint.skip_tls_verify)


def _read(file: Path, cls: type[S]) -> S:
    """A JSON file; the defaults where there is none."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=cls)
    except (FileNotFoundError, NotADirectoryError):
        return cls()
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise EngineError(
            f"Docker's configuration {file} cannot be read: {error}.", hint="Correct it, or set DOCKER_HOST."
        ) from error


def _hint(address: EngineAddress, reason: str) -> str:
    permission = _permission_hint({reason: [address.host.removeprefix("unix://")]})
    return permission or f"Start that engine, or correct {address.origin}."


def _permission_hint(tried: Mapping[str, list[str]]) -> str:
    denied = tried.get("permission denied")
    if not denied:
        return ""
    return (
        f"Your user may not use {denied[0]}: add it to the group of that socket, usually with "
        '"sudo usermod -aG docker $USER", and log in again.'
    )
