"""Runs one tuning job: suggests trials, submits each as a job of its own, and ends with a verdict.

As the supervisor of a job it may die at any moment: what it decides lies in the study's folder before it
acts, and its trials have supervisors of their own, which wake it, or start another, when they end.
"""

from __future__ import annotations

import os
import traceback
from contextlib import suppress
from pathlib import Path

import msgspec

from vtrain.errors import DamagedError, NotFoundError, StorageError, VtrainError
from vtrain.messages import states
from vtrain.messages.codec import from_document, to_document
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, StudySpec
from vtrain.runtime import verdict
from vtrain.runtime.boot import boot_id
from vtrain.runtime.capacity.queue import job_folder
from vtrain.runtime.database import lacks_room
from vtrain.runtime.folder import (
    DamagedFileError,
    JobFolder,
    StudyPart,
    read_struct,
    still_holds,
    write_struct,
)
from vtrain.runtime.history import STUDY_FIELD, stored_job
from vtrain.runtime.inheritance import drop_credentials
from vtrain.runtime.service_log import LAST_WORDS, RUNNING, ServiceLog
from vtrain.runtime.store import Store
from vtrain.runtime.supervisor import Decision
from vtrain.runtime.supervisor_process import dismiss_standby, reap, stand_by
from vtrain.runtime.tuning.study_outcome import completion, failure
from vtrain.runtime.tuning.suggestion import next_parameters
from vtrain.runtime.tuning.trial_jobs import TrialJobs
from vtrain.runtime.tuning.trial_record import REQUESTED
from vtrain.runtime.wakeup import Wakeup
from vtrain.times import timestamp

POLL_SECONDS = 0.5
"""How often metric files are read, and trials looked after, when nothing wakes the supervisor."""


class _Cancelled(Exception):
    """Somebody requested the study's end."""


class _Replaced(Exception):
    """Another supervisor has the study."""


def supervise_study(path: Path, lock: int) -> None:
    """Bring the study in that folder to its end. `lock` is its lock, held."""
    os.set_inheritable(lock, False)
    folder = JobFolder(path)
    folder.clear_unpublished()
    store = Store.open(Path(folder.order().home))
    supervisor = StudySupervisor(folder, store, lock)
    try:
        supervisor.run()
    finally:
        dismiss_standby()
    supervisor.close()
    os.close(lock)
    store.close()


