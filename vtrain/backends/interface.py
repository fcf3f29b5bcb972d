"""The base class of backends: what each of them answers about itself. A plug-in registers a subclass.

Nothing here is imported that a command would not need anyway: each command line asks a backend something.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from vtrain.backends import SUPERVISE, BackendSettings, JobBackend, ServiceAccess
from vtrain.errors import ConfigError, UnavailableError, UsageError
from vtrain.messages.names import LOCAL_PROJECT, ResourceName, parse_name
from vtrain.properties import Choice, property_value
from vtrain.settings import find_region, home_folder

if TYPE_CHECKING:
    from vtrain.backends import ResourceBackend, RunningReplica
    from vtrain.backends.health import Check
    from vtrain.backends.image_order import ImageOrder, ImageWish
    from vtrain.backends.local_plan import Planner
    from vtrain.backends.model_interface import ModelRegistryBackend, ModelServing
    from vtrain.runtime.folder import ReplicaFolder
    from vtrain.runtime.gc.candidate import Candidate, Search, Usage
    from vtrain.runtime.job_order import JobOrder
    from vtrain.runtime.launching import Launcher, Log, Runtime
    from vtrain.staging import Buckets


API_VERSIONS = ("v1", "v1beta1")
IMAGE_FLAGS = frozenset({"--pull", "--platform"})
"""Flags of containers that also concern the building of an image."""
QUEUE_FLAGS = frozenset({"--memory", "--require-accelerators"})
"""Flags of containers that also say what a job needs of this machine, whatever it runs in."""
PYTHON_DOWNLOADS_FLAG = "--python-downloads"
ENVIRONMENT_FLAGS = frozenset({"--python", "--environment"})
"""Flags about the Python of trainers that run without a container."""
DEBUGPY_FLAG = "--debugpy"
STUDY_FLAGS = frozenset({"--sampler", "--seed", "--continue-from"})
"""Flags about the suggestions of a tuning job, which a service makes by itself."""
PRELOAD_FLAG = "--preload"
RUNTIME_FLAGS = frozenset(
    {
        *("--simulate-preemption", "--aip-dirs", DEBUGPY_FLAG, PYTHON_DOWNLOADS_FLAG, PRELOAD_FLAG),
        *(*ENVIRONMENT_FLAGS, *STUDY_FLAGS),
    }
)
"""Flags of what only the local runtime does; elsewhere they are refused."""
CREDENTIALS_FLAG = "--credentials"
INTERACTIVE_FLAG = "--interactive"


class TrainerForm(Enum):
    """The form in which a backend takes a trainer."""

    PACKAGE = "package"
    LOCAL_IMAGE = "local-image"
    PUSHED_IMAGE = "pushed-image"


class CommandLine(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a resource, as the command line gives it. Empty values are left to configuration.

    `name` is the resource's full name or its id. `project` is the one that was found, and where.
    `ask_region` asks for a region at a terminal; empty without an answer.
    """

    name: str = ""
    region: str = ""
    project: Choice | None = None
    access: ServiceAccess = ServiceAccess()
    ask_region: Callable[[], str] = lambda: ""


class Suitability(msgspec.Struct, frozen=True, kw_only=True):
    """The choice of a local backend for a job that names none.

    `text` says why it does. Where it does not, it is a sentence for the user, or empty.
    """

    suits: bool
    text: str = ""


