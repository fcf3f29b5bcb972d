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

from vtrain.atomic import remove_folder
from vtrain.errors import DamagedError, NotFoundError, StorageError, VtrainError
from vtrain.messages import states
from vtrain.messages.base import Status
from vtrain.messages.codec import from_document, to_document
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, Measurement, StudySpec
from vtrain.messages.names import CUSTOM_JOBS, TRIAL_LABEL, parse_name
from vtrain.runtime import verdict
from vtrain.runtime.boot import boot_id
from vtrain.runtime.capacity.queue import job_folder, look_after
from vtrain.runtime.database import lacks_room
from vtrain.runtime.enrolment import enrol, pending
from vtrain.runtime.folder import (
    DamagedFileError,
    JobFolder,
    JobOrder,
    StudyPart,
    TrialPart,
    read_struct,
    still_holds,
    write_struct,
)
from vtrain.runtime.history import STUDY_FIELD, stored_job
from vtrain.runtime.inheritance import drop_credentials
from vtrain.runtime.replica import trial_spec
from vtrain.runtime.service_log import LAST_WORDS, RUNNING, ServiceLog
from vtrain.runtime.store import Record, Store
from vtrain.runtime.supervisor import Decision
from vtrain.runtime.supervisor_process import dismiss_standby, new_job_id, reap, stand_by
from vtrain.runtime.tuning.metric_file import MetricFile
from vtrain.runtime.tuning.ranking import final_measurement
from vtrain.runtime.tuning.stopping import should_stop
from vtrain.runtime.tuning.study import INFEASIBLE, SUCCEEDED, StudyTrial, arguments
from vtrain.runtime.tuning.suggestion import next_parameters
from vtrain.runtime.tuning.trial_record import (
    ACTIVE,
    REQUESTED,
    STOPPING,
    TrialRecord,
    read_records,
    thinned,
    write_record,
)
from vtrain.runtime.wakeup import Wakeup
from vtrain.runtime.working_folder import kept_files
from vtrain.times import epoch, timestamp

