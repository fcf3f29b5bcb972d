"""The backend that a command or a program means, and its settings: chosen, described, and opened."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from vtrain.backends import BackendSettings, JobBackend, ReplicaOptions, ResourceBackend, ServiceAccess
from vtrain.backends.interface import Backend, CommandLine, RuntimeBackend
from vtrain.backends.registry import LOCAL, choose_for, find_backend, is_choice, open_found
from vtrain.command_log import current_command
from vtrain.core.references import find_reference
from vtrain.errors import ConfigError
from vtrain.messages.names import (
    CUSTOM_JOB,
    DEFAULT_REGION,
    LOCAL_PROJECT,
    ResourceKind,
    parse_name,
    resolve_name,
)
from vtrain.pyproject import nearest_pyproject
from vtrain.settings import Choice, choose_backend, find_project, given_backend, project_in_region

if TYPE_CHECKING:
    from vtrain.backends.model_interface import ModelRegistryBackend
    from vtrain.core.compose import Images
    from vtrain.runtime.job_order import TypedCommand


class Reporter:
    """The caller of a workflow, which hears what that does, and is asked. This one says nothing."""

    def chose(self, choice: Choice) -> None:
        """The backend is chosen, and nothing was asked of it yet."""

    def progress(self, text: str, /) -> None:
        """A message about something under way."""

    def warn(self, text: str) -> None:
        """A warning."""

    def show_state(self, text: str) -> None:
        """What is under way now, in place of what was."""

    def ask_region(self) -> str:
        """The region that a user chooses; empty where nobody can be asked."""
        return ""

    def columns(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """Rows of a table as lines, for an error."""
        raise NotImplementedError


R = TypeVar("R", bound=Reporter)


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """The place of jobs as a caller gives it. Empty values are left to configuration."""

    project: str | None = None
    backend: str = ""
    region: str = ""
    access: ServiceAccess = ServiceAccess()

    @property
    def names_service(self) -> bool:
        """Whether the wish itself, and no configuration, names a project of a service."""
        project = project_in_region(self.region) or (find_project(self.project) if self.project else None)
        return project is not None and project.value != LOCAL_PROJECT

    @property
    def is_configured_elsewhere(self) -> bool:
        """Whether configuration alone makes it a wish for a service. Raises as `choose_target` does."""
        if self.backend or self.names_service:
            return False
        choice = choose_backend(flag="", name="", project=find_project(self.project))
        return not find_backend(choice.value).is_local


class LocalCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command that runs on this machine alone: its name, and the command that does the same elsewhere."""

    name: str
    elsewhere: str


