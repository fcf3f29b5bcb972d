"""A job's folder under home: what lies where."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from vtrain.atomic import UNPUBLISHED, clear, discard, publish_file, rename_damaged
from vtrain.privacy import FOLDER_MODE, home_label, make_private

if TYPE_CHECKING:
    from vtrain.runtime.job_order import JobOrder

S = TypeVar("S")

SERVICE = "service"
"""The task name under which the runtime itself writes lines, as Vertex AI does."""
CLOUD_LOGGING = "cloud-logging"
"""The task name of what the replicas of a job have sent to Cloud Logging."""

LOST = "the process that watched over it was killed"
"""`interruption` of a replica that vanished without an exit code."""
FOLDER_REMOVED = "its folder was removed while it ran"
"""`interruption` of a replica whose files vanished, the exit code among them."""
UNREADABLE_EXIT = "the file that says how it ended is damaged"
LOST_CODE = 255
TERMINAL_FIFO = "terminal"
"""A file in a job's folder: the messages of the command whose terminal its replica has."""
TRIALS = "trials"
"""A folder in the folder of a study: the records of its trials."""
METRIC_FILE = "hypertune/output.metrics"
"""A file in a job's folder: the measurements that its trainer reports by hypertune."""
MAX_FILE_BYTES = 64 * 1024 * 1024
"""More than any file of a job's own has, its logs apart."""


class DamagedFileError(Exception):
    """A file of a job that cannot be read, or is missing."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is damaged")
        self.path = path


class _Submitted(msgspec.Struct, frozen=True):
    """The part of an order that says to which home the job was submitted."""

    home: str


class LeftProcess(msgspec.Struct, frozen=True):
    """A process of a replica that could not be ended. `user` is its id; -1 where that is not known."""

    pid: int
    name: str = ""
    user: int = -1


class _Started(msgspec.Struct):
    """The fields of `started.json`. Every launcher writes the time; `note` is a sentence about the start.

    A shim writes the numbers of its `pipes`, stdout first.
    """

    time: float | None = None
    note: str = ""
    pipes: tuple[int, ...] = ()


class ReplicaExit(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a replica. `message` says why it could not be started; then `code` is 126 or 127.

    Times are in seconds since the epoch. `oom` says that the kernel ended a process of this machine
    for want of memory meanwhile. `stopped`: the runtime had asked it to end. `interruption` says what else
    ended it, when that was not the replica's own doing. In the time of `gap` lines may have been lost, as
    `gap_of`, which keeps them, was away; and `log_error` says what else kept a part of the log from being
    read. `peak_memory_bytes` (0: not known) and `cpu_seconds` are what the replica has used. `left` are
    processes that go on: they could not be ended.
    """

    code: int
    started: float
    ended: float
    signal: int = 0
    message: str = ""
    oom: bool = False
    stopped: bool = False
    log_lost_bytes: int = 0
    interruption: str = ""
    log_error: str = ""
    gap: tuple[float, float] | None = None
    gap_of: str = ""
    peak_memory_bytes: int = 0
    cpu_seconds: float = 0.0
    left: tuple[LeftProcess, ...] = ()


def group_prefix(home: Path) -> str:
    """The beginning of the names of all cgroups of a home's replicas; the id of the job follows."""
    return f"vtrain-{home_label(home)}-"


