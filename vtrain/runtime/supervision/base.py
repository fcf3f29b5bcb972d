"""The life of a job with replicas, of a study with trials, or of a training pipeline with its task.

There is one small process for each, and it alone writes the state of its resource. It stores each decision in
the job's folder before it acts, so it may die at any moment: another supervisor then goes on.
"""

from __future__ import annotations

import os
import select
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

import msgspec

from vtrain.atomic import rename_damaged
from vtrain.errors import DamagedError, StorageError, VtrainError
from vtrain.messages import states
from vtrain.messages.codec import from_document, to_document
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.resources import collection_of
from vtrain.messages.secrets import masked_document
from vtrain.messages.structs import Status
from vtrain.messages.training_pipeline import TrainingPipeline
from vtrain.runtime import job_error
from vtrain.runtime.capacity.queue import attend, request_end, wake_parent
from vtrain.runtime.database import lacks_room
from vtrain.runtime.folder import DamagedFileError, JobFolder, read_struct, write_struct
from vtrain.runtime.history import PARENT_FIELD, stored_job
from vtrain.runtime.inheritance import drop_credentials
from vtrain.runtime.locks import still_holds
from vtrain.runtime.log.service_log import LAST_WORDS, ServiceLog
from vtrain.runtime.process.process_tree import boot_id
from vtrain.runtime.spawning import allow_files
from vtrain.runtime.store import Store
from vtrain.runtime.supervisor_process import dismiss_standby, reap, start_supervisor
from vtrain.times import timestamp

J = TypeVar("J", CustomJob, HyperparameterTuningJob, TrainingPipeline)

POLL_SECONDS = 0.5
"""The pause between two looks when nothing wakes the supervisor: what was killed cannot."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a job: its state and its error. Once it is stored, nothing changes it."""

    state: str
    error: Status | None = None


class Cancelled(Exception):
    """Somebody requested the end."""


class NotNeeded(Exception):
    """The job goes on without this process."""


class Replaced(NotNeeded):
    """Somebody removed the job's lock, and another supervisor has the new one."""