class StudySupervisor:
    """One study's life."""

    def __init__(self, folder: JobFolder, store: Store, lock: int) -> None:
        self._folder = folder
        self._order = folder.order()
        assert self._order.study is not None
        self._study: StudyPart = self._order.study
        self._home = Path(self._order.home)
        self._store = store
        self._lock = lock
        self._job = self._load()
        self._told: dict[int, str] = {}
        self._wakeup = Wakeup(folder.wake_fifo)
        self._log = ServiceLog(folder)
        self._trials = TrialJobs(folder, store, self._log, self._job)

    def run(self) -> None:
        """Everything, up to the verdict in the store."""
        if states.has_ended(self._job.state):
            return
        try:
            decision = self._known_decision() or self._decide()
            self._end_trials(decision)
            self._finish(decision)
        except _Replaced:
            self._log.close()
        except (OSError, VtrainError):
            if self._folder.path.exists():
                raise
            self._abandon()

    def close(self) -> None:
        """Hear no wakeup any more, so that writers of the FIFO see that."""
        self._wakeup.close()

    def _load(self) -> HyperparameterTuningJob:
        """The job as it is stored or, where that is damaged, as it was submitted: it is written anew."""
        record = self._store.get(self._order.name)
        try:
            found = stored_job(record)
            assert isinstance(found, HyperparameterTuningJob)
            return msgspec.structs.replace(found, answer=None)
        except DamagedError:
            state = record.state if states.has_ended(record.state) else states.PENDING
            submitted = from_document(HyperparameterTuningJob, self._study.job)
            return msgspec.structs.replace(submitted, create_time=record.create_time, state=state)

    def _known_decision(self) -> Decision | None:
        try:
            found = read_struct(self._folder.path / "decision.json", Decision)
        except DamagedFileError:
            return None  # it is decided once more
        if found is not None:
            with suppress(DamagedFileError):  # then the trials are not told, and ended all the same
                self._trials.load()
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
        except Exception as fault:  # a job must end, whatever the runtime's own fault is
            if lacks_room(fault) or not self._folder.path.exists():
                raise
            traceback.print_exc()
            decision = Decision(state=states.FAILED, error=verdict.engine_failed(self._folder, fault))
        write_struct(self._folder.path / "decision.json", decision)
        return decision

    def _live(self) -> Decision:
        self._trials.load(self._study.continue_from)
        if self._order.boot_id and boot_id() != self._order.boot_id:
            return Decision(state=states.FAILED, error=verdict.machine_restarted(self._folder))
        while True:
            self._trials.look()
            decision = self._outcome() or self._begin_trials()
            self._show()
            if decision is not None:
                return decision
            self._pause()

    def _outcome(self) -> Decision | None:
        """The end of the study, where its trials decide it."""
        trials = self._trials
        if too_many := failure(self._job, trials.records, self._home):
            return too_many
        if len(trials.records) < self._job.max_trial_count or trials.running:
            return None
        return completion(self._job, trials.records)

    def _begin_trials(self) -> Decision | None:
        """Start as many trials as may run. A decision where the grid is used up and nothing runs any more."""
        trials, study = self._trials, self._study
        while (count := len(trials.records)) < self._job.max_trial_count:
            if len(trials.running) >= max(self._job.parallel_trial_count, 1):
                break
            parameters = next_parameters(
                self._job.study_spec or StudySpec(),
                trials.study_trials,
                sampler=study.sampler,
                seed=study.seed,
                number=count + 1,
            )
            if parameters is None:
                return None if trials.running else completion(self._job, trials.records)
            trials.begin(parameters)
        if count < self._job.max_trial_count:
            stand_by(self._home, self._order.backend)  # for the next trial
        return None

    def _show(self) -> None:
        """Write what has changed to the store."""
        now = {record.id: record.state for record in self._trials.records}
        if now == self._told:
            return
        if self._job.state == states.PENDING and set(now.values()) != {REQUESTED}:
            self._log.say(RUNNING)
            self._change(state=states.RUNNING, start_time=timestamp())
        else:
            self._change()
        self._told = now

    def _pause(self) -> None:
        self._wakeup.wait(POLL_SECONDS)
        reap()
        self._check_lock()
        if self._store.requests(self._order.name) & {"cancel", "kill"}:
            raise _Cancelled

    def _check_lock(self) -> None:
        self._folder.path.stat()  # raises where somebody has removed it
        if not still_holds(self._lock, self._folder.lock):
            raise _Replaced

    def _end_trials(self, decision: Decision) -> None:
        """No trial runs afterwards. Those that ran are infeasible: the study ended first."""
        dismiss_standby()
        reason = f"The tuning job was {states.short(decision.state)} before it ended."
        while not self._trials.end(self._verb(), reason):
            self._wakeup.wait(POLL_SECONDS)
            reap()
            self._check_lock()

    def _verb(self) -> str:
        return "kill" if "kill" in self._store.requests(self._order.name) else "cancel"

    def _finish(self, decision: Decision) -> None:
        if decision.error is not None and decision.state == states.FAILED:
            self._log.complain(*decision.error.message.split("\n"))
        self._log.say(LAST_WORDS[decision.state])
        self._log.close()
        drop_credentials(self._folder)
        start = self._job.start_time or timestamp()
        self._change(state=decision.state, error=decision.error, start_time=start, end_time=timestamp())

    def _abandon(self) -> None:
        """Somebody removed the study's folder: nothing of it runs on. The next command writes the verdict."""
        for name in self._store.trials(self._order.name):
            with suppress(NotFoundError):
                self._store.request(name, "cancel")
                job_folder(self._home, name).wake()

    def _change(self, **fields: object) -> None:
        trials, now = self._trials.messages, timestamp()
        self._job = msgspec.structs.replace(self._job, **fields, trials=trials, update_time=now)
        document = to_document(self._job)
        study = {"sampler": self._study.sampler, "seed": str(self._study.seed)}
        if self._study.continue_from:
            study["continueFrom"] = self._study.continue_from
        document[STUDY_FIELD] = study
        self._store.update(
            self._job.name,
            state=self._job.state,
            end_time=self._job.end_time,
            document=msgspec.json.encode(document).decode(),
        )
