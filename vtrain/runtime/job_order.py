"""Orders: what a supervisor needs to run a job, and a shim to run a replica; decided before either starts."""

from __future__ import annotations

from typing import Any

import msgspec

from vtrain.messages.codec import to_document
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.names import ResourceName, require_name
from vtrain.runtime.capacity.leases import Claim
from vtrain.runtime.debugging import Debugger


class SimulatedPreemption(msgspec.Struct, frozen=True, kw_only=True):
    """One loss of a machine, some time after the job has begun to run: of `replica` (empty: the last)."""

    after_seconds: float
    replica: str = ""


class LentTerminal(msgspec.Struct, frozen=True, kw_only=True):
    """The terminal that a job's only replica gets: which of its streams are one, and how large it is.

    `variables` are those of the submitting command that say what the terminal can do. Its messages come
    through `fifo`; `interactive`: so does what is typed for its stdin.
    """

    columns: int
    lines: int
    stdout: bool
    stderr: bool
    interactive: bool = False
    variables: dict[str, str] = {}
    fifo: str = ""


class TypedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The command line that made a job: its words without `vtrain`, and the folder in which it was typed.

    `source_folder` is that of the trainer, empty where the job runs none of the user's files.
    """

    words: tuple[str, ...]
    folder: str
    source_folder: str = ""


class StudyPart(msgspec.Struct, frozen=True, kw_only=True):
    """The order of a tuning job beyond that of its trials."""

    job: dict[str, Any]
    """Its document without `trialJobSpec`, which is the order's own job."""
    sampler: str
    seed: int
    continue_from: str = ""
    """The full name of an earlier tuning job, whose trials count as tried."""


class DataPart(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a dataset, which a pipeline's task reads."""

    uri: str
    """The folder in which they lie."""
    format: str
    suffix: str
    """The ending of the files."""


class TrainerSetting(msgspec.Struct, frozen=True, kw_only=True):
    """The surroundings of a trainer on this machine, as the submitting command had or chose them."""

    variables: dict[str, str] = {}
    """The variables that replicas inherit of the command."""
    python: str = ""
    """The version or the path of the interpreter of environments; empty: what is packaged decides."""
    active_python: str = ""
    """An interpreter that is used as it is."""
    has_environment: bool = False
    """Whether vtrain makes an environment, which has only what the trainer declares."""
    python_downloads: bool = False
    """Whether uv may download an interpreter."""
    credentials_file: str = ""
    """A copy of the user's credentials."""
    aip_dirs: str = ""
    """The form of AIP_MODEL_DIR and others, `gs` or `local`; empty: the backend decides."""
    emulator_port: int = 0
    """The port of the emulator that it was submitted to, whose API its replicas reach; 0: it was to none."""


class JobOrder(msgspec.Struct, frozen=True, kw_only=True):
    """All that a supervisor needs to run a job, decided when the job was submitted."""

    home: str
    name: str
    """The full name of the resource."""
    job: CustomJob
    """What runs; of a tuning job each trial is made of it, and of a pipeline its task."""
    backend: str
    files: int = 0
    """How many files a supervisor has open that runs it."""
    claim: Claim = Claim()
    """What it leases of this machine."""
    boot_id: str = ""
    """The start of the machine since which it runs."""
    grace_seconds: float
    setting: TrainerSetting = TrainerSetting()
    preemption: SimulatedPreemption | None = None
    debugger: Debugger | None = None
    """The debugger for which the primary replica waits."""
    terminal: LentTerminal | None = None
    """That of its only replica."""
    command: TypedCommand | None = None
    """The command line that made it."""
    source_folder: str = ""
    """Where the code of its replicas is edited."""
    in_pool_spec: bool = False
    """Whether --worker-pool-spec named that folder."""
    launcher: msgspec.Raw = msgspec.Raw(b"null")
    """A document that only the launcher of the backend reads."""
    study: StudyPart | None = None
    """What a tuning job adds; or a pipeline whose task is one."""
    pipeline: dict[str, Any] | None = None
    """The document of a training pipeline. The rest of the order is that of its task."""
    parent: str = ""
    """The tuning job or the pipeline that runs it, by its full name."""
    trial_id: str = ""
    """The trial of the parent that it is."""
    data: DataPart | None = None
    """The dataset that a pipeline's task reads."""

    @property
    def resource(self) -> ResourceName:
        """The parts of the job's name."""
        return require_name(self.name)

    @property
    def pipeline_name(self) -> str:
        """The training pipeline whose task it is; empty for any other job."""
        return "" if self.trial_id else self.parent

    def with_setting(self, **fields: object) -> JobOrder:
        """The order with another setting."""
        return msgspec.structs.replace(self, setting=msgspec.structs.replace(self.setting, **fields))

    @property
    def is_parent(self) -> bool:
        """Whether it runs by jobs of its own, which have orders of their own."""
        return self.study is not None or self.pipeline is not None

    @property
    def document(self) -> dict[str, Any]:
        """The resource that was submitted."""
        if self.pipeline is not None:
            return self.pipeline
        if self.study is None:
            return to_document(self.job)
        return self.study.job | {"trialJobSpec": to_document(self.job)["jobSpec"]}


class WarmSlot(msgspec.Struct, frozen=True, kw_only=True):
    """The slot of a persistent resource in which a replica starts with modules that are imported already.

    `folder` and `key` tell where its process listens; it runs in `python` with the variables `env`. The
    resource has at most `most` of these.
    """

    folder: str
    key: str
    python: str
    modules: tuple[str, ...]
    env: dict[str, str]
    most: int


class ReplicaOrder(msgspec.Struct, frozen=True, kw_only=True):
    """All that a shim needs to run a replica. Paths are absolute.

    The working directory, TMPDIR and the cgroup are those of the attempt in whose folder the order lies.
    """

    argv: tuple[str, ...]
    """At least one element."""
    env: dict[str, str]
    log: str
    wake: str
    grace_seconds: float
    attempt: int = 0
    gcs: str = ""
    """The folder that it sees as /gcs; empty: it sees none."""
    groups: str = ""
    """How the names of its cgroups begin; empty: it has none."""
    terminal: LentTerminal | None = None
    task: str = ""
    """Its name."""
    warm: WarmSlot | None = None
    start_note: str = ""
    """A sentence about its start, for the job's log."""