class ReplicaFolder(msgspec.Struct, frozen=True):
    """One attempt of a replica: `jobs/ID/replicas/NAME` (`root`), the later ones below its `restarts/N`."""

    root: Path
    attempt: int = 0

    @property
    def path(self) -> Path:
        return self.root / "restarts" / str(self.attempt) if self.attempt else self.root

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def job(self) -> JobFolder:
        return JobFolder(self.root.parents[1])

    @property
    def group(self) -> str:
        """The name of the attempt's cgroup, unlike that of any other attempt on this machine."""
        return f"{self.groups}-r{self.attempt}"

    @property
    def groups(self) -> str:
        """The beginning of the names of the cgroups of all its attempts."""
        return f"{group_prefix(self.root.parents[3])}{self.root.parents[1].name}-{self.name}"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def work(self) -> Path:
        return self.path / "work"

    @property
    def tmp(self) -> Path:
        return self.path / "tmp"

    def order(self, order: msgspec.Struct | dict[str, Any]) -> None:
        """Make the folders of the replica, and write the order by which a launcher starts it."""
        for folder in (self.path, self.work, self.tmp):
            make_private(folder)
        write_struct(self.path / "spec.json", order)

    def order_again(self) -> None:
        """Order a later attempt: as the first one, whose order tells nothing of its attempt but the number.

        Raises DamagedFileError where that cannot be read.
        """
        first = require_struct(self.root / "spec.json", dict[str, Any])
        self.order(first | {"attempt": self.attempt})

    def exit(self) -> ReplicaExit | None:
        """How the replica ended, once it has; a damaged file says only that it did."""
        path = self.path / "exit.json"
        try:
            return read_struct(path, ReplicaExit)
        except DamagedFileError:
            moment = path.lstat().st_mtime if os.path.lexists(path) else time.time()
            start = min(self.start_time() or moment, moment)
            return ReplicaExit(code=LOST_CODE, started=start, ended=moment, interruption=UNREADABLE_EXIT)

    def early_exit(self) -> ReplicaExit | None:
        """How the replica's program ended, as its shim stored it before it ended what the program left."""
        try:
            return read_struct(self.path / "exited.json", ReplicaExit)
        except DamagedFileError:
            return None

    def clear_begun(self) -> None:
        """Remove what a shim had begun to write before it was killed; only once `exit.json` is there."""
        for path in (self.path / "exited.json", *self.path.glob("*.json.tmp")):
            discard(path)

    @property
    def is_ordered(self) -> bool:
        """Whether it is on record how the replica is run."""
        return (self.path / "spec.json").exists()

    @property
    def touched(self) -> bool:
        """Whether a shim was ever there: it writes into the lock. A damaged lock counts as a shim."""
        try:
            status = self.lock.stat()
            return status.st_size > 0 or not stat.S_ISREG(status.st_mode)
        except FileNotFoundError:
            return False

    def started(self) -> bool:
        """Whether the replica's program runs or has run."""
        return (self.path / "started.json").exists()

    def start_time(self) -> float | None:
        """Seconds since the epoch at which the replica's program started, where that is on record."""
        return self._read_started().time

    @property
    def start_note(self) -> str:
        """A sentence about how the replica was started; empty for the usual way."""
        return self._read_started().note

    @property
    def shim_pipes(self) -> tuple[int, ...]:
        """The numbers that its shim has for the pipes of its program, stdout first."""
        return self._read_started().pipes

    def _read_started(self) -> _Started:
        try:
            return read_struct(self.path / "started.json", _Started) or _Started()
        except DamagedFileError:
            return _Started()


