"""The plug: what every backend does, the table of those built in, and how one is opened.

A backend never waits. Waiting, following, formatting and exit codes are written once, above it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from vtrain.engine.container_options import ContainerOptions, SimulatedPreemption
from vtrain.errors import ConfigError, UnavailableError, VtrainError
from vtrain.messages.log import LogPage, LogQuery
from vtrain.messages.nearest import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from vtrain.engine.environments.outlook import Outlook
    from vtrain.messages.operation import Operation
    from vtrain.messages.persistent_resource import PersistentResource
    from vtrain.messages.resources import Job
    from vtrain.packaging.plan import SdistPlan

PROTOCOL_VERSION = 1
ENTRY_POINTS = "vtrain.backends"
PACKAGE, PUSHED_IMAGE = "package", "pushed-image"
TRAINER_FORMS = (PACKAGE, PUSHED_IMAGE)


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """One replica as it would be started: its name (`workerpool0-0`), argv and environment."""

    name: str
    argv: tuple[str, ...]
    env: dict[str, str]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly what `submit` would do.

    `job` is what would be sent. `replicas` is what would be started (empty where a service does that).
    `notices` are sentences for people: what is missing, what may be refused. `not_reproduced` names what the
    job asks for and this backend does not reproduce: it declares that, and `--strict` refuses it.
    `steps` tell what has to be made first, and what is there already. `source_folder` is where the
    trainer's code lies on the machine of the user, so that a failure can be shown in it, and `snapshot` the
    archive of its files as they were packaged. `unknown_fields` is a document of fields that the API is not
    known to have, sent along as they are.
    """

    job: Job
    backend: str
    replicas: tuple[Replica, ...] = ()
    notices: tuple[str, ...] = ()
    not_reproduced: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    source_folder: str = ""
    snapshot: str = ""
    unknown_fields: dict[str, Any] = {}


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which resources to list: those that have all of `labels`. `page_token` goes on after a page."""

    collection: str = "customJobs"
    project: str = "local"
    location: str = ""
    page_size: int = 100
    page_token: str = ""
    labels: dict[str, str] = {}


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs, newest first, and the token of the next page (empty: this was the last).

    `damaged` names the jobs whose stored entry cannot be read.
    """

    jobs: tuple[Job, ...]
    next_page_token: str = ""
    damaged: tuple[str, ...] = ()


class ResourcePage(msgspec.Struct, frozen=True, kw_only=True):
    """Persistent resources, and the token of the next page (empty: this was the last)."""

    resources: tuple[PersistentResource, ...]
    next_page_token: str = ""


class ServiceAccess(msgspec.Struct, frozen=True, kw_only=True):
    """How a service is spoken to, and as whom. Empty values leave it to gcloud's properties.

    `api_version` is `v1`, or `v1beta1` for gcloud's beta and alpha commands. `billing_project` is the project
    whose quota is used. With `log_http` requests and answers are shown on stderr.
    """

    api_version: str = "v1"
    account: str = ""
    access_token_file: str = ""
    impersonate_service_account: str = ""
    billing_project: str = ""
    trace_token: str = ""
    log_http: bool = False


Tell = Callable[[str], None]


def _unheard(_text: str) -> None:
    """Nobody listens."""


class BackendSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend is told when it is opened. It may `tell` what it is doing while a command waits."""

    home: Path
    project: str
    region: str
    container: ContainerOptions = ContainerOptions()
    preemption: SimulatedPreemption | None = None
    aip_dirs: str = ""
    access: ServiceAccess = ServiceAccess()
    tell: Tell = _unheard


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How a watcher asks: seconds between two questions, and for how long in spite of failed ones.

    The pause is the shortest after news, and grows to the longest while there are none.
    """

    fastest: float
    slowest: float
    patience: float = 60.0


LOCAL_PACE = Pace(fastest=0.015, slowest=0.15)


class JobBackend(Protocol):
    """Runs jobs. Every verb raises NotFoundError for a name that it does not know.

    Optional beside the verbs: `pace`, a Pace (without it: `LOCAL_PACE`), and `kill`, a cancel with force.
    """

    protocol_version: int

    def plan(self, job: Job) -> Plan:
        """Exactly what submit would do; touches nothing. Raises ConfigError for what would be refused."""

    def submit(self, plan: Plan) -> Job:
        """Start the job and return once it cannot be lost: named, PENDING or QUEUED.

        A backend that can compare idempotency keys in the same step raises KeyTakenError.
        """

    def get(self, name: str) -> Job:
        """The job as it stands now; an ended job stays ended."""

    def list(self, query: Query) -> Page:
        """Jobs of a collection, newest first."""

    def logs(self, query: LogQuery) -> LogPage:
        """The log entries that there are now, from a cursor on."""

    def cancel(self, name: str) -> None:
        """Ask the job to end. Asking twice, or too late, is fine."""

    def delete(self, name: str) -> None:
        """Remove every trace of an ended job. Raises ConflictError while it runs."""


@runtime_checkable
class ServiceBackend(Protocol):
    """Speaks to a service, in somebody's name."""

    def sign_in(self) -> None:
        """Find out as whom, before anything that takes long. Raises CredentialsError where it is nobody."""