class Wakeup:
    """The sleep of a supervisor: until a write to its FIFO, another readable descriptor, or a timeout."""

    def __init__(self, fifo: Path) -> None:
        if not fifo.is_fifo():
            if os.path.lexists(fifo):
                rename_damaged(fifo)
            os.mkfifo(fifo, 0o600)
        # Opened for writing too, so that it never reports an end of file when a writer leaves.
        self._descriptor = os.open(fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        """Hear nothing any more."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def wait(self, seconds: float, *others: int) -> None:
        """Sleep at most that long; `others` are further descriptors that wake."""
        ready, _, _ = select.select([self._descriptor, *others], [], [], seconds)
        if self._descriptor in ready:
            with suppress(BlockingIOError):  # another supervisor, which is about to leave, has read it
                os.read(self._descriptor, 65536)


class Supervisor(ABC, Generic[J]):
    """One life. A subclass says how it advances, and how all that it has started ends."""

    message: ClassVar[type[Any]]
    """The message of the resources that it runs."""
    last_words: ClassVar[Mapping[str, str]] = LAST_WORDS
    """The end of the log, by the state in which it ends."""

    def __init__(self, folder: JobFolder, store: Store, lock: int, program: Path) -> None:
        """`program` starts other supervisors."""
        self._folder = folder
        self._order = folder.order()
        self._home = Path(self._order.home)
        self._store = store
        self._lock = lock
        self._program = program
        self._start = partial(start_supervisor, program)
        self._job: J = self._load()
        self._wakeup = Wakeup(folder.wake_fifo)
        self._log = ServiceLog(folder)

    @abstractmethod
    def _live(self) -> Decision:
        """Start what has to run, and watch over it until its end is decided."""

    @abstractmethod
    def _end_all(self, decision: Decision) -> None:
        """End all that was started; none of it runs afterwards. May be called again after a kill."""

    @abstractmethod
    def _abandon(self) -> None:
        """End all that was started, the job's folder being gone. Nothing can be stored."""

    def _failure(self, fault: Exception) -> Status:
        """The error of a job whose life ended by an exception."""
        if isinstance(fault, DamagedFileError):
            return job_error.file_damaged(self._folder, fault.path)
        traceback.print_exception(fault)
        return job_error.engine_failed(self._folder, fault)

    def _own_fields(self) -> dict[str, Any]:
        """The fields of the stored document that the API does not have."""
        return {PARENT_FIELD: self._order.pipeline_name} if self._order.pipeline_name else {}

    def run(self) -> None:
        """Everything, up to the verdict in the store."""
        if states.has_ended(self._job.state):
            return
        try:
            decision = self._known_decision() or self._decide()
            self._end_all(decision)
            self._finish(decision)
        except NotNeeded:
            self._log.close()
        except (OSError, VtrainError):
            if self._folder.path.exists():
                raise
            self._abandon()  # somebody removed the folder: the next command writes the verdict

    def close(self) -> None:
        """Stop listening for wakeups. Writers of the FIFO see that nobody reads it."""
        self._wakeup.close()

    def _load(self) -> J:
        """The resource as it is stored or, where that is damaged, as it was submitted: it is written anew."""
        record = self._store.get(self._order.name)
        try:
            found: Any = stored_job(record)
            assert isinstance(found, self.message)
            return cast("J", msgspec.structs.replace(found, answer=None))
        except DamagedError:
            submitted: J = from_document(self.message, self._order.document)
            state = record.state if states.has_ended(record.state) else states.PENDING
            state = states.state_in(record.collection, state)
            return msgspec.structs.replace(submitted, create_time=record.create_time, state=state)

    def _known_decision(self) -> Decision | None:
        try:
            return read_struct(self._folder.path / "decision.json", Decision)
        except DamagedFileError:
            return None  # it is decided once more

    def _decide(self) -> Decision:
        try:
            decision = self._live()
        except Cancelled:
            self._change(state=states.CANCELLING)
            self._log.say("Job is being cancelled.")
            decision = Decision(
                state=states.CANCELLED,
                error=Status(code=job_error.CANCELLED_CODE, message=job_error.CANCEL_MESSAGE),
            )
        except (StorageError, NotNeeded):
            raise
        except Exception as fault:  # a job must end, whatever the runtime's own fault is
            if lacks_room(fault):  # which is no fault: the next supervisor goes on
                raise
            decision = Decision(state=states.FAILED, error=self._failure(fault))
        write_struct(self._folder.path / "decision.json", decision)
        return decision

    def _has_rebooted(self) -> bool:
        """Whether the machine was started anew since the job was submitted: what ran here is gone."""
        return bool(self._order.boot_id) and boot_id() != self._order.boot_id

    def _wait(self, seconds: float = POLL_SECONDS, *others: int) -> None:
        """Sleep until something wakes the supervisor, or one of these descriptors has something to read."""
        self._wakeup.wait(seconds, *others)
        reap()

    def _check_requests(self) -> None:
        """Raise Cancelled where somebody has asked for the end, and as `_check_lock`."""
        self._check_lock()
        if self._store.requests(self._order.name) & {"cancel", "kill"}:
            raise Cancelled

    def _check_lock(self) -> None:
        self._folder.path.stat()  # raises where somebody has removed it
        if not still_holds(self._lock, self._folder.lock):
            raise Replaced

    def _is_to_be_killed(self) -> bool:
        """Whether somebody has asked for the end without a grace period."""
        return "kill" in self._store.requests(self._order.name)

    def _finish(self, decision: Decision) -> None:
        if decision.error is not None and decision.state == states.FAILED:
            failed = masked_document(to_document(msgspec.structs.replace(self._job, error=decision.error)))
            self._log.complain(*failed["error"]["message"].split("\n"))
        self._log.say(self.last_words[decision.state])
        self._log.close()
        self._change(state=decision.state, error=decision.error, end_time=timestamp())

    def _change(self, **fields: object) -> None:
        """Write the resource with these fields to the store."""
        if "state" in fields:
            fields["state"] = states.state_in(collection_of(self._job), str(fields["state"]))
        self._job = msgspec.structs.replace(self._job, **fields, update_time=timestamp())
        document = to_document(self._job) | self._own_fields()
        self._store.update(
            self._job.name,
            state=states.job_state(self._job.state),
            end_time=self._job.end_time,
            document=msgspec.json.encode(document).decode(),
        )


def supervise(folder: JobFolder, lock: int, program: Path, make: Callable[..., Supervisor[Any]]) -> None:
    """Bring the job in a folder to its end, by the supervisor that `make` makes.

    `lock` is the descriptor of the job's lock, which is held. `program` starts the supervisors of other jobs.
    """
    os.set_inheritable(lock, False)
    folder.clear_unpublished()
    order = folder.order()
    allow_files(0 if order.is_parent else order.files)
    store = Store.open(Path(order.home))
    supervisor = make(folder, store, lock, program)
    try:
        supervisor.run()
    finally:
        dismiss_standby()
    supervisor.close()
    os.close(lock)
    # Only after the lock is free: until then other processes left changes of the queue to this supervisor.
    with suppress(VtrainError):
        attend(store, supervisor._start, changed=True)
    with suppress(VtrainError):
        wake_parent(folder, store, supervisor._start)
    store.close()


P = TypeVar("P", HyperparameterTuningJob, TrainingPipeline)


class ParentSupervisor(Supervisor[P]):
    """The life of one parent; a subclass says how it advances, and which jobs it has."""

    @abstractmethod
    def _begin(self) -> None:
        """Read what earlier supervisors have written. Raises DamagedFileError."""

    @abstractmethod
    def _advance(self) -> Decision | None:
        """Look at the jobs and start those that may start; the end, where they decide it."""

    @abstractmethod
    def _end_jobs(self, state: str) -> bool:
        """Ask the jobs that still run to end, as the parent has in `state`; whether none does any more."""

    @abstractmethod
    def _job_names(self) -> Iterable[str]:
        """The jobs as far as the store tells, the folder being gone."""

    def _known_decision(self) -> Decision | None:
        found = super()._known_decision()
        if found is not None:
            with suppress(DamagedFileError):  # then the jobs are not reported, and ended all the same
                self._begin()
        return found

    def _live(self) -> Decision:
        self._begin()
        if self._has_rebooted():
            return Decision(state=states.FAILED, error=job_error.machine_restarted(self._folder))
        while (decision := self._advance()) is None:
            self._wait()
            self._check_requests()
        return decision

    def _end_all(self, decision: Decision) -> None:
        dismiss_standby()
        while not self._end_jobs(decision.state):
            self._wait()
            self._check_lock()

    def _abandon(self) -> None:
        for name in self._job_names():
            request_end(self._store, self._start, name, "cancel")

    def _verb(self) -> str:
        """How jobs are asked to end: as the parent itself was."""
        return "kill" if self._is_to_be_killed() else "cancel"

    def _finish(self, decision: Decision) -> None:
        drop_credentials(self._folder)
        self._job = msgspec.structs.replace(
            self._job, start_time=self._job.start_time or self._job.create_time
        )
        super()._finish(decision)
