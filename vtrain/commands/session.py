"""What every command begins with: its console, and the backend that its line means."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import msgspec

from vtrain.backends import (
    BackendSettings,
    JobBackend,
    ResourceBackend,
    ServiceAccess,
    Traits,
    open_backend,
    traits_of,
)
from vtrain.commands.kinds import CUSTOM_JOB, ResourceKind
from vtrain.commands.region_prompt import prompted_region
from vtrain.engine.container_options import ContainerOptions
from vtrain.errors import ConfigError, EngineError, UnavailableError, UsageError
from vtrain.flags.grammar import join_lists
from vtrain.flags.options import CommonFlags, PlaceFlags
from vtrain.messages.base import Resource
from vtrain.messages.names import DEFAULT_REGION, LOCAL_PROJECT, parse_name, resolve_name
from vtrain.output.console import VERBOSITIES, Console
from vtrain.properties import property_flag, property_value, use_configuration
from vtrain.settings import (
    Choice,
    choose_backend,
    find_project,
    find_region,
    given_backend,
    home_folder,
    project_in_region,
)

if TYPE_CHECKING:
    from vtrain.flags.compose import Images

API_VERSIONS = ("v1", "v1beta1")


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What a command line talks to, before the job is known that may decide on a backend."""

    console: Console
    choice: Choice
    traits: Traits
    settings: BackendSettings

    @property
    def is_local(self) -> bool:
        """Whether jobs live under `projects/local`."""
        return self.traits.is_local

    def open(self, images: Images | None = None, container: ContainerOptions | None = None) -> Session:
        """The session. `images` are those of the job to be started, which decide what `local` means."""
        choice, notice = self.choice, ""
        if images is not None and choice.value == "local":
            choice, notice = _resolve_local(choice, images)
        if self.choice.value == "local":
            _announce(self.console, choice)
        if notice:
            self.console.warn(notice)
        settings = msgspec.structs.replace(
            self.settings, container=container or ContainerOptions(), tell=self.console.progress
        )
        backend = open_backend(choice.value, settings)
        return Session(
            console=self.console,
            backend=backend,
            backend_name=choice.value,
            is_local=self.is_local,
            settings=settings,
        )


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One command at work."""

    console: Console
    backend: JobBackend
    backend_name: str
    is_local: bool
    settings: BackendSettings

    @property
    def resources(self) -> ResourceBackend:
        """The backend as a keeper of persistent resources. Raises UnavailableError if it keeps none."""
        if isinstance(self.backend, ResourceBackend):
            return self.backend
        raise UnavailableError(
            f"The backend {self.backend_name} has no persistent resources.",
            hint="They live on Vertex AI: add --backend=vertex --project=PROJECT_ID.",
        )

    def full_name(self, text: str, kind: ResourceKind = CUSTOM_JOB) -> str:
        """The full resource name that the command line means. Raises ConfigError for what is none."""
        return _full_name(text, kind, project=self.settings.project, location=self.settings.region)

    def uri_of(self, document: dict[str, Any]) -> str:
        """What `--uri` prints of a resource: its address at the service; its name, where it lives here."""
        name = str(document.get("name", ""))
        full = parse_name(name)
        if self.backend_name != "vertex" or full is None:
            return name
        from vtrain.backends.vertex.clients import service_endpoint

        return f"{service_endpoint(full.location)}/{self.settings.access.api_version}/{name}"


def open_console(common: CommonFlags) -> Console:
    """The console of a command, which begins here: with gcloud's configuration that it names.

    Raises ConfigError where there is none of that name, UsageError for a level that does not exist.
    """
    use_configuration(common.configuration)
    if common.verbosity not in VERBOSITIES:
        raise UsageError(
            f"--verbosity: there is no level {common.verbosity!r}.", hint=f"Take {', '.join(VERBOSITIES)}."
        )
    default = property_value("core", "default_format")
    return Console(
        format_text=common.format,
        flatten=join_lists(common.flatten, "--flatten"),
        default_format=default.value if default else "",
        verbosity=common.verbosity,
        quiet=common.quiet,
        user_output=_user_output(common),
    )


def _user_output(common: CommonFlags) -> bool:
    """Whether anything is printed: as the flag says, else gcloud's property."""
    if common.user_output is not None:
        return common.user_output
    name = ("core", "user_output_enabled")
    return property_value(*name) is None or property_flag(*name)