POLL_SECONDS = 0.5
"""How often metric files are read, and trials looked after, when nothing wakes the supervisor."""
MOST_FAILURES = 5
"""Failed trials, more than half of those that ended, that end a study without maxFailedTrialCount. Of the
service's own rule only this is known: a first trial that fails ends the study."""


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
        self._spec = self._job.study_spec or StudySpec()
        self._records: dict[int, TrialRecord] = {}
        self._files: dict[int, MetricFile] = {}
        self._measured: dict[int, list[Measurement]] = {}
        self._compared: dict[int, int] = {}  # how many trials had ended when a running one was compared last
        self._told: dict[int, str] = {}
        self._wakeup = Wakeup(folder.wake_fifo)
        self._log = ServiceLog(folder)

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
            self._read_trials()
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
        if self._order.boot_id and boot_id() != self._order.boot_id:
            self._read_trials()
            return Decision(state=states.FAILED, error=verdict.machine_restarted(self._folder))
        self._read_trials()
        while True:
            self._look_at_trials()
            decision = self._outcome() or self._begin_trials()
            self._show()
            if decision is not None:
                return decision
            self._pause()

    def _read_trials(self) -> None:
        self._records = {record.id: record for record in read_records(self._folder)}
        if not self._records and self._study.continue_from:
            for record in self._earlier_trials():
                self._keep(record)
        self._told = {record.id: record.state for record in self._records.values()}

    def _earlier_trials(self) -> list[TrialRecord]:
        """The ended trials of the study that this one goes on from, numbered anew."""
        earlier = read_records(job_folder(self._home, self._study.continue_from))
        ended = [record for record in earlier if record.has_ended]
        return [msgspec.structs.replace(record, id=number) for number, record in enumerate(ended, 1)]

    def _keep(self, record: TrialRecord) -> None:
        write_record(self._folder, record)
        self._records[record.id] = record

    def _running(self) -> list[TrialRecord]:
        return [record for record in self._records.values() if not record.has_ended]

    def _look_at_trials(self) -> None:
        """Learn how each running trial stands: submitted at all, measured, without prospect, ended."""
        for record in self._running():
            job = self._job_of(record)
            if job is None:
                self._end(record, INFEASIBLE, reason="Its job was deleted while it ran.")
            elif states.has_ended(job.state):
                self._conclude(record, job)
            else:
                self._measure(record, job)

    def _job_of(self, record: TrialRecord) -> CustomJob | None:
        """The trial's job, submitted where the supervisor died before that. None for one that was deleted."""
        try:
            row = self._store.get(record.job)
        except NotFoundError:
            if record.state != REQUESTED:
                return None
            self._submit(record)
            row = self._store.get(record.job)
        look_after(self._store, self._home, row)
        return self._read_job(row)

    def _read_job(self, row: Record) -> CustomJob:
        try:
            job = stored_job(row)
        except DamagedError:
            return CustomJob(name=row.name, state=row.state)
        assert isinstance(job, CustomJob)
        return job

    def _measure(self, record: TrialRecord, job: CustomJob) -> None:
        if record.state == REQUESTED and job.state == states.RUNNING:
            started = job.start_time or timestamp()
            record = msgspec.structs.replace(record, state=ACTIVE, start_time=started)
            self._keep(record)
        ended = sum(other.has_ended for other in self._records.values())
        has_news = self._read(record, job) or self._compared.get(record.id) != ended
        if record.state != ACTIVE or not has_news:
            return
        self._compared[record.id] = ended
        trial = record.study_trial(tuple(self._measured[record.id]))
        if should_stop(self._spec, trial, [one.study_trial() for one in self._records.values()]):
            self._keep(msgspec.structs.replace(record, state=STOPPING))
            self._log.say(f"Trial {record.id} is stopped early: it has little prospect.")
            self._request(record, "cancel")

    def _read(self, record: TrialRecord, job: CustomJob, *, ended: bool = False) -> bool:
        """Read what the trial has reported since; whether it has."""
        if record.id not in self._files:
            wanted = [metric.metric_id for metric in self._spec.metrics]
            file = job_folder(self._home, record.job).metric_file
            started = epoch(job.start_time or job.create_time)
            self._files[record.id] = MetricFile(file, wanted, started=started)
        found = self._files[record.id].read(ended=ended)
        self._measured.setdefault(record.id, []).extend(found)
        return bool(found)

    def _conclude(self, record: TrialRecord, job: CustomJob) -> None:
        """The end of a trial whose job has ended."""
        self._read(record, job, ended=True)
        measured = tuple(self._measured.pop(record.id))
        complaint = self._files.pop(record.id).complaint()
        if not record.start_time:
            record = msgspec.structs.replace(record, start_time=job.start_time or job.create_time)
        counts = job.state == states.SUCCEEDED or record.state == STOPPING
        final = final_measurement(self._spec, measured) if counts else None
        record = msgspec.structs.replace(record, final=final, measurements=thinned(measured))
        if final is not None:
            self._end(record, SUCCEEDED, at=job.end_time)
        elif counts:
            self._end(record, INFEASIBLE, at=job.end_time, reason=complaint)
        else:
            cancelled = job.state == states.CANCELLED and (job.error is None or not job.error.details)
            reason = job.error.message if job.error else f"Its job is {states.short(job.state)}."
            reason = "Its job was cancelled." if cancelled else reason
            self._end(record, INFEASIBLE, at=job.end_time, reason=reason, failed=not cancelled)

    def _end(
        self, record: TrialRecord, state: str, *, at: str = "", reason: str = "", failed: bool = False
    ) -> None:
        ended = msgspec.structs.replace(
            record, state=state, end_time=at or timestamp(), infeasible_reason=reason, failed=failed
        )
        self._keep(ended)

    def _trials(self) -> list[StudyTrial]:
        return [record.study_trial() for record in self._records.values()]

    def _outcome(self) -> Decision | None:
        """The end of the study, where its trials decide it."""
        failed = [record for record in self._records.values() if record.failed]
        if failed and self._has_failed(len(failed)):
            return Decision(state=states.FAILED, error=self._too_many_failures(failed))
        if len(self._records) < self._job.max_trial_count or self._running():
            return None
        return self._verdict()

    def _has_failed(self, failures: int) -> bool:
        if self._job.max_failed_trial_count:
            return failures >= self._job.max_failed_trial_count
        ended = [record for record in self._records.values() if record.has_ended]
        return failures == len(ended) or (failures >= MOST_FAILURES and 2 * failures > len(ended))

    def _too_many_failures(self, failed: list[TrialRecord]) -> Status:
        last = max(failed, key=lambda record: record.end_time)
        limit = self._job.max_failed_trial_count
        rule = f"maxFailedTrialCount is {limit}" if limit else "without maxFailedTrialCount that is too many"
        count = "1 trial has" if len(failed) == 1 else f"{len(failed)} trials have"
        name = parse_name(last.job)
        metadata = {
            "trial": str(last.id),
            "log": str(job_folder(self._home, last.job).logs),
            "hint": f"Look at its job: vtrain custom-jobs describe {name.id if name else last.job}",
        }
        return Status(
            code=verdict.USER_ERROR_CODE,
            message=f"{count} failed ({rule}). Trial {last.id}: {last.infeasible_reason}",
            details=(verdict.error_info("TRIALS_FAILED", metadata),),
        )

    def _verdict(self) -> Decision:
        """The end of a study whose trials have all ended."""
        if any(record.state == SUCCEEDED for record in self._records.values()):
            return Decision(state=states.SUCCEEDED)
        reason = next((record.infeasible_reason for record in self._records.values()), "")
        wanted = ", ".join(metric.metric_id for metric in self._spec.metrics)
        return Decision(
            state=states.FAILED,
            error=Status(
                code=verdict.USER_ERROR_CODE,
                message=f"No trial has a measurement of {wanted}. Trial 1: {reason}",
                details=(verdict.error_info("NO_MEASUREMENT", {}),),
            ),
        )

    def _begin_trials(self) -> Decision | None:
        """Start as many trials as may run. A decision where the grid is used up and nothing runs any more."""
        while len(self._records) < self._job.max_trial_count:
            if len(self._running()) >= max(self._job.parallel_trial_count, 1):
                break
            number = max(self._records, default=0) + 1
            parameters = next_parameters(
                self._spec, self._trials(), sampler=self._study.sampler, seed=self._study.seed, number=number
            )
            if parameters is None:
                return None if self._running() else self._verdict()
            record = TrialRecord(id=number, parameters=parameters, job=self._new_name())
            self._keep(record)
            self._submit(record)
        if len(self._records) < self._job.max_trial_count:
            stand_by(self._home, self._order.backend)  # for the next trial
        return None

    def _new_name(self) -> str:
        name = parse_name(self._order.name)
        assert name is not None
        own = msgspec.structs.replace(name, collection=CUSTOM_JOBS, id=new_job_id(self._home))
        return str(own)

    def _submit(self, record: TrialRecord) -> None:
        """Submit the trial's job under the name that the record has."""
        remove_folder(job_folder(self._home, record.job).path)  # what a supervisor that died had begun
        job = self._trial_job(record)
        enrol(self._store, job, self._trial_order(record, job), snapshot=kept_files(self._folder))
        values = " ".join(arguments(self._spec, record.parameters))
        self._log.say(f"Trial {record.id} begins: {values}")

    def _trial_job(self, record: TrialRecord) -> CustomJob:
        template = self._order.job
        spec = trial_spec(template.job_spec, str(record.id), arguments(self._spec, record.parameters))
        job = CustomJob(
            display_name=f"{self._job.display_name[:100]}-trial-{record.id}",
            job_spec=spec,
            encryption_spec=template.encryption_spec,
            labels={TRIAL_LABEL: self._folder.path.name},
        )
        return pending(job, record.job)

    def _trial_order(self, record: TrialRecord, job: CustomJob) -> JobOrder:
        return msgspec.structs.replace(
            self._order,
            name=record.job,
            job=job,
            study=None,
            trial=TrialPart(study=self._order.name, id=str(record.id)),
            boot_id=boot_id(),
        )

    def _request(self, record: TrialRecord, verb: str) -> None:
        with suppress(NotFoundError):
            self._store.request(record.job, verb)
            if not job_folder(self._home, record.job).wake():
                look_after(self._store, self._home, self._store.get(record.job), at_once=True)

    def _show(self) -> None:
        """Write what has changed to the store."""
        now = {record.id: record.state for record in self._records.values()}
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
        while running := self._running():
            verb = "kill" if "kill" in self._store.requests(self._order.name) else "cancel"
            for record in running:
                if self._has_left(record):
                    reason = f"The tuning job was {states.short(decision.state)} before it ended."
                    self._end(record, INFEASIBLE, reason=reason)
                else:
                    self._request(record, verb)
            if self._running():
                self._wakeup.wait(POLL_SECONDS)
                reap()
                self._check_lock()

    def _has_left(self, record: TrialRecord) -> bool:
        try:
            row = self._store.get(record.job)
        except NotFoundError:
            return True
        look_after(self._store, self._home, row)
        return states.has_ended(row.state)

    def _finish(self, decision: Decision) -> None:
        if decision.error is not None and decision.state == states.FAILED:
            self._log.complain(*decision.error.message.split("\n"))
        self._log.say(LAST_WORDS[decision.state])
        self._log.close()
        drop_credentials(self._folder)
        start = self._job.start_time or timestamp()
        self._change(state=decision.state, error=decision.error, start_time=start, end_time=timestamp())

    def _abandon(self) -> None:
        """Somebody removed the study's folder: nothing of it runs on."""
        for record in self._running():
            self._request(record, "cancel")

    def _change(self, **fields: object) -> None:
        trials = tuple(record.message for _, record in sorted(self._records.items()))
        self._job = msgspec.structs.replace(self._job, **fields, trials=trials, update_time=timestamp())
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
