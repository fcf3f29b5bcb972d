"""What every command begins with: its console, and the backend that its line means."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from vtrain.backends import BackendSettings, JobBackend, check_available, open_backend
from vtrain.engine.container_options import ContainerOptions
from vtrain.errors import ConfigError, EngineError, UsageError
from vtrain.flags.options import CommonFlags, PlaceFlags
from vtrain.messages.names import CUSTOM_JOBS, DEFAULT_REGION, LOCAL_PROJECT, parse_name, resolve_name
from vtrain.output.console import VERBOSITIES, Console
from vtrain.settings import LOCAL_BACKENDS, Choice, choose_backend, find_project, find_region, home_folder

if TYPE_CHECKING:
    from vtrain.flags.compose import Images


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What a command line talks to, before the job is known that may decide on a backend."""

    console: Console
    choice: Choice
    settings: BackendSettings

    @property
    def is_local(self) -> bool:
        """Whether jobs run on this machine."""
        return self.choice.value in LOCAL_BACKENDS

    def open(self, images: Images | None = None, container: ContainerOptions | None = None) -> Session:
        """The session. `images` are those of the job to be started, which decide what `local` means."""
        choice, notice = self.choice, ""
        if images is not None and choice.value == "local":
            choice, notice = _resolve_local(choice, images)
        if self.choice.value == "local":
            _announce(self.console, choice)
        if notice:
            self.console.warn(notice)
        settings = msgspec.structs.replace(self.settings, container=container or ContainerOptions())
        backend = open_backend(choice.value, settings)
        return Session(console=self.console, backend=backend, backend_name=choice.value, settings=settings)


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


def find_target(
    common: CommonFlags, place: PlaceFlags, *, name: str = "", local_only: bool = False
) -> Target:
    """What a command about the resource `name`, or about none in particular, talks to."""
    console = open_console(common)
    if name:
        resolve_name(name, project=LOCAL_PROJECT, location=DEFAULT_REGION, collection=CUSTOM_JOBS)
    project = None if local_only else find_project(common.project)
    try:
        choice = choose_backend(flag=place.backend, name=name, project=project, local_only=local_only)
    except FileNotFoundError:
        check_current_folder()
        raise
    if choice.value != "local":
        _announce(console, choice)
    check_available(choice.value)
    settings = _backend_settings(choice.value, place, project, name)
    return Target(console=console, choice=choice, settings=settings)


def open_session(
    common: CommonFlags, place: PlaceFlags, *, name: str = "", local_only: bool = False
) -> Session:
    """The session of a command about resources that are there."""
    return find_target(common, place, name=name, local_only=local_only).open()


def check_current_folder() -> None:
    """Raise ConfigError where somebody removed the folder that the command stands in."""
    try:
        os.getcwd()  # noqa: PTH109 - Path.cwd() asks the same
    except FileNotFoundError as error:
        raise ConfigError(
            "The current folder does not exist any more.", hint="Change to one that does: cd FOLDER"
        ) from error


def _announce(console: Console, choice: Choice) -> None:
    """Say which backend a command uses, and why, before anything else."""
    if not console.quiet:
        console.status(f"Backend: {choice.value} ({choice.origin})")


def _resolve_local(choice: Choice, images: Images) -> tuple[Choice, str]:
    """`local` means docker where the job names an image and an engine answers; a sentence where none does."""
    if not (images.containers or images.executors):
        return Choice(value="process", origin=choice.origin), ""
    from vtrain.containers.discovery import find_engine

    try:
        engine = find_engine()
    except EngineError as error:
        if images.containers:
            raise
        image = images.executors[0]
        notice = f"{image} is not used: {error.message} What it contains is installed here instead."
        return Choice(value="process", origin=choice.origin), notice
    return Choice(
        value="docker", origin=f"{choice.origin}; an image is named, and {engine.origin} answers"
    ), ""


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
