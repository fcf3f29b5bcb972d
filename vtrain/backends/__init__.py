"""The plug: what every backend does, the table of those built in, and how one is opened.

A backend never waits. Waiting, following, formatting and exit codes are written once, above it.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from vtrain.engine.container_options import ContainerOptions
from vtrain.errors import ConfigError, UnavailableError
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogPage, LogQuery

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PROTOCOL_VERSION = 1
ENTRY_POINTS = "vtrain.backends"


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """One replica as it would be started: its name (`workerpool0-0`), argv and environment."""

    name: str
    argv: tuple[str, ...]
    env: dict[str, str]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly what `submit` would do.

    `job` is what would be sent. `replicas` is what would be started (empty where a service does that).
    `notices` are sentences for people: fields that this backend does not reproduce, what is missing.
    `steps` tell what has to be made first, and what is there already. `source_folder` is where the
    trainer's code lies on the machine of the user, so that a failure can be shown in it.
    """

    job: CustomJob
    backend: str
    replicas: tuple[Replica, ...] = ()
    notices: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    source_folder: str = ""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs to list. An empty `location` or `filter` selects all; `page_token` goes on after a page."""

    collection: str = "customJobs"
    project: str = "local"
    location: str = ""
    page_size: int = 100
    page_token: str = ""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs, newest first, and the token of the next page (empty: this was the last)."""

    jobs: tuple[CustomJob, ...]
    next_page_token: str = ""


class BackendSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend is told when it is opened."""

    home: Path
    project: str
    region: str
    container: ContainerOptions = ContainerOptions()


class JobBackend(Protocol):
    """Runs jobs. Every verb raises NotFoundError for a name that it does not know."""

    protocol_version: int

    def plan(self, job: CustomJob) -> Plan:
        """Exactly what submit would do; touches nothing."""

    def submit(self, plan: Plan) -> CustomJob:
        """Start the job and return once it cannot be lost: named, PENDING."""

    def get(self, name: str) -> CustomJob:
        """The job as it stands now; an ended job stays ended."""

    def list(self, query: Query) -> Page:
        """Jobs of a collection, newest first."""

    def logs(self, query: LogQuery) -> LogPage:
        """The log entries that there are now, from a cursor on."""

    def cancel(self, name: str) -> None:
        """Ask the job to end. Asking twice, or too late, is fine."""

    def delete(self, name: str) -> None:
        """Remove every trace of an ended job. Raises ConflictError while it runs."""


_BUILT_IN = {
    "local": "vtrain.backends.local:open_process",
    "process": "vtrain.backends.local:open_process",
    "docker": "vtrain.backends.local:open_docker",
}
_NOT_YET = {
    "vertex": "the Vertex AI backend",
}


def check_available(name: str) -> None:
    """Raise UnavailableError for a backend that this version does not have, ConfigError for no backend."""
    if name not in (*_BUILT_IN, *_NOT_YET) and not _plugins(name):
        known = ", ".join([*_BUILT_IN, *_NOT_YET])
        raise ConfigError(f"There is no backend called {name!r}.", hint=f"The built-in ones are {known}.")
    if name in _NOT_YET:
        raise UnavailableError(
            f"This version of vtrain does not have {_NOT_YET[name]} yet.",
            hint="To run on this machine instead, add --backend=process.",
        )


def open_backend(name: str, settings: BackendSettings) -> JobBackend:
    """The backend of that name, ready for use.

    Raises UnavailableError for one that this version does not have, ConfigError for a name that
    neither vtrain nor a plug-in knows.
    """
    check_available(name)
    if name in _BUILT_IN:
        module, _, function = _BUILT_IN[name].partition(":")
        backend: JobBackend = getattr(import_module(module), function)(settings)
        return backend
    return _open_plugin(name, settings)


def _plugins(name: str) -> list[EntryPoint]:
    from importlib.metadata import entry_points

    return [entry for entry in entry_points(group=ENTRY_POINTS) if entry.name == name]


def _open_plugin(name: str, settings: BackendSettings) -> JobBackend:
    try:
        backend: JobBackend = _plugins(name)[0].load()(settings)
    except Exception as error:  # a plug-in is other people's code: whatever it raises is reported by its name
        raise UnavailableError(f"The backend plug-in {name!r} cannot be loaded: {error}.") from error
    if backend.protocol_version != PROTOCOL_VERSION:
        raise UnavailableError(
            f"The backend plug-in {name!r} speaks protocol {backend.protocol_version}, "
            f"and this vtrain speaks {PROTOCOL_VERSION}."
        )
    return backend
