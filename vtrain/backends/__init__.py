"""The interface of backends: their verbs, and the values that they take and return.

`JobBackend` is for every backend. The other protocols are optional: vtrain looks whether the object has their
methods, so that nothing has to be registered. A backend never waits. Waiting, following, formatting and exit
codes are written once, above it. `vtrain.backends.interface.Backend` opens a backend.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import msgspec

from vtrain.messages.log import LogPage, LogQuery
from vtrain.messages.structs import Query as Query

if TYPE_CHECKING:
    from vtrain.messages.persistent_resource import PersistentResource, ResourcePage
    from vtrain.messages.resources import Job
    from vtrain.messages.structs import Operation
    from vtrain.packaging.sdist_plan import SdistPlan
    from vtrain.rooted import Root
    from vtrain.runtime.debugging import Debugger
    from vtrain.runtime.folder import ReplicaFolder
    from vtrain.runtime.job_order import LentTerminal, SimulatedPreemption, TypedCommand


PULL_POLICIES = ("missing", "always", "never")
CREDENTIALS_TARGET = "/tmp/keys/cred_key.json"
"""The place of a credentials file in a container, as gcloud's local-run has it."""


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """One `--mount`, in Docker's words."""

    type: Literal["bind", "volume", "tmpfs"] = "bind"
    source: str = ""
    """An absolute path for a bind, a name for a volume."""
    target: str
    read_only: bool = False
    tmpfs_size: int = 0
    """Bytes; 0: no limit."""


class Ulimit(msgspec.Struct, frozen=True, kw_only=True):
    """One `--ulimit`; -1 is unlimited."""

    name: str
    soft: int
    hard: int


class ReplicaOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a job's replicas.

    Processes have only `memory_bytes`, `require_accelerators` and `credentials_file`.
    """

    pull: str = "missing"
    """When the image is pulled: one of PULL_POLICIES."""
    platform: str = ""
    """The platform of images, `os/architecture`; empty: the engine's own."""
    shm_size: int = 0
    """Bytes of shared memory; 0: half of the memory."""
    memory_bytes: int = 0
    """The limit of memory in bytes, which the queue counts; 0: that of the machine type."""
    cpus: float = 0.0
    """The limit of processors; 0: that of the machine type."""
    mounts: tuple[Mount, ...] = ()
    user: str = ""
    """The user that containers run as; empty: the image's own."""
    cap_add: tuple[str, ...] = ()
    """Capabilities of Linux beyond those that containers have."""
    add_hosts: tuple[str, ...] = ()
    """Further lines of /etc/hosts, `NAME:ADDRESS`."""
    ulimits: tuple[Ulimit, ...] = ()
    gpus: bool = False
    """Whether replicas without an accelerator get all GPUs."""
    require_accelerators: bool = False
    """Whether a job is refused whose accelerators are not here."""
    credentials_file: str = ""
    """The file with the credentials of replicas; empty: they have none."""


SUPERVISE = Path(__file__).with_name("supervise.py")
PREPARE = Path(__file__).with_name("prepare.py")
SERVE_STORAGE = Path(__file__).parents[1] / "emulator" / "storage" / "serve_job.py"
"""Of the extra `emulator`, above this layer, of which nothing is imported here. It is started by its path, as
`-m` would take modules of the folder that a command runs in for those of the same name."""
PROTOCOL_VERSION = 2
"""Changes when a backend that was written for this interface no longer works. `JobBackend` states its own."""


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """One replica as it would be started: its name (`workerpool0-0`), argv and environment."""

    name: str
    argv: tuple[str, ...]
    env: dict[str, str]


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """The steps before a job can run. `notes` are sentences that change nothing about the result."""

    would: tuple[str, ...] = ()
    """Sentences on what has to be made: "Would install …"."""
    cached: tuple[str, ...] = ()
    """Names of what is there already: "Environment"."""
    notes: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    """Warnings about the environments."""
    missing: tuple[str, ...] = ()
    """Warnings of what a replica surely lacks: a Python, an import. `--strict` refuses them."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly what `submit` would do. A backend needs `job` and `backend`; vtrain fills in the last four."""

    job: Job
    """The job as it would be sent, with the defaults that the backend knows."""
    backend: str
    replicas: tuple[Replica, ...] = ()
    """The replicas as they would be started; none where a service does that."""
    notices: tuple[str, ...] = ()
    """Warnings for people: something is missing, or may be refused."""
    doubts: tuple[str, ...] = ()
    """Reasons why a service may refuse the job: it is sent all the same, but for `--strict`."""
    notes: tuple[str, ...] = ()
    """Sentences about facts that do not change the result."""
    not_reproduced: tuple[str, ...] = ()
    """What the job asks for and this backend does not reproduce. `--strict` refuses such a job."""
    steps: tuple[str, ...] = ()
    """Sentences on what would be made first: "Would pull …"."""
    cached: tuple[str, ...] = ()
    """Names of what is there already."""
    source_folder: str = ""
    """The folder of the trainer's code on the user's machine, so that a failure can be shown in it."""
    in_pool_spec: bool = False
    """Whether `--worker-pool-spec` named that folder, so that advice fits."""
    snapshot: str = ""
    """The archive of the trainer's files as they were packaged."""
    unknown_fields: dict[str, Any] = {}
    """Fields that the API is not known to have. They are sent along as they are."""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs, newest first, and the token of the next page (empty: this was the last).

    `damaged` names the jobs whose stored entry cannot be read.
    """

    jobs: tuple[Job, ...]
    next_page_token: str = ""
    damaged: tuple[str, ...] = ()


class ServiceAccess(msgspec.Struct, frozen=True, kw_only=True):
    """API version, credentials and quota for requests. Empty values leave them to gcloud's properties.

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


class StudyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The suggestions of a local study: `sampler` is auto, tpe or gp. Without a `seed` the backend takes one.

    `continue_from` is the full name of an ended tuning job, whose trials count in the new one.
    """

    sampler: str = "auto"
    seed: int | None = None
    continue_from: str = ""


class BackendSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings with which a backend is opened: the place of jobs, and options of new ones.

    A plug-in may ignore what it has no use for: `Backend.used_flags` decides which flags reach it.
    """

    home: Path
    """vtrain's folder of this machine (VTRAIN_HOME)."""
    project: str
    region: str
    options: ReplicaOptions = ReplicaOptions()
    preemption: SimulatedPreemption | None = None
    debugger: Debugger | None = None
    aip_dirs: str = ""
    emulator_port: int = 0
    """The port of the emulator that takes the jobs, whose API their replicas reach; 0: none does."""
    python_downloads: bool = False
    """Whether an interpreter that is missing may be downloaded."""
    terminal: LentTerminal | None = None
    """The user's terminal, for new jobs of one replica."""
    command: TypedCommand | None = None
    """The command line that makes a job, to be kept with it."""
    python: str = ""
    """The version or the path of the interpreter of environments; empty: the backend decides."""
    environment: str = ""
    """`current` for `active_python`, `new` for an environment; empty: what a trainer declares decides."""
    active_python: str = ""
    """An interpreter on which trainers run as it is. No environment is made then."""
    study: StudyOptions = StudyOptions()
    """For new tuning jobs."""
    preload: tuple[str, ...] = ()
    """For new persistent resources: the modules that their slots keep imported."""
    access: ServiceAccess = ServiceAccess()
    tell: Tell = lambda _: None
    """Takes one line of progress while a command waits."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """The pace of polling: seconds between two requests, and how long failures are tolerated.

    The pause is the shortest after news, and grows to the longest while there are none.
    """

    fastest: float
    slowest: float
    patience: float = 60.0


LOCAL_PACE = Pace(fastest=0.015, slowest=0.15)


class JobBackend(Protocol):
    """Runs jobs. The verbs take full resource names, and return at once.

    Each raises NotFoundError for a name that it does not know, and ServiceAwayError or ServiceBusyError for a
    failure that may pass: the loop that follows a job asks again for the seconds of `Pace.patience`.

    Optional beside the verbs: `pace`, a Pace (without it: `LOCAL_PACE`); `kill`, a cancel with force; and
    `look_after`, which raises StorageError for a job that cannot go on at present, HomeError for ever.
    """

    protocol_version: int
    """PROTOCOL_VERSION of the interface that the backend was written for."""

    def plan(self, job: Job) -> Plan:
        """Exactly what submit would do; touches nothing. Raises ConfigError for what would be refused."""

    def submit(self, plan: Plan) -> Job:
        """Start the job and return it, named, PENDING or QUEUED, once it cannot be lost.

        Raises KeyTakenError where another job has its idempotency key, if the backend compares them itself.
        """

    def get(self, name: str) -> Job:
        """The job as it stands now. An ended job never changes again."""

    def list(self, query: Query) -> Page:
        """Jobs of a collection, newest first."""

    def logs(self, query: LogQuery) -> LogPage:
        """The log entries that there are now, from `query.cursor` on. An empty page is no end."""

    def cancel(self, name: str) -> None:
        """Ask the job to end. Asking twice, or too late, is fine."""

    def delete(self, name: str) -> None:
        """Remove every trace of an ended job. Raises ConflictError while it runs."""


@runtime_checkable
class ServiceBackend(Protocol):
    """Sends requests to a service with the user's credentials."""

    def sign_in(self) -> None:
        """Get a token, before any step that takes long. Raises CredentialsError without credentials."""


