"""Runs what is made of jobs of its own: a study of its trials, a training pipeline of its task.

As the supervisor of a job it may die at any moment: what it decides lies in the folder before it acts, and
its jobs have supervisors of their own, which wake it, or start another, when they end.
"""

from __future__ import annotations

import os
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

import msgspec

from vtrain.errors import DamagedError, StorageError, VtrainError
from vtrain.messages import states
from vtrain.messages.codec import from_document, to_document
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.resources import collection_of
from vtrain.messages.training_pipeline import TrainingPipeline
from vtrain.runtime import verdict
from vtrain.runtime.boot import boot_id
from vtrain.runtime.child_jobs import request_end, wake_parent
from vtrain.runtime.database import lacks_room
from vtrain.runtime.folder import DamagedFileError, JobFolder, read_struct, write_struct
from vtrain.runtime.history import PARENT_FIELD, stored_job
from vtrain.runtime.inheritance import drop_credentials
from vtrain.runtime.locks import still_holds
from vtrain.runtime.service_log import LAST_WORDS, ServiceLog
from vtrain.runtime.store import Store
from vtrain.runtime.supervisor import Decision
from vtrain.runtime.supervisor_process import dismiss_standby, reap
from vtrain.runtime.wakeup import Wakeup
from vtrain.times import timestamp

P = TypeVar("P", HyperparameterTuningJob, TrainingPipeline)

POLL_SECONDS = 0.5
"""How often a parent looks after its jobs when nothing wakes it."""


class _Cancelled(Exception):
    """Somebody requested the end."""


class _Replaced(Exception):
    """Another supervisor has the folder."""


class ParentSupervisor(ABC, Generic[P]):
    """The life of one parent; a subclass says how it advances, and which jobs it has."""

    message: ClassVar[type[Any]]
    """The message of the resources that it runs."""
    last_words: ClassVar[Mapping[str, str]] = LAST_WORDS
    """The end of the log, by the state in which it ends."""

    def __init__(self, folder: JobFolder, store: Store, lock: int) -> None:
        self._folder = folder
        self._order = folder.order()
        self._home = Path(self._order.home)
        self._store = store
        self._lock = lock
        self._job: P = self._load()
        self._wakeup = Wakeup(folder.wake_fifo)
        self._log = ServiceLog(folder)

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

    @abstractmethod
    def _change(self, **fields: object) -> None:
        """Write the resource with these fields, and what its jobs add to it, to the store."""

    def run(self) -> None:
        """Everything, up to the verdict in the store."""
        if states.has_ended(self._job.state):
            return
        try:
            decision = self._known_decision() or self._decide()
            dismiss_standby()
            while not self._end_jobs(decision.state):
                self._wakeup.wait(POLL_SECONDS)
                reap()
                self._check_lock()
            self._finish(decision)
        except _Replaced:
            self._log.close()
        except (OSError, VtrainError):
            if self._folder.path.exists():
                raise
            # Somebody removed the folder: nothing runs on. The next command writes the verdict.
            for name in self._job_names():
                request_end(self._store, self._home, name, "cancel")

    def close(self) -> None:
        """Hear no wakeup any more, so that writers of the FIFO see that."""
        self._wakeup.close()

    def _load(self) -> P:
        """The resource as it is stored or, where that is damaged, as it was submitted: it is written anew."""
        record = self._store.get(self._order.name)
        try:
            found: Any = stored_job(record)
            assert isinstance(found, self.message)
            return cast("P", msgspec.structs.replace(found, answer=None))
        except DamagedError:
            state = record.state if states.has_ended(record.state) else states.PENDING
            submitted: P = from_document(self.message, self._order.document)
            state = states.state_in(record.collection, state)
            return msgspec.structs.replace(submitted, create_time=record.create_time, state=state)

    def _known_decision(self) -> Decision | None:
        try:
            found = read_struct(self._folder.path / "decision.json", Decision)
        except DamagedFileError:
            return None  # it is decided once more
        if found is not None:
            with suppress(DamagedFileError):  # then the jobs are not told of, and ended all the same
                self._begin()
        return found

    def _decide(self) -> Decision:
        try:
            decision = self._live()
        except _Cancelled:
            self._change(state=states.CANCELLING)
            self._log.say("Job is being cancelled.")
            decision = Decision(state=states.CANCELLED, error=verdict.cancelled())
        except (StorageError, _Replaced):
            raise
        except DamagedFileError as damage:
            decision = Decision(state=states.FAILED, error=verdict.file_damaged(self._folder, damage.path))
        except Exception as fault:  # it must end, whatever the runtime's own fault is
            if lacks_room(fault) or not self._folder.path.exists():
                raise
            traceback.print_exc()
            decision = Decision(state=states.FAILED, error=verdict.engine_failed(self._folder, fault))
        write_struct(self._folder.path / "decision.json", decision)
        return decision

    def _live(self) -> Decision:
        self._begin()
        if self._order.boot_id and boot_id() != self._order.boot_id:
            return Decision(state=states.FAILED, error=verdict.machine_restarted(self._folder))
        while True:
            decision = self._advance()
            if decision is not None:
                return decision
            self._wakeup.wait(POLL_SECONDS)
            reap()
            self._hear()

    def _hear(self) -> None:
        """Raise where somebody has asked for the end, or another supervisor has the folder."""
        self._check_lock()
        if self._store.requests(self._order.name) & {"cancel", "kill"}:
            raise _Cancelled

    def _check_lock(self) -> None:
        self._folder.path.stat()  # raises where somebody has removed it
        if not still_holds(self._lock, self._folder.lock):
            raise _Replaced

    def _verb(self) -> str:
        """How jobs are asked to end: as the parent itself was."""
        return "kill" if "kill" in self._store.requests(self._order.name) else "cancel"

    def _finish(self, decision: Decision) -> None:
        if decision.error is not None and decision.state == states.FAILED:
            self._log.complain(*decision.error.message.split("\n"))
        self._log.say(self.last_words[decision.state])
        self._log.close()
        drop_credentials(self._folder)
        start = self._job.start_time or timestamp()
        self._change(state=decision.state, error=decision.error, start_time=start, end_time=timestamp())

    def _store_changed(self, document: dict[str, Any], **fields: object) -> None:
        """Write the resource with these fields, and its document with those that only vtrain has."""
        if "state" in fields:
            fields["state"] = states.state_in(collection_of(self._job), str(fields["state"]))
        if pipeline := self._order.pipeline_name:
            document[PARENT_FIELD] = pipeline
        self._job = msgspec.structs.replace(self._job, **fields, update_time=timestamp())
        self._store.update(
            self._job.name,
            state=states.job_state(self._job.state),
            end_time=self._job.end_time,
            document=msgspec.json.encode(to_document(self._job) | document).decode(),
        )


def supervise_parent(supervisor: type[ParentSupervisor[Any]], path: Path, lock: int) -> None:
    """Bring the parent in that folder to its end. `lock` is its lock, held."""
    os.set_inheritable(lock, False)
    folder = JobFolder(path)
    folder.clear_unpublished()
    home = Path(folder.order().home)
    store = Store.open(home)
    own = supervisor(folder, store, lock)
    try:
        own.run()
    finally:
        dismiss_standby()
    own.close()
    os.close(lock)
    with suppress(VtrainError):
        wake_parent(folder, store, home)
    store.close()