def find_target(
    common: CommonFlags,
    place: PlaceFlags,
    *,
    name: str | None = None,
    kind: ResourceKind = CUSTOM_JOB,
    local_only: bool = False,
) -> Target:
    """What a command about the resource `name` of a kind, or about none in particular, talks to."""
    console = open_console(common)
    if name is not None:
        _full_name(name, kind, project=LOCAL_PROJECT, location=DEFAULT_REGION)
    found = find_project(common.project)
    project = None if local_only else project_in_region(place.region) or found
    try:
        if local_only:
            choice = _local_choice(place.backend)
        else:
            choice = choose_backend(flag=place.backend, name=name or "", project=project)
    except FileNotFoundError:
        check_current_folder()
        raise
    if choice.value != "local":
        _announce(console, choice)
    traits = traits_of(choice.value)
    if traits.is_local:
        settings = _local_settings(place, name or "")
    else:
        settings = _service_settings(console, common, place, project, name or "")
    return Target(console=console, choice=choice, traits=traits, settings=settings)


def _local_choice(flag: str) -> Choice:
    """The backend of `local-run`. Raises ConfigError for a flag that names one of a service."""
    given = given_backend(flag)
    if given is not None and traits_of(given.value).is_local:
        return given
    if flag:
        raise ConfigError(
            f"local-run runs a trainer on this machine, and --backend={flag} does not.",
            hint=f"Leave --backend out, or take: vtrain custom-jobs create --backend={flag} --stream-logs",
        )
    return Choice(value="local", origin="local-run is always local")


def open_session(
    common: CommonFlags, place: PlaceFlags, *, name: str | None = None, kind: ResourceKind = CUSTOM_JOB
) -> Session:
    """The session of a command about resources that are there."""
    return find_target(common, place, name=name, kind=kind).open()


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


def _local_settings(place: PlaceFlags, name: str) -> BackendSettings:
    full = parse_name(name)
    region = full.location if full and not place.region else find_region(place.region, local=True)[0]
    return BackendSettings(home=home_folder(), project=LOCAL_PROJECT, region=region)


def _service_settings(
    console: Console, common: CommonFlags, place: PlaceFlags, project: Choice | None, name: str
) -> BackendSettings:
    """Project, region and access to a service. A full name says itself where its resource lives."""
    if common.api_version not in API_VERSIONS:
        raise UsageError(f"--api-version: expected v1 or v1beta1, found {common.api_version!r}.")
    _trust_certificates()
    full = parse_name(name)
    if full is not None:
        project_id, region = (project.value if project else full.project), full.location
    else:
        project_id, region = _find_location(console, place.region, project)
    return BackendSettings(
        home=home_folder(), project=project_id, region=region, access=service_access(common)
    )


def _trust_certificates() -> None:
    """Trust whom gcloud is told to trust, as behind a proxy that looks into TLS."""
    authorities = property_value("core", "custom_ca_certs_file")
    if authorities is not None:
        os.environ.setdefault("REQUESTS_CA_BUNDLE", authorities.value)  # what Google's libraries read


def _find_location(console: Console, region_flag: str, project: Choice | None) -> tuple[str, str]:
    """Project and region. Raises ConfigError where one is missing and nobody can be asked."""
    if project is None:
        raise ConfigError(
            "No project is set.",
            hint="Give --project=PROJECT_ID, or set CLOUDSDK_CORE_PROJECT, or run\n"
            "$ gcloud config set project PROJECT_ID",
        )
    region, _ = find_region(region_flag or prompted_region(console), local=False)
    return project.value, region


def service_access(common: CommonFlags) -> ServiceAccess:
    """How the flags have a service spoken to. Raises ConfigError for what no header holds."""
    if not re.fullmatch(r"[!-~]*", common.billing_project):
        raise ConfigError(f"{common.billing_project!r} (from --billing-project) is not a project id.")
    if not re.fullmatch(r"[!-~ ]*", common.trace_token):
        raise ConfigError(f"--trace-token: {common.trace_token!r} is not a token.")
    return ServiceAccess(
        **{field: getattr(common, field) for field in ServiceAccess.__struct_fields__}  # the same names
    )


def _full_name(text: str, kind: ResourceKind, *, project: str, location: str) -> str:
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
    from vtrain.messages.unknown import laid_over

    return masked_document(laid_over(to_document(resource), unknown_fields))