@runtime_checkable
class ViewingBackend(Protocol):
    """Shows replicas without a job. Works without a network."""

    def view(self, job: Job, trial_id: str = "") -> tuple[Replica, ...]:
        """The replicas of the job, the primary first. With `trial_id` they are those of that trial."""


@runtime_checkable
class EnvironmentBackend(Protocol):
    """Makes the environment of Python packages itself."""

    def environment_steps(self, job: Job, trainer: SdistPlan | None) -> Steps:
        """The steps that make the environments. Damaged packages of `trainer` count as not built."""


class Holdings(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a job on this machine: `size` is that of its folder, in bytes; `output` is kept apart.

    `left_files` says that the trainer has left some in its working directory.
    """

    size: int
    left_files: bool = False
    output: Path | None = None


@runtime_checkable
class HoldingBackend(Protocol):
    """Keeps the files of jobs on this machine."""

    def holdings(self, name: str) -> Holdings:
        """The job's files on this machine. Raises NotFoundError."""


class HostedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as this machine has it: the backend that its replicas run in, and those that run now.

    `replicas` begins with the primary, and has the newest attempt of each.
    """

    job: Job
    backend: str
    replicas: tuple[ReplicaFolder, ...]


@runtime_checkable
class RepeatableBackend(Protocol):
    """Keeps the command lines that made its jobs."""

    def command(self, name: str) -> TypedCommand | None:
        """The command line of a job; None where none is known. Raises NotFoundError."""


@runtime_checkable
class HostBackend(Protocol):
    """Runs replicas on this machine, so that users can look into them, and at their files."""

    def hosted(self, name: str) -> HostedJob:
        """The job and its running replicas. Raises NotFoundError."""

    def folders(self, name: str, replica: str) -> tuple[Root, ...]:
        """The folders of this machine that the replica writes to: the job's output, its working directory.

        An empty name means the primary. Raises NotFoundError for a job or a replica that there is not.
        """


class ReplicaUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that a running replica uses at one moment.

    `cpu_seconds` have been used so far. `memory_limit` is 0 where only the machine sets one. `gpus` are
    the UUIDs or indexes of those that the replica sees; None: all of this machine.
    """

    cpu_seconds: float
    memory_bytes: int
    memory_limit: int = 0
    processes: int = 0
    gpus: tuple[str, ...] | None = ()


class RunningReplica(Protocol):
    """A replica that runs on this machine. Its methods raise VtrainError once it has ended."""

    name: str

    @property
    def shell(self) -> tuple[str, ...]:
        """The command that starts an interactive shell in it."""

    def execute(self, argv: tuple[str, ...], *, terminal: bool) -> int:
        """Run a command in its environment and folder, on this process's stdin, stdout and stderr.

        With `terminal` the command gets a terminal. Returns its exit code, 128+n for a signal.
        """

    def usage(self) -> ReplicaUsage | None:
        """The present use; None where this machine does not tell, or the replica has just ended."""


@runtime_checkable
class ResourceBackend(Protocol):
    """Keeps persistent resources. A request that takes long returns an Operation at once."""

    def create_resource(
        self, resource_id: str, resource: PersistentResource, unknown_fields: dict[str, Any]
    ) -> Operation:
        """Make a resource of that id."""

    def get_resource(self, name: str) -> PersistentResource:
        """The resource as it stands now."""

    def list_resources(self, query: Query) -> ResourcePage:
        """Resources of a project and location."""

    def delete_resource(self, name: str, *, force: bool = False) -> Operation:
        """Remove a resource. With `force` the jobs on it are cancelled, as a service always does."""

    def reboot_resource(self, name: str) -> Operation:
        """Start the machines of a resource anew."""
