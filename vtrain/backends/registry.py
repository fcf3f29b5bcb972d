"""The backends that there are: those built in, and plug-ins by the entry-point group `vtrain.backends`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec

from vtrain.backends import PROTOCOL_VERSION, BackendSettings, HostedJob, JobBackend, RunningReplica
from vtrain.backends.interface import Backend, RuntimeBackend
from vtrain.errors import ConfigError, UnavailableError, VtrainError
from vtrain.messages.nearest import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "vtrain.backends"
BUILT_IN: dict[str, str] = {
    "process": "vtrain.backends.process:Process",
    "docker": "vtrain.backends.docker:Docker",
    "vertex": "vtrain.backends.vertex:Vertex",
}
"""The backends that come with vtrain: a subclass of Backend each, imported when it is asked for."""
LOCAL = "local"
"""Not a backend, but the choice between those of this machine."""
LOCAL_CHOICE = ("docker", "process")
"""The backends that `local` may mean, in the order in which they are asked; the last one takes every job."""
NAMES = (LOCAL, *BUILT_IN)


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The backend that runs a job. `why` is empty where it was named; `notice` is a sentence for the user."""

    backend: Backend
    why: str = ""
    notice: str = ""


def is_choice(name: str) -> bool:
    """Whether the name leaves open which backend runs a job, until the job is known."""
    return name == LOCAL


def find_backend(name: str) -> Backend:
    """The backend of that name; for `local` the one that looks after jobs which are there.

    Raises UnavailableError for a plug-in that cannot be loaded, ConfigError for a name that neither vtrain
    nor a plug-in knows.
    """
    name = LOCAL_CHOICE[-1] if is_choice(name) else name
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        found: Backend = getattr(import_module(module), attribute)()
        return found
    entries = _plugins(name)
    if not entries:
        hint = did_you_mean(name, NAMES, otherwise=f"The built-in ones are {', '.join(NAMES)}.")
        raise ConfigError(f"There is no backend called {name!r}.", hint=hint)
    if len(entries) > 1:  # which one comes first depends on the order of folders
        owners = sorted(entry.dist.name if entry.dist else "unknown" for entry in entries)
        raise UnavailableError(
            f"Several plug-ins register the backend {name!r}: {', '.join(owners)}.",
            hint="Uninstall all but one of them.",
        )
    return _load_plugin(entries[0])


def choose_for(name: str, containers: tuple[str, ...], executors: tuple[str, ...]) -> Chosen:
    """The backend that runs a job whose pools name these images. Raises as `find_backend` and `suits` do."""
    if not is_choice(name):
        return Chosen(backend=find_backend(name))
    notice = ""
    for candidate in map(find_backend, LOCAL_CHOICE):
        answer = candidate.suits(containers, executors)
        if answer.suits:
            return Chosen(backend=candidate, why=answer.text, notice=notice)
        notice = notice or answer.text
    raise AssertionError(f"{LOCAL_CHOICE[-1]} takes every job")


def open_backend(name: str, settings: BackendSettings) -> JobBackend:
    """The backend of that name, ready for use. Raises as `find_backend` does."""
    return open_found(find_backend(name), settings)


def open_found(found: Backend, settings: BackendSettings) -> JobBackend:
    """A backend, ready for use. Raises UnavailableError where something is not installed or does not fit."""
    if found.name in BUILT_IN:
        return found.open(settings)
    with plugin_faults(found.name, "cannot be opened"):
        opened = found.open(settings)
    version = getattr(opened, "protocol_version", None)
    if version is None:
        raise UnavailableError(
            f"The backend plug-in {found.name!r} opens {opened!r}, which is no JobBackend.",
            hint="Its `open` has to return an object with the verbs of vtrain.backends.JobBackend.",
        )
    if version != PROTOCOL_VERSION:
        raise UnavailableError(
            f"The backend plug-in {found.name!r} speaks protocol {version}, "
            f"and this vtrain speaks {PROTOCOL_VERSION}."
        )
    return opened


@contextmanager
def plugin_faults(name: str, what: str = "failed") -> Iterator[None]:
    """Report what the code of a plug-in raises by the plug-in's name, as an UnavailableError.

    Errors of vtrain pass as they are, and so do the faults of the backends built in.
    """
    try:
        yield
    except VtrainError:
        raise
    except (Exception, SystemExit) as error:
        if name in BUILT_IN:
            raise
        words = str(error) or type(error).__name__
        raise UnavailableError(f"The backend plug-in {name!r} {what}: {words}.") from error


def running_replicas(hosted: HostedJob) -> tuple[RunningReplica, ...]:
    """The running replicas of a job of the local runtime, the primary first."""
    return tuple(map(runtime_backend(hosted.backend).running, hosted.replicas))


def runtime_backend(name: str) -> RuntimeBackend:
    """The backend of that name, of the local runtime. Raises as `find_backend`, and UnavailableError."""
    found = find_backend(name)
    if not isinstance(found, RuntimeBackend):
        raise UnavailableError(f"The backend {name} starts no replicas on this machine.")
    return found


def every_backend() -> Iterator[Backend]:
    """The backends built in, then the plug-ins; one that cannot be loaded is left out."""
    yield from map(find_backend, BUILT_IN)
    for name in dict.fromkeys(entry.name for entry in _plugins() if entry.name not in NAMES):
        try:
            found = find_backend(name)
        except UnavailableError:  # a command that names it says why
            continue
        yield found


def _plugins(name: str = "") -> list[EntryPoint]:
    """The entry points of plug-ins; with a name only those that have it."""
    from importlib.metadata import entry_points

    return [entry for entry in entry_points(group=ENTRY_POINTS) if name in ("", entry.name)]


def _load_plugin(entry: EntryPoint) -> Backend:
    """The Backend that a plug-in registers, itself or by its class."""
    with plugin_faults(entry.name, "cannot be loaded"):
        registered = entry.load()
        found = registered() if isinstance(registered, type) else registered
    if not isinstance(found, Backend):
        raise UnavailableError(
            f"The backend plug-in {entry.name!r} registers {entry.value}, which is no Backend.",
            hint="Subclass vtrain.backends.interface.Backend.",
        )
    if getattr(found, "name", "") != entry.name:
        raise UnavailableError(
            f"The backend plug-in {entry.name!r} calls itself {getattr(found, 'name', '')!r}.",
            hint="Its `name` has to be that of its entry point.",
        )
    return found
