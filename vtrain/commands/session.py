"""What every command begins with: its console, and the backend that its line means."""

from __future__ import annotations

from typing import Any

import msgspec

from vtrain.backends import BackendSettings, JobBackend, check_available, open_backend
from vtrain.errors import UsageError
from vtrain.flags.options import CommonFlags, PlaceFlags
from vtrain.messages.names import CUSTOM_JOBS, DEFAULT_REGION, LOCAL_PROJECT, parse_name, resolve_name
from vtrain.output.console import VERBOSITIES, Console
from vtrain.settings import LOCAL_BACKENDS, Choice, choose_backend, find_project, find_region, home_folder


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One command at work."""

    console: Console
    backend: JobBackend
    backend_name: str
    settings: BackendSettings

    @property
    def is_local(self) -> bool:
        """Whether jobs of this session run on this machine."""
        return self.backend_name in LOCAL_BACKENDS

    def full_name(self, text: str, collection: str = CUSTOM_JOBS) -> str:
        """The full resource name that the command line means."""
        settings = self.settings
        return str(
            resolve_name(text, project=settings.project, location=settings.region, collection=collection)
        )


def open_console(common: CommonFlags) -> Console:
    """The console of a command. Raises UsageError for a level that does not exist."""
    if common.verbosity not in VERBOSITIES:
        raise UsageError(
            f"--verbosity: there is no level {common.verbosity!r}.", hint=f"Take {', '.join(VERBOSITIES)}."
        )
    return Console(
        format_text=common.format,
        verbosity=common.verbosity,
        quiet=common.quiet,
        user_output=common.user_output,
    )


def open_session(
    common: CommonFlags, place: PlaceFlags, *, name: str = "", local_only: bool = False
) -> Session:
    """The session of a command about the resource `name`, or about none in particular."""
    console = open_console(common)
    if name:
        resolve_name(name, project=LOCAL_PROJECT, location=DEFAULT_REGION, collection=CUSTOM_JOBS)
    project = None if local_only else find_project(common.project)
    choice = choose_backend(flag=place.backend, name=name, project=project, local_only=local_only)
    backend_name, why = _resolve_local(choice)
    if not console.quiet:
        console.status(f"Backend: {backend_name} ({why})")
    check_available(backend_name)
    settings = _backend_settings(backend_name, place, project, name)
    backend = open_backend(backend_name, settings)
    return Session(console=console, backend=backend, backend_name=backend_name, settings=settings)


def _resolve_local(choice: Choice) -> tuple[str, str]:
    """`local` means docker where the spec names an image and an engine answers; until vtrain has
    docker, it means process."""
    if choice.value == "local":
        return "process", choice.origin
    return choice.value, choice.origin


def _backend_settings(backend: str, place: PlaceFlags, project: Choice | None, name: str) -> BackendSettings:
    local = backend != "vertex"
    full = parse_name(name)
    region, _ = (full.location, "") if full and not place.region else find_region(place.region, local=local)
    project_id = LOCAL_PROJECT if local else (project.value if project else "")
    return BackendSettings(home=home_folder(), project=project_id, region=region)


def job_document(job: Any) -> dict[str, Any]:
    """A resource as it is printed."""
    from vtrain.messages.codec import to_document

    return to_document(job)
