"""The start of each command: its console, the backend that its line means, and questions at a terminal."""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from vtrain.backends import BackendSettings, JobBackend, ResourceBackend, ServiceAccess
from vtrain.backends.interface import Backend, CommandLine, RuntimeBackend
from vtrain.backends.registry import LOCAL, choose_for, find_backend, is_choice, open_found
from vtrain.backends.replica_options import ReplicaOptions
from vtrain.command_log import current_command
from vtrain.commands.kinds import CUSTOM_JOB, ResourceKind
from vtrain.commands.references import find_reference
from vtrain.errors import ConfigError, UsageError
from vtrain.flags.grammar import join_lists
from vtrain.flags.options import CommonFlags, PlaceFlags
from vtrain.messages.names import DEFAULT_REGION, LOCAL_PROJECT, parse_name, resolve_name
from vtrain.messages.structs import Resource
from vtrain.output.colours import dim
from vtrain.output.console import VERBOSITIES, Console
from vtrain.properties import property_flag, property_value, use_configuration
from vtrain.pyproject import nearest_pyproject
from vtrain.settings import (
    TRAINING_REGIONS,
    Choice,
    choose_backend,
    find_project,
    given_backend,
    project_in_region,
)

if TYPE_CHECKING:
    from vtrain.backends.model_interface import ModelRegistryBackend
    from vtrain.core.compose import Images
    from vtrain.runtime.job_order import TypedCommand