class Backend(ABC):
    """Describes a backend and opens it. The defaults suit one that runs packages on this machine."""

    name: str
    """Its name in `--backend`. For a plug-in it has to be the name of the entry point."""
    is_local: bool = True
    """Whether resources live under projects/local: no project is needed, and only their owner reads them."""
    trainer_form: TrainerForm = TrainerForm.PACKAGE
    """The form of a trainer where the command line does not say."""
    image_form: TrainerForm | None = None
    """The image that a trainer becomes where one is asked for; None: the backend runs no images."""
    used_flags: frozenset[str] = frozenset()
    """Flags about how a job is run that have an effect here, such as `--memory`."""
    no_entry_hint: str = ""
    """A hint how else to look into a replica; for `exec` and `shell` on a backend without hosts."""
    no_usage_hint: str = ""
    """A hint where users see the resources that a replica uses; for `top` on a backend without hosts."""

    @abstractmethod
    def open(self, settings: BackendSettings) -> JobBackend:
        """The backend at work. Raises UnavailableError where something is not installed."""

    def open_resources(self, settings: BackendSettings) -> ResourceBackend:  # noqa: ARG002 - for those that have some
        """The keeper of persistent resources. Raises UnavailableError where there is none."""
        raise UnavailableError(
            f"The backend {self.name} has no persistent resources.",
            hint="Take --backend=local or --backend=vertex.",
        )

    def open_models(self, settings: BackendSettings) -> ModelRegistryBackend:  # noqa: ARG002 - for those that have one
        """The registry of models that belongs to it. Raises UnavailableError where there is none."""
        raise UnavailableError(
            f"The backend {self.name} has no models.", hint="Take --backend=local or --backend=vertex."
        )

    def model_serving(self, settings: BackendSettings) -> ModelServing:  # noqa: ARG002
        """The way to serve a model of this machine. Raises UnavailableError where it serves none."""
        raise UnavailableError(
            f"The backend {self.name} serves no models on this machine.", hint="Take --backend=local."
        )

    def settings(self, line: CommandLine) -> BackendSettings:
        """The settings in a command line and the configuration. Raises ConfigError, UsageError."""
        return local_settings(line) if self.is_local else service_settings(line)

    def buckets(self, settings: BackendSettings) -> Buckets:
        """The buckets that jobs read: by default `gs://NAME` is a folder of vtrain's home."""
        from vtrain.staging import LocalBuckets

        return LocalBuckets(settings.home)

    def uri(self, name: ResourceName, settings: BackendSettings) -> str:  # noqa: ARG002 - for those that serve
        """The address of a resource; its name, where nothing serves it."""
        return str(name)

    def seen_folder(self, uri: str, settings: BackendSettings) -> str:  # noqa: ARG002 - for those with paths
        """A folder of a bucket as trainers here can open it without Google's libraries; else its URI."""
        return uri

    def has_fields(
        self,
        message: str,  # noqa: ARG002 - for those with an API of their own
        document: Mapping[str, Any],  # noqa: ARG002
        settings: BackendSettings,  # noqa: ARG002
    ) -> bool:
        """Whether the backend knows all fields of a document, none of which vtrain knows."""
        return False

    def ignored_flags(self, flags: Iterable[str], *, builds_image: bool = False) -> tuple[str, ...]:
        """Sentences about flags that have no effect here. Raises ConfigError for one that is refused.

        `builds_image` says that an image is made of the trainer, which some flags of containers concern.
        """
        sentences = []
        for flag in flags:
            if flag in self.used_flags or (builds_image and flag in IMAGE_FLAGS):
                continue
            if flag in RUNTIME_FLAGS:
                hint = "Leave it out, or take --backend=local."
                raise ConfigError(f"{flag} is for jobs on this machine.", hint=hint)
            sentences.append(self.no_effect(flag))
        return tuple(sentences)

    def no_effect(self, flag: str) -> str:
        """A sentence about a flag that is given in vain."""
        if flag in (CREDENTIALS_FLAG, PYTHON_DOWNLOADS_FLAG):
            return f"{flag} has no effect on {self.name}."
        return f"{flag} concerns containers, and has no effect on {self.name}."

    def image_order(self, wish: ImageWish) -> ImageOrder:
        """The order to make a trainer's image for this backend.

        Raises UsageError where it runs none, ConfigError for a name or a platform that it does not take.
        """
        from vtrain.backends.image_order import BAKE_HINT, local_image, published_image

        if self.image_form is TrainerForm.LOCAL_IMAGE:
            return local_image(wish)
        if self.image_form is TrainerForm.PUSHED_IMAGE:
            return published_image(wish)
        message = f"An image is run by containers, and not by the backend {self.name}."
        raise UsageError(message, hint=BAKE_HINT)

    def suits(self, containers: tuple[str, ...], executors: tuple[str, ...]) -> Suitability:  # noqa: ARG002
        """Whether to run a job whose pools name these images: as containers, and as those of packages.

        Raises EngineError for a job that no other backend of this machine could run either.
        """
        return Suitability(suits=True)

    def checks(self, line: CommandLine) -> Iterable[Check]:  # noqa: ARG002 - for those that need something
        """The checks of `vtrain doctor`, in an order in which each check may need those before it."""
        return ()

    def garbage(self, search: Search) -> Iterable[Candidate]:  # noqa: ARG002 - for those that leave some
        """Things that it keeps outside vtrain's home, as candidates for `vtrain gc`."""
        return ()

    def usage(self, home: Path) -> Iterable[Usage]:  # noqa: ARG002
        """The space that it uses outside vtrain's home."""
        return ()