class JobFolder(msgspec.Struct, frozen=True):
    """`jobs/ID`."""

    path: Path

    @property
    def home(self) -> Path:
        """The home in which the folder lies."""
        return self.path.parents[1]

    @property
    def other_home(self) -> Path | None:
        """The home to which the job was submitted, where that is not this one, which was copied or moved.

        The job's own folders are compared, and not their paths: a home may have several. None where the order
        cannot be read.
        """
        try:
            home = Path(require_struct(self.path / "spec.json", _Submitted).home)
            is_here = self.path.samefile(home / self.path.parent.name / self.path.name)
        except DamagedFileError:
            return None
        except OSError:
            is_here = False
        return None if is_here else home

    @property
    def original(self) -> Path | None:
        """The folder of which this one is a copy: only there the job goes on."""
        home = self.other_home
        original = home / self.path.parent.name / self.path.name if home is not None else None
        return original if original is not None and original.is_dir() else None

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def wake_fifo(self) -> Path:
        return self.path / "wake"

    @property
    def terminal_fifo(self) -> Path:
        return self.path / TERMINAL_FIFO

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def environment(self) -> Path:
        return self.path / "environment"

    def keep_environment(self) -> None:
        """Keep this process's environment for the supervisor that another process will start."""
        variables = (os.fsencode(f"{name}={value}") for name, value in os.environ.items())
        publish_file(self.environment, b"\0".join(variables))

    def kept_environment(self) -> dict[str, str]:
        """The environment that was kept; empty where none is."""
        try:
            variables = os.fsdecode(self.environment.read_bytes()).split("\0")
        except FileNotFoundError:
            return {}
        return dict(variable.split("=", 1) for variable in variables if "=" in variable)

    @property
    def metric_file(self) -> Path:
        """The file to which the primary reports by hypertune."""
        return self.path / METRIC_FILE

    def log(self, task: str) -> Path:
        """The newest segment of the raw log of a replica, or of `service`."""
        from vtrain.runtime.process.journal import RAW_SUFFIX, segment_numbers  # as in `order`

        newest = max(segment_numbers(str(self.logs / task)), default=0)
        return self.logs / f"{task}.{newest}{RAW_SUFFIX}"

    def replica(self, name: str, attempt: int = 0) -> ReplicaFolder:
        return ReplicaFolder(self.path / "replicas" / name, attempt)

    def make(self, order: JobOrder) -> None:
        """Make the folder with everything a supervisor needs.

        The folder takes the id: FileExistsError is raised for one that a job of any kind has.
        """
        make_private(self.path.parent)
        self.path.mkdir(mode=FOLDER_MODE)
        self.logs.mkdir(mode=FOLDER_MODE)
        for fifo in (self.wake_fifo, self.terminal_fifo) if order.terminal else (self.wake_fifo,):
            os.mkfifo(fifo, 0o600)
        write_struct(self.path / "spec.json", order)

    def clear_unpublished(self) -> None:
        """Remove what processes that were killed had begun to write; only for the holder of the lock."""
        for place in (".", TRIALS, "replicas/*", "replicas/*/restarts/*"):
            for path in self.path.glob(f"{place}/{UNPUBLISHED}*"):
                clear(path)  # a folder of the trainer's, too
        for attempt in self.attempt_folders():
            if attempt.exit() is not None:
                attempt.clear_begun()

    def attempt_folders(self) -> Iterator[ReplicaFolder]:
        """The folder of every attempt of every replica, also of those that were only being made."""
        for root in self.path.glob("replicas/*"):
            for number in sorted(self.attempts(root.name)):
                yield self.replica(root.name, number)

    def order(self) -> JobOrder:
        """The order as it was submitted. Raises DamagedFileError."""
        from vtrain.runtime.job_order import JobOrder  # of which a list of jobs needs nothing

        return require_struct(self.path / "spec.json", JobOrder, strict=False)

    def is_readable(self) -> bool:
        """Whether a supervisor can learn from the folder what to do."""
        try:
            self.order()
        except DamagedFileError:
            return False
        return True

    def attempts(self, name: str) -> set[int]:
        """The numbers of a replica's attempts that have a folder."""
        root = self.path / "replicas" / name
        later = {int(path.name) for path in root.glob("restarts/*") if path.name.isdecimal()}
        return later | ({0} if root.is_dir() else set())

    def newest_attempt(self, name: str) -> int:
        """The last of a replica's attempts, which are numbered without a gap. It lists no folder."""
        return next(number for number in count() if not self.replica(name, number + 1).path.exists())

    def started_replicas(self) -> list[str]:
        """The replicas whose program runs or has run: each has a log."""
        return [path.parent.name for path in self.path.glob("replicas/*/started.json")]

    def wake(self) -> bool:
        """Make the supervisor look around now; False when none lives."""
        try:
            fifo = os.open(self.wake_fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            if not stat.S_ISFIFO(os.fstat(fifo).st_mode):  # the trainer may have replaced it
                return False
            os.write(fifo, b".")
        except BlockingIOError:
            return True  # it has been woken often enough
        except BrokenPipeError:
            return False  # it died just now
        finally:
            os.close(fifo)
        return True


def write_struct(path: Path, value: Any) -> None:
    """Write a value as JSON in one step; a folder in its place is renamed. Raises OSError."""
    content = msgspec.json.encode(value)
    try:
        publish_file(path, content)
    except IsADirectoryError:
        rename_damaged(path)
        publish_file(path, content)


def read_struct(path: Path, cls: type[S], *, strict: bool = True) -> S | None:
    """The value in a JSON file of a job, or None when there is no file. Raises DamagedFileError."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE_BYTES:
                raise DamagedFileError(path)
            return msgspec.json.decode(file.read(), type=cls, strict=strict)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedFileError(path) from error


def _without_waiting(path: str, flags: int) -> int:
    """Open what may be a FIFO of the trainer's, whose opening would wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def require_struct(path: Path, cls: type[S], *, strict: bool = True) -> S:
    """The value in a JSON file that has to be there. Raises DamagedFileError."""
    found = read_struct(path, cls, strict=strict)
    if found is None:
        raise DamagedFileError(path)
    return found