class Target(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """The chosen backend, before the job is known that may decide what `local` means.

    `name` is the resource that it is about, a full name or an id; empty where it is about none.
    """

    console: R
    choice: Choice
    backend: Backend
    settings: BackendSettings
    name: str = ""

    def api_has(self, message: str, document: dict[str, Any]) -> bool:
        """Whether the backend takes fields of a message that vtrain does not know."""
        return self.backend.has_fields(message, document, self.settings)

    def here(self, backend: str) -> Target[R]:
        """The target on this machine of a command whose resource lives elsewhere, where it runs something.

        `backend` is that of the flag, which may be none of this machine.
        """
        value = backend if backend and find_backend(backend).is_local else LOCAL
        found = find_backend(value)
        choice = Choice(value=value, origin="it runs on this machine")
        settings = found.settings(CommandLine())
        return msgspec.structs.replace(self, choice=choice, backend=found, settings=settings, name="")

    def open(self, images: Images | None = None, options: ReplicaOptions | None = None) -> Session[R]:
        """The session. `images` are those of the job to be started, which decide what `local` means.

        Without them it is about what is there: jobs and models of every backend of this machine.
        """
        backend, choice, notice = self.backend, self.choice, ""
        if images is not None:
            chosen = choose_for(self.choice.value, images.containers, images.executors)
            backend, notice = chosen.backend, chosen.notice
            origin = f"{choice.origin}; {chosen.why}" if chosen.why else choice.origin
            choice = Choice(value=backend.name, origin=origin)
        if is_choice(self.choice.value):
            self.console.chose(choice)
        if notice:
            self.console.warn(notice)
        settings = msgspec.structs.replace(
            self.settings,
            options=options or ReplicaOptions(),
            command=_typed_command() if images is not None and isinstance(backend, RuntimeBackend) else None,
            tell=self.console.progress,
        )
        jobs = open_found(backend, settings)
        return Session(console=self.console, backend=backend, jobs=jobs, settings=settings)


class Session(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """An opened backend: `backend` describes it, `jobs` is the same at work."""

    console: R
    backend: Backend
    jobs: JobBackend
    settings: BackendSettings

    @property
    def is_local(self) -> bool:
        """Whether the jobs live under `projects/local`."""
        return self.backend.is_local

    @property
    def resources(self) -> ResourceBackend:
        """The backend as a keeper of persistent resources. Raises UnavailableError if it keeps none."""
        if isinstance(self.jobs, ResourceBackend):
            return self.jobs
        return self.backend.open_resources(self.settings)

    @property
    def models(self) -> ModelRegistryBackend:
        """The registry of models. Raises UnavailableError if the backend has none."""
        return self.backend.open_models(self.settings)

    def full_name(self, text: str, kind: ResourceKind = CUSTOM_JOB) -> str:
        """The full resource name that a word means here. Raises ConfigError for what is none."""
        return full_name(text, kind, project=self.settings.project, location=self.settings.region)

    def uri_of(self, document: dict[str, Any]) -> str:
        """The text of `--uri`: the address of a resource, or its name if no service has it."""
        name = str(document.get("name", ""))
        full = parse_name(name)
        return name if full is None else self.backend.uri(full, self.settings)


def _typed_command() -> TypedCommand | None:
    """The command line that runs now; None where there is none, or no folder that it runs in."""
    from vtrain.runtime.job_order import TypedCommand

    words = current_command()
    try:
        return TypedCommand(words=words, folder=os.getcwd()) if words else None  # noqa: PTH109 - as Path.cwd
    except FileNotFoundError:
        return None


def choose_target(
    console: R,
    wish: Wish,
    *,
    name: str | None = None,
    kind: ResourceKind = CUSTOM_JOB,
    local_only: LocalCommand | None = None,
    region: str = "",
    about_running: bool = False,
    newest: bool = False,
) -> Target[R]:
    """The target of what is said about the resource `name` of a kind, or about none in particular.

    `local_only` is the command, if it is one that runs on this machine alone. `region` is the project's, on a
    service, where the wish names none. With `about_running` a name that several jobs share means the one that
    has not ended, with `newest` the newest of those that are left. Raises ConfigError for a name that means
    several jobs or is malformed, NotFoundError for one that no job has.
    """
    found = find_project(wish.project)
    project = None if local_only else project_in_region(wish.region) or found
    with suppress(FileNotFoundError):  # a command that needs no folder works in one that was removed
        nearest_pyproject(Path.cwd())  # checked by every command, also where a flag says more than it
    reference = None if name is None else find_reference(name, kind, wish.region)
    if reference is not None and about_running:
        reference = reference.about_running()
    if local_only:
        choice = _local_choice(local_only, wish.backend)
    elif reference is not None and reference.name and not wish.names_service:
        named_by = "the job is on this machine"
        choice = choose_backend(flag=wish.backend, name=reference.name, project=project, named_by=named_by)
    else:
        choice = choose_backend(flag=wish.backend, name=name or "", project=project)
    backend = find_backend(choice.value)
    if reference is not None:
        name = reference.meant_on(backend, kind, console.columns, newest=newest)
        if newest and isinstance(backend, RuntimeBackend) and reference.note:
            console.progress(reference.note)
        full_name(name, kind, project=LOCAL_PROJECT, location=DEFAULT_REGION)
    if not is_choice(choice.value):  # else `Target.open` tells it, once the job's images decide
        console.chose(choice)
    line = CommandLine(
        name=name or "",
        region=wish.region or ("" if backend.is_local else region),
        project=project,
        access=wish.access,
        ask_region=console.ask_region,
    )
    settings = backend.settings(line)
    return Target(console=console, choice=choice, backend=backend, settings=settings, name=name or "")


def _local_choice(command: LocalCommand, flag: str) -> Choice:
    """The backend of a command that is always local. Raises ConfigError for a flag that names a service."""
    given = given_backend(flag)
    if given is not None and find_backend(given.value).is_local:
        return given
    if flag:
        raise ConfigError(
            f"{command.name} runs a trainer on this machine, and --backend={flag} does not.",
            hint=f"Leave --backend out, or take: vtrain {command.elsewhere} --backend={flag} --stream-logs",
        )
    return Choice(value=LOCAL, origin=f"{command.name} is always local")


def full_name(text: str, kind: ResourceKind, *, project: str, location: str) -> str:
    """The full resource name that a word means there. Raises ConfigError for what is none."""
    full = parse_name(text)
    collection = full.collection if full and full.collection in kind.also else kind.collection
    return str(resolve_name(text, project=project, location=location, collection=collection))