LOCAL_RUN = "local-run"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The target of a command line, before the job is known that may decide on a backend.

    `name` is the resource that the line is about, a full name or an id; empty where it is about none.
    """

    console: Console
    choice: Choice
    backend: Backend
    settings: BackendSettings
    name: str = ""

    def api_has(self, message: str, document: dict[str, Any]) -> bool:
        """Whether the backend takes fields of a message that vtrain does not know."""
        return self.backend.has_fields(message, document, self.settings)

    def here(self, backend: str) -> Target:
        """The target on this machine of a command whose resource lives elsewhere, where it runs something.

        `backend` is that of the flag, which may be none of this machine.
        """
        value = backend if backend and find_backend(backend).is_local else LOCAL
        found = find_backend(value)
        choice = Choice(value=value, origin="it runs on this machine")
        settings = found.settings(CommandLine())
        return msgspec.structs.replace(self, choice=choice, backend=found, settings=settings, name="")

    def open(self, images: Images | None = None, options: ReplicaOptions | None = None) -> Session:
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
            _announce(self.console, choice)
        if notice:
            self.console.warn(notice)
        settings = msgspec.structs.replace(
            self.settings,
            options=options or ReplicaOptions(),
            command=_typed_command() if isinstance(backend, RuntimeBackend) else None,
            tell=self.console.progress,
        )
        jobs = open_found(backend, settings)
        return Session(console=self.console, backend=backend, jobs=jobs, settings=settings)


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """The backend of one command: `backend` describes it, `jobs` is the same, opened."""

    console: Console
    backend: Backend
    jobs: JobBackend
    settings: BackendSettings

    def api_has(self, message: str, document: dict[str, Any]) -> bool:
        """Whether the backend takes fields of a message that vtrain does not know."""
        return self.backend.has_fields(message, document, self.settings)

    def tell_origin(self, sentence: str) -> None:
        """Say where the job comes from that no flag names."""
        if sentence and not self.console.quiet:
            self.console.status(sentence)

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
        """The full resource name that the command line means. Raises ConfigError for what is none."""
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
        return TypedCommand(words=words, folder=os.getcwd()) if words else None  # noqa: PTH109 - as below
    except FileNotFoundError:
        return None


def open_console(common: CommonFlags) -> Console:
    """The console of a command, which begins here: with gcloud's configuration that it names.

    Raises ConfigError where there is none of that name, UsageError for a level that does not exist.
    """
    use_configuration(common.configuration)
    if common.verbosity not in VERBOSITIES:
        raise UsageError(
            f"--verbosity: there is no level {common.verbosity!r}.", hint=f"Take {', '.join(VERBOSITIES)}."
        )
    user_output = common.user_output
    if user_output is None:
        name = ("core", "user_output_enabled")
        user_output = property_value(*name) is None or property_flag(*name)
    default = property_value("core", "default_format")
    return Console(
        format_text=common.format,
        flatten=join_lists(common.flatten, "--flatten"),
        default_format=default.value if default else "",
        verbosity=common.verbosity,
        quiet=common.quiet,
        user_output=user_output,
    )


def find_target(
    common: CommonFlags,
    place: PlaceFlags,
    *,
    name: str | None = None,
    kind: ResourceKind = CUSTOM_JOB,
    local_only: str = "",
    region: str = "",
    about_running: bool = False,
) -> Target:
    """The target of a command about the resource `name` of a kind, or about none in particular.

    `local_only` is the name of a command that runs on this machine alone; empty for any other.
    `region` is the project's, on a service, where no flag names one. With `about_running` a name that several
    jobs share means the one that has not ended.
    """
    console = open_console(common)
    found = find_project(common.project)
    project = None if local_only else project_in_region(place.region) or found
    with suppress(FileNotFoundError):  # a command that needs no folder works in one that was removed
        nearest_pyproject(Path.cwd())  # checked by every command, also where a flag says more than it
    reference = None if name is None else find_reference(name, kind, place)
    if reference is not None and about_running:
        reference = reference.about_running()
    if local_only:
        choice = _local_choice(local_only, place.backend)
    elif reference is not None and reference.name and not _names_service(common, place):
        choice = choose_backend(
            flag=place.backend,
            name=reference.name,
            project=project,
            named_by="the job is on this machine",
        )
    else:
        choice = choose_backend(flag=place.backend, name=name or "", project=project)
    backend = find_backend(choice.value)
    if reference is not None:
        name = reference.meant_on(backend, kind)
        full_name(name, kind, project=LOCAL_PROJECT, location=DEFAULT_REGION)
    if not is_choice(choice.value):  # else `Target.open` tells it, once the job's images decide
        _announce(console, choice)
    line = CommandLine(
        name=name or "",
        region=place.region or ("" if backend.is_local else region),
        project=project,
        access=service_access(common),
        ask_region=lambda: prompted_region(console),
    )
    settings = backend.settings(line)
    return Target(console=console, choice=choice, backend=backend, settings=settings, name=name or "")


def _names_service(common: CommonFlags, place: PlaceFlags) -> bool:
    """Whether the line itself, and no configuration, names a project of a service."""
    given = project_in_region(place.region) or (find_project(common.project) if common.project else None)
    return given is not None and given.value != LOCAL_PROJECT


def is_configured_elsewhere(common: CommonFlags, place: PlaceFlags) -> bool:
    """Whether configuration, and no flag, makes the line one of a service. Raises as `find_target` does."""
    if place.backend or _names_service(common, place):
        return False
    choice = choose_backend(flag="", name="", project=find_project(common.project))
    return not find_backend(choice.value).is_local


def _local_choice(command: str, flag: str) -> Choice:
    """The backend of a command that is always local. Raises ConfigError for a flag that names a service."""
    given = given_backend(flag)
    if given is not None and find_backend(given.value).is_local:
        return given
    if flag:
        elsewhere = "custom-jobs create" if command == LOCAL_RUN else "submit"
        raise ConfigError(
            f"{command} runs a trainer on this machine, and --backend={flag} does not.",
            hint=f"Leave --backend out, or take: vtrain {elsewhere} --backend={flag} --stream-logs",
        )
    return Choice(value=LOCAL, origin=f"{command} is always local")


def open_session(common: CommonFlags, place: PlaceFlags, *, kind: ResourceKind = CUSTOM_JOB) -> Session:
    """The session of a command about resources that are there."""
    return find_target(common, place, kind=kind).open()


def open_named(
    common: CommonFlags,
    place: PlaceFlags,
    text: str,
    kind: ResourceKind = CUSTOM_JOB,
    *,
    about_running: bool = False,
) -> tuple[Session, str]:
    """The session of a command about one resource, and the full name of that resource.

    A job of this machine is also named by the first digits of its id, its display name or `@last`. Raises
    ConfigError for a text that is no name or means several jobs, NotFoundError for a name that no job has.
    """
    target = find_target(common, place, name=text, kind=kind, about_running=about_running)
    session = target.open()
    return session, session.full_name(target.name, kind)


def check_current_folder() -> None:
    """Raise ConfigError if the current folder was removed."""
    try:
        os.getcwd()  # noqa: PTH109 - Path.cwd() asks the same
    except FileNotFoundError as error:
        raise ConfigError(
            "The current folder does not exist any more.", hint="Change to one that does: cd FOLDER"
        ) from error


def _announce(console: Console, choice: Choice) -> None:
    """Say which backend a command uses, and why, before anything else."""
    if not console.quiet:
        console.status(dim(f"Backend: {choice.value} ({choice.origin})"))


def service_access(common: CommonFlags) -> ServiceAccess:
    """The flags about access to a service; the backend of a service checks them."""
    return ServiceAccess(
        **{field: getattr(common, field) for field in ServiceAccess.__struct_fields__}  # the same names
    )


def full_name(text: str, kind: ResourceKind, *, project: str, location: str) -> str:
    """The full resource name that a word means there. Raises ConfigError for what is none."""
    full = parse_name(text)
    collection = full.collection if full and full.collection in kind.also else kind.collection
    return str(resolve_name(text, project=project, location=location, collection=collection))


def resource_document(resource: Resource) -> dict[str, Any]:
    """A resource as it is printed: as the service wrote it, where it comes from one.

    What was made here is printed without its secrets.
    """
    from vtrain.messages.codec import to_document
    from vtrain.messages.secrets import is_made_here, masked_document

    document = to_document(resource) if resource.answer is None else resource.answer
    return masked_document(document) if is_made_here(resource) else document


def sent_document(resource: Resource, unknown_fields: dict[str, Any]) -> dict[str, Any]:
    """A resource as it would be sent, with the fields that vtrain does not know, and without its secrets."""
    from vtrain.messages.codec import to_document
    from vtrain.messages.secrets import masked_document
    from vtrain.messages.service_documents import laid_over

    return masked_document(laid_over(to_document(resource), unknown_fields))


# questions at a terminal


MENU = tuple(region for region in TRAINING_REGIONS if region != "asia-south2")
"""gcloud's own menu, so that a number means the same region in both."""
NO_REGION, GIVE_REGION = "No region was chosen.", "Give --region=REGION."
_SIGNAL_SECONDS = 0.2
"""The longest wait of a signal that Python has not noticed."""