@runtime_checkable
class ViewingBackend(Protocol):
    """Tells what replicas see, without a job, and without asking anybody who might not be there."""

    def view(self, job: Job, trial_id: str = "") -> tuple[Replica, ...]:
        """The replicas of the job, the primary first; as the job of that trial, where one is given."""


@runtime_checkable
class EnvironmentBackend(Protocol):
    """Makes the environment of Python packages itself, and can tell beforehand what it will lack."""

    def outlook(self, job: Job, trainer: SdistPlan | None) -> Outlook:
        """The same answer whatever was built before. Without `trainer` the job's packages are read."""

    def environment_steps(self, job: Job, trainer: SdistPlan | None) -> tuple[str, ...]:
        """What has to be made, and what is there. Damaged packages of `trainer` are still to be built."""


@runtime_checkable
class ResourceBackend(Protocol):
    """Keeps persistent resources. What takes long is answered with an Operation, at once."""

    def create_resource(
        self, resource_id: str, resource: PersistentResource, unknown_fields: dict[str, Any]
    ) -> Operation:
        """Make a resource of that id."""

    def get_resource(self, name: str) -> PersistentResource:
        """The resource as it stands now."""

    def list_resources(self, query: Query) -> ResourcePage:
        """Resources of a project and location."""

    def delete_resource(self, name: str) -> Operation:
        """Remove a resource; the service cancels what runs on it."""

    def reboot_resource(self, name: str) -> Operation:
        """Start the machines of a resource anew."""


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """What a command has to know of a backend before it is opened.

    The resources of a backend that `is_local` live under `projects/local`: it needs neither project nor
    region, and only its user can read its jobs. `trainer_form` is what it runs where the command line does
    not say: a package, or an image that is pushed to a registry.
    """

    is_local: bool = True
    trainer_form: str = PACKAGE


_SERVICE = Traits(is_local=False, trainer_form=PUSHED_IMAGE)
BUILT_IN = {
    "local": ("vtrain.backends.local:open_process", Traits()),
    "process": ("vtrain.backends.local:open_process", Traits()),
    "docker": ("vtrain.backends.local:open_docker", Traits()),
    "vertex": ("vtrain.backends.vertex.backend:open_vertex", _SERVICE),
}
"""The backends that come with vtrain, the functions that open them, and their traits."""


def traits_of(name: str) -> Traits:
    """The traits of a backend; a plug-in says them in attributes of what it registers.

    Raises UnavailableError for a plug-in that cannot be loaded or says something else, ConfigError for a
    name that neither vtrain nor a plug-in knows.
    """
    check_available(name)
    if name in BUILT_IN:
        return BUILT_IN[name][1]
    registered, usual = _load_plugin(name), Traits()
    traits = Traits(
        is_local=getattr(registered, "is_local", usual.is_local),
        trainer_form=getattr(registered, "trainer_form", usual.trainer_form),
    )
    if not isinstance(traits.is_local, bool) or traits.trainer_form not in TRAINER_FORMS:
        raise UnavailableError(
            f"The backend plug-in {name!r} has is_local={traits.is_local!r} and "
            f"trainer_form={traits.trainer_form!r}; expected a bool and one of {', '.join(TRAINER_FORMS)}."
        )
    return traits


def check_available(name: str) -> None:
    """Raise ConfigError for a name that neither vtrain nor a plug-in knows."""
    if name not in BUILT_IN and not _plugins(name):
        hint = did_you_mean(name, BUILT_IN, otherwise=f"The built-in ones are {', '.join(BUILT_IN)}.")
        raise ConfigError(f"There is no backend called {name!r}.", hint=hint)


def open_backend(name: str, settings: BackendSettings) -> JobBackend:
    """The backend of that name, ready for use.

    Raises UnavailableError for one whose packages are not installed, ConfigError for a name that neither
    vtrain nor a plug-in knows.
    """
    check_available(name)
    if name in BUILT_IN:
        module, _, function = BUILT_IN[name][0].partition(":")
        backend: JobBackend = getattr(import_module(module), function)(settings)
        return backend
    return _open_plugin(name, settings)


def _plugins(name: str) -> list[EntryPoint]:
    from importlib.metadata import entry_points

    return [entry for entry in entry_points(group=ENTRY_POINTS) if entry.name == name]


def _load_plugin(name: str) -> Callable[[BackendSettings], JobBackend]:
    try:
        registered: Callable[[BackendSettings], JobBackend] = _plugins(name)[0].load()
    except Exception as error:  # a plug-in is other people's code: whatever it raises is reported by its name
        raise UnavailableError(f"The backend plug-in {name!r} cannot be loaded: {error}.") from error
    return registered


def _open_plugin(name: str, settings: BackendSettings) -> JobBackend:
    registered = _load_plugin(name)
    try:
        backend = registered(settings)
    except VtrainError:
        raise
    except Exception as error:
        raise UnavailableError(f"The backend plug-in {name!r} cannot be opened: {error}.") from error
    if backend.protocol_version != PROTOCOL_VERSION:
        raise UnavailableError(
            f"The backend plug-in {name!r} speaks protocol {backend.protocol_version}, "
            f"and this vtrain speaks {PROTOCOL_VERSION}."
        )
    return backend
