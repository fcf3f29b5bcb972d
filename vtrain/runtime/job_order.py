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
    """The order of a tuning job beyond that of its trials. `job` is its document."""

    job: dict[str, Any]
    sampler: str
    seed: int
    continue_from: str = ""


class TrialPart(msgspec.Struct, frozen=True, kw_only=True):
    """The trial that a job is: the id of its tuning job, and its own."""

    study: str
    id: str


class DataPart(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a dataset: the URI of the folder in which they lie, and their format.

    `suffix` is the ending of the files.
    """

    uri: str
    format: str
    suffix: str


class JobOrder(msgspec.Struct, frozen=True, kw_only=True):
    """All that a supervisor needs to run a job, decided when the job was submitted.

    `base_env` is what replicas inherit from the environment of the command that submitted;
    `source_folder` is where their code is edited, and with `in_pool_spec` --worker-pool-spec named it.
    `boot_id` tells since which start of the machine it runs, `preemption` what is simulated, `debugger` where
    the primary listens for one. `aip_dirs` (`gs`, `local`) is the form of AIP_MODEL_DIR, where that was asked
    for; with `python_downloads` uv may download an interpreter. `python` is the version or the path that was
    asked for, `active_python` the interpreter that is used as it is. `credentials_file` is a copy of the
    user's, `claim` what the job leases of this machine, `terminal` that of its only replica, `command` the
    line that made it. `launcher` is a document that only the launcher of the backend reads. With `study`
    it is the order of a tuning job, and `job` what each trial is made of. `trial` says whose trial it is.
    With `pipeline`, its document, it is the order of a training pipeline, and the rest is that of its task.
    `parent` is the training pipeline whose task it is, and `data` the dataset that its task reads. `files` is
    how many files a supervisor has open that runs it.
    """

    home: str
    name: str
    job: CustomJob
    backend: str
    base_env: dict[str, str]
    grace_seconds: float
    source_folder: str = ""
    in_pool_spec: bool = False
    credentials_file: str = ""
    preemption: SimulatedPreemption | None = None
    debugger: Debugger | None = None
    boot_id: str = ""
    aip_dirs: str = ""
    python_downloads: bool = False
    python: str = ""
    active_python: str = ""
    claim: Claim = Claim()
    terminal: LentTerminal | None = None
    command: TypedCommand | None = None
    launcher: msgspec.Raw = msgspec.Raw(b"null")
    study: StudyPart | None = None
    trial: TrialPart | None = None
    pipeline: dict[str, Any] | None = None
    parent: str = ""
    data: DataPart | None = None
    files: int = 0

    @property
    def resource(self) -> ResourceName:
        """The parts of the job's name."""
        return require_name(self.name)

    @property
    def is_parent(self) -> bool:
        """Whether it runs by jobs of its own, which have orders of their own."""
        return self.study is not None or self.pipeline is not None

    @property
    def document(self) -> dict[str, Any]:
        """The resource that was submitted."""
        if self.pipeline is not None:
            return self.pipeline
        return self.study.job if self.study is not None else to_document(self.job)


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
    """All that a shim needs to run a replica. Paths are absolute, `argv` has at least one element.

    `task` is its name. `gcs` is the folder that it sees as /gcs; empty: it sees none. `group` is the name of
    its cgroup. `start_note` is a sentence about its start, for the job's log.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    log: str
    wake: str
    grace_seconds: float
    attempt: int = 0
    gcs: str = ""
    group: str = ""
    terminal: LentTerminal | None = None
    task: str = ""
    warm: WarmSlot | None = None
    start_note: str = ""