def answer_to(
    console: Console, question: str, *, otherwise: str = "Nothing was written.", hint: str = ""
) -> str:
    """Ask a question and return the typed line, stripped.

    Raises ConfigError at the end of the input; its message is `otherwise`.
    """
    console.ask(question)
    # Python would not notice a signal that arrives just before it reads; a wait that ends notices it.
    while not select.select([sys.stdin], [], [], _SIGNAL_SECONDS)[0]:
        continue
    answer = sys.stdin.readline()
    if not answer:
        raise ConfigError(otherwise, hint=hint)
    return answer.strip()


def prompted_region(console: Console) -> str:
    """The region that the user chooses; empty where one is set already, or nobody can be asked.

    Raises ConfigError when the choice is cancelled.
    """
    can_ask = sys.stdin.isatty() and sys.stderr.isatty() and not console.quiet
    if property_value("ai", "region") or not can_ask or property_flag("core", "disable_prompts"):
        return ""
    lines = [f" [{number}] {region}" for number, region in enumerate(MENU, start=1)]
    console.status("\n".join(["In which region?", *lines, f" [{len(lines) + 1}] none: cancel"]))
    region = _choose(console)
    console.status(f"To make it the default: gcloud config set ai/region {region}")
    return region


def _choose(console: Console) -> str:
    """The region of the number, or name, that is typed; asked until it is one."""
    numbers = [str(number) for number in range(1, len(MENU) + 1)]
    while True:
        word = answer_to(console, "Number or name: ", otherwise=NO_REGION, hint=GIVE_REGION)
        if word == str(len(MENU) + 1):
            raise ConfigError(NO_REGION, hint=GIVE_REGION)
        if word in TRAINING_REGIONS:
            return word
        if word in numbers:
            return MENU[numbers.index(word)]
        console.status(f"Please type a number from 1 to {len(MENU) + 1}, or a region.")