class RuntimeBackend(Backend):
    """A backend whose jobs vtrain's local runtime keeps: it says how they are planned, and launched."""

    used_flags = QUEUE_FLAGS | RUNTIME_FLAGS | {CREDENTIALS_FLAG}

    def open(self, settings: BackendSettings) -> JobBackend:
        """The jobs of this machine, of which new ones run in this backend."""
        from vtrain.backends.local import LocalBackend

        return LocalBackend(settings, self.name, self.planner)

    def open_resources(self, settings: BackendSettings) -> ResourceBackend:
        """The persistent resources of this machine, which all backends of the local runtime share."""
        from vtrain.runtime.resource_registry import ResourceRegistry
        from vtrain.runtime.supervisor_process import start_supervisor

        start = partial(start_supervisor, SUPERVISE)
        place = ResourceName(project=settings.project, location=settings.region, collection="", id="")
        return ResourceRegistry(settings.home, place, start, settings.preload)

    def open_models(self, settings: BackendSettings) -> ModelRegistryBackend:
        """The models of this machine, which all backends of the local runtime share."""
        from vtrain.runtime.model_registry import ModelRegistry

        return ModelRegistry(settings.home, settings.region)

    @abstractmethod
    def planner(self, settings: BackendSettings) -> Planner:
        """The planner, which works before a supervisor takes over."""

    @abstractmethod
    def launcher(self) -> Launcher:
        """The launcher, by which a job's supervisor starts and stops replicas."""

    @abstractmethod
    def prepare(self, order: JobOrder, log: Log) -> tuple[Runtime, ...]:
        """Make what each worker pool needs. `log` gets the output of tools. Raises PrepareFailed.

        It may take long, and runs in a program of its own.
        """

    @abstractmethod
    def running(self, replica: ReplicaFolder) -> RunningReplica:
        """A replica of this backend that runs now, to be looked into."""


def local_settings(line: CommandLine) -> BackendSettings:
    """Settings of a backend whose jobs live here; a full name says itself in which region."""
    full = parse_name(line.name)
    region = full.location if full and not line.region else find_region(line.region, local=True)[0]
    return BackendSettings(home=home_folder(), project=LOCAL_PROJECT, region=region)


def service_settings(line: CommandLine) -> BackendSettings:
    """Project, region and access to a service. A full name says itself where its resource lives.

    Raises ConfigError where a project or a region is missing, and for what no header holds; UsageError for a
    version of the API that there is not.
    """
    if line.access.api_version not in API_VERSIONS:
        raise UsageError(f"--api-version: expected v1 or v1beta1, found {line.access.api_version!r}.")
    _trust_certificates()
    full = parse_name(line.name)
    if full is not None:
        project, region = (line.project.value if line.project else full.project), full.location
    elif line.project is None:
        has_region = line.region or property_value("ai", "region")
        flags = "--project=PROJECT_ID" if has_region else "--project=PROJECT_ID --region=REGION"
        raise ConfigError(
            "No project is set.",
            hint=f"Give {flags}, or set CLOUDSDK_CORE_PROJECT, or run\n"
            "$ gcloud config set project PROJECT_ID",
        )
    else:
        project = line.project.value
        region, _ = find_region(line.region or line.ask_region(), local=False)
    return BackendSettings(
        home=home_folder(), project=project, region=region, access=checked_access(line.access)
    )


def checked_access(access: ServiceAccess) -> ServiceAccess:
    """The same access. Raises ConfigError for what no header holds."""
    if not re.fullmatch(r"[!-~]*", access.billing_project):
        raise ConfigError(f"{access.billing_project!r} (from --billing-project) is not a project id.")
    if not re.fullmatch(r"[!-~ ]*", access.trace_token):
        raise ConfigError(f"--trace-token: {access.trace_token!r} is not a token.")
    return access


def _trust_certificates() -> None:
    """Trust the authorities that gcloud is configured to trust, as behind a proxy that looks into TLS."""
    authorities = property_value("core", "custom_ca_certs_file")
    if authorities is not None:
        os.environ.setdefault("REQUESTS_CA_BUNDLE", authorities.value)  # what Google's libraries read
