"""Runs one tuning job: suggests trials, submits each as a job of its own, and ends with a verdict.

The record of a trial says what was decided about it, before its job is submitted.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from vtrain.errors import DamagedError, NotFoundError
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, StudySpec, Trial
from vtrain.messages.names import CUSTOM_JOBS, TRIAL_LABEL, parse_name
from vtrain.runtime import job_error
from vtrain.runtime.adoption import Start
from vtrain.runtime.capacity.queue import is_living, look_after, request_end
from vtrain.runtime.enrolment import enrol, pending, remove_unborn
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.history import STUDY_FIELD, stored_job
from vtrain.runtime.home import Home
from vtrain.runtime.job_order import StudyPart
from vtrain.runtime.log.service_log import RUNNING, ServiceLog
from vtrain.runtime.process.process_tree import boot_id
from vtrain.runtime.replica.vertex_view import trial_spec
from vtrain.runtime.store import Store
from vtrain.runtime.supervision.base import Decision, ParentSupervisor
from vtrain.runtime.supervisor_process import new_job_id, stand_by
from vtrain.runtime.tuning.metric_file import TrialMetrics, how_to_report
from vtrain.runtime.tuning.stopping import should_stop
from vtrain.runtime.tuning.study import (
    INFEASIBLE,
    SUCCEEDED,
    Parameters,
    arguments,
    final_measurement,
)
from vtrain.runtime.tuning.suggestion import next_parameters
from vtrain.runtime.tuning.trial_record import (
    ACTIVE,
    REQUESTED,
    STOPPING,
    TrialRecord,
    kept,
    read_records,
    readable_records,
    write_record,
)
from vtrain.runtime.working_folder import kept_files
from vtrain.times import timestamp


class TrialJobs:
    """The trials that there are, by number, and how they stand."""

    def __init__(
        self, folder: JobFolder, store: Store, start: Start, log: ServiceLog, job: HyperparameterTuningJob
    ) -> None:
        self._folder = folder
        self._order = folder.order()
        self._home = Path(self._order.home)
        self._store = store
        self._start = start
        self._log = log
        self._display_name = job.display_name
        self._spec = job.study_spec or StudySpec()
        self._records: dict[int, TrialRecord] = {}
        self._metrics: dict[int, TrialMetrics] = {}
        self._compared: dict[int, int] = {}  # how many trials had ended when a running one was compared last

    @property
    def records(self) -> list[TrialRecord]:
        """All trials, by number."""
        return list(self._records.values())

    @property
    def running(self) -> list[TrialRecord]:
        return [record for record in self.records if not record.has_ended]

    @property
    def messages(self) -> tuple[Trial, ...]:
        """The trials as the API answers them."""
        return tuple(record.message for record in self.records)

    def load(self, continue_from: str = "") -> None:
        """Read the records. A new study begins with the trials of the one that it continues from.

        Trials that were cut off and trials whose jobs failed are run again: the fault may have been mended.
        Raises DamagedFileError.
        """
        self._records = {record.id: record for record in read_records(self._folder)}
        if 1 not in self._records and continue_from:
            earlier = readable_records(Home(self._home).job(continue_from))
            counting = [one for one in earlier if one.has_ended and not one.is_cut_off and not one.failed]
            # A supervisor may die after any of these writes. The first record, written last, tells of all.
            for number, record in reversed(list(enumerate(counting, 1))):
                self._keep(msgspec.structs.replace(record, id=number))
            self._records = dict(sorted(self._records.items()))

    def begin(self, parameters: Parameters) -> None:
        """Start another trial."""
        self._submit(max(self._records, default=0) + 1, parameters)

    def look(self) -> None:
        """Look after each running trial: submit it, read its metrics, stop it early, or note its end."""
        for record in self.running:
            job = self._job_of(record)
            if job is None and record.state == REQUESTED:  # a supervisor died before that
                remove_unborn(self._store, record.job, Home(self._home).job(record.job))
                self._submit(record.id, record.parameters)
            elif job is None:
                self._end(record, INFEASIBLE, reason="Its job was deleted while it ran.")
            elif states.has_ended(job.state):
                self._conclude(record, job)
            else:
                self._measure(record, job)

    def _job_of(self, record: TrialRecord) -> CustomJob | None:
        """The trial's job; None where there is none."""
        try:
            row = self._store.get(record.job)
        except NotFoundError:
            return None
        look_after(self._store, self._start, row)
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
        if record.state == STOPPING:  # the supervisor that decided it may have died before it asked
            self._stop(record)
        if record.state != ACTIVE:
            return
        ended = sum(other.has_ended for other in self.records)
        metrics = self._metrics_of(record, job)
        if metrics.read():
            record = msgspec.structs.replace(record, measurements=kept(metrics.measured))
            self._keep(record)  # for a supervisor that takes over: the file holds the last hundred alone
        elif self._compared.get(record.id) == ended:
            return
        self._compared[record.id] = ended
        trial = msgspec.structs.replace(record, measurements=tuple(metrics.measured))
        if should_stop(self._spec, trial, self.records):
            self._keep(msgspec.structs.replace(record, state=STOPPING))
            self._stop(record)

    def _stop(self, record: TrialRecord) -> None:
        """Ask the trial's job to end, once."""
        if not self._store.requests(record.job):
            self._log.say(f"Trial {record.id} is stopped early: it has little prospect.")
            request_end(self._store, self._start, record.job, "cancel")

    def _metrics_of(self, record: TrialRecord, job: CustomJob) -> TrialMetrics:
        """The reader of what the trial reports."""
        if record.id not in self._metrics:
            wanted = [metric.metric_id for metric in self._spec.metrics]
            self._metrics[record.id] = TrialMetrics(job, self._home, wanted, record.measurements)
        return self._metrics[record.id]

    def _conclude(self, record: TrialRecord, job: CustomJob) -> None:
        """The end of a trial whose job has ended."""
        metrics = self._metrics_of(record, job)
        metrics.read(ended=True)
        del self._metrics[record.id]
        measured = tuple(metrics.measured)
        if not record.start_time:
            record = msgspec.structs.replace(record, start_time=job.start_time or job.create_time)
        # A trial that is stopped early has a job that was cancelled, and counts with what it reported.
        counts = job.state == states.SUCCEEDED or record.state == STOPPING
        final = final_measurement(self._spec, measured) if counts else None
        record = msgspec.structs.replace(record, final=final, measurements=kept(measured))
        if final is not None:
            self._end(record, SUCCEEDED, at=job.end_time)
        elif counts:
            record = msgspec.structs.replace(record, is_silent=metrics.is_silent, nearest=metrics.nearest)
            self._end(record, INFEASIBLE, at=job.end_time, reason=metrics.complaint())
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

    def end(self, verb: str, reason: str) -> bool:
        """Ask what runs to end (`cancel`, `kill`); whether nothing of the study runs any more.

        Also the jobs of trials whose records are damaged.
        """
        living = [
            name for name in self._store.trials(self._order.name) if is_living(self._store, self._start, name)
        ]
        for name in living:
            request_end(self._store, self._start, name, verb)
        for record in self.running:
            if record.job not in living:
                self._end(msgspec.structs.replace(record, is_cut_off=True), INFEASIBLE, reason=reason)
        return not living

    def _submit(self, number: int, parameters: Parameters) -> None:
        """Start a trial: its record first, with the name of a new job, then the job."""
        own = msgspec.structs.replace(self._order.resource, collection=CUSTOM_JOBS, id=new_job_id(self._home))
        record = TrialRecord(id=number, parameters=parameters, job=str(own))
        self._keep(record)
        template, values = self._order.job, arguments(self._spec, parameters)
        job = CustomJob(
            display_name=f"{self._display_name[:100]}-trial-{number}",
            job_spec=trial_spec(template.job_spec, str(number), values),
            encryption_spec=template.encryption_spec,
            labels={TRIAL_LABEL: self._folder.path.name},
        )
        job = pending(job, record.job)
        order = msgspec.structs.replace(
            self._order,
            name=record.job,
            job=job,
            study=None,
            parent=self._order.name,
            trial_id=str(number),
            boot_id=boot_id(),
        )
        enrol(self._store, job, order, self._start, snapshot=kept_files(self._folder))
        self._log.say(f"Trial {number} begins: {' '.join(values)}")

    def _keep(self, record: TrialRecord) -> None:
        write_record(self._folder, record)
        self._records[record.id] = record


MOST_FAILURES = 5
"""Failed trials, more than half of those that ended, that end a study without maxFailedTrialCount. Of the
service's own rule only this is known: a first trial that fails ends the study."""


FEWEST_SILENT = 2
"""Trials that begin before a study stops of which none has reported a number: one may do so by chance."""


class StudySupervisor(ParentSupervisor[HyperparameterTuningJob]):
    """One study's life."""

    message = HyperparameterTuningJob

    def __init__(self, folder: JobFolder, store: Store, lock: int, program: Path) -> None:
        super().__init__(folder, store, lock, program)
        assert self._order.study is not None
        self._study: StudyPart = self._order.study
        self._told: dict[int, str] = {}
        self._trials = TrialJobs(folder, store, self._start, self._log, self._job)

    def _begin(self) -> None:
        self._trials.load(self._study.continue_from)

    def _advance(self) -> Decision | None:
        self._trials.look()
        decision = self._outcome() or self._begin_trials()
        self._show()
        return decision

    def _outcome(self) -> Decision | None:
        """The end of the study, where its trials decide it."""
        trials = self._trials
        if too_many := _failure(self._job, trials.records, self._home):
            return too_many
        if trials.running or (len(trials.records) < self._job.max_trial_count and not self._holds_back()):
            return None
        return _completion(self._job, trials.records)

    def _holds_back(self) -> bool:
        """Whether no other trial begins, as the first ones have ended and none has reported a number."""
        records = self._trials.records
        if len(records) < max(self._job.parallel_trial_count, FEWEST_SILENT):
            return False
        has_measured = any(record.final or record.measurements for record in records)
        return not has_measured and any(record.is_silent for record in records)

    def _begin_trials(self) -> Decision | None:
        """Start as many trials as may run. A decision where the grid is used up and nothing runs any more."""
        trials, study = self._trials, self._study
        if self._holds_back():
            return None
        while (count := len(trials.records)) < self._job.max_trial_count:
            if len(trials.running) >= max(self._job.parallel_trial_count, 1):
                break
            parameters = next_parameters(
                self._job.study_spec or StudySpec(),
                trials.records,
                sampler=study.sampler,
                seed=study.seed,
                number=count + 1,
            )
            if parameters is None:
                return None if trials.running else _completion(self._job, trials.records)
            trials.begin(parameters)
        if count < self._job.max_trial_count:
            stand_by(self._program, self._home, self._order.backend)  # for the next trial
        return None

    def _show(self) -> None:
        """Write what has changed to the store."""
        now = {record.id: record.state for record in self._trials.records}
        if now == self._told:
            return
        if self._job.state == states.PENDING and set(now.values()) != {REQUESTED}:
            self._log.say(RUNNING)
            # The first trials may have ended since the last look; those of an earlier study started with it.
            starts = [record.start_time for record in self._trials.records]
            own = (start for start in starts if start >= self._job.create_time)
            self._change(state=states.RUNNING, start_time=min(own, default=timestamp()))
        else:
            self._change()
        self._told = now

    def _end_jobs(self, state: str) -> bool:
        """No trial runs afterwards. Those that ran are infeasible: the study ended first."""
        reason = f"The tuning job was {states.short(state)} before it ended."
        return self._trials.end(self._verb(), reason)

    def _job_names(self) -> Iterable[str]:
        return self._store.trials(self._order.name)

    def _own_fields(self) -> dict[str, Any]:
        study = {"sampler": self._study.sampler, "seed": str(self._study.seed)}
        if self._study.continue_from:
            study["continueFrom"] = self._study.continue_from
        return super()._own_fields() | {STUDY_FIELD: study}

    def _change(self, **fields: object) -> None:
        super()._change(**fields, trials=self._trials.messages)


def _failure(job: HyperparameterTuningJob, records: list[TrialRecord], home: Path) -> Decision | None:
    """The end of a study in which too many trials have failed."""
    failed = [record for record in records if record.failed]
    ended, limit = sum(record.has_ended for record in records), job.max_failed_trial_count
    if limit:
        are_too_many = len(failed) >= limit
    else:
        are_too_many = len(failed) == ended or (len(failed) >= MOST_FAILURES and 2 * len(failed) > ended)
    if not failed or not are_too_many:
        return None
    last = max(failed, key=lambda record: record.end_time)
    name = parse_name(last.job)
    rule = f" (maxFailedTrialCount is {limit})" if limit else ""
    count = "1 trial has" if len(failed) == 1 else f"{len(failed)} trials have"
    advice = "" if limit else "With --max-failed-trial-count=N the study would go on. "
    metadata = {
        "trial": str(last.id),
        "log": str(Home(home).job(last.job).logs),
        "hint": f"{advice}Look at its job: vtrain show {name.id if name else last.job}",
    }
    message = f"{count} failed{rule}. Trial {last.id}: {last.infeasible_reason}"
    return _failed(message, "TRIALS_FAILED", **metadata)


def _completion(job: HyperparameterTuningJob, records: list[TrialRecord]) -> Decision:
    """The end of a study whose trials have all ended."""
    if any(record.state == SUCCEEDED for record in records):
        return Decision(state=states.SUCCEEDED)
    reason = next((record.infeasible_reason for record in records), "")
    metrics = (job.study_spec or StudySpec()).metrics
    wanted = ", ".join(metric.metric_id for metric in metrics)
    left = job.max_trial_count - len(records)
    stopped = f" The study stopped before the other {left}." if left > 0 else ""
    message = f"No trial has a measurement of {wanted}. Trial 1: {reason}{stopped}"
    hint = how_to_report(metrics[0].metric_id) if any(record.is_silent for record in records) else ""
    if hint and (near := records[0].nearest):
        goal = "min" if metrics[0].goal == "MINIMIZE" else "max"
        hint = f"Did you mean --metric={near}:{goal}?\n{hint}"
    return _failed(message, "NO_MEASUREMENT", hint=hint)


def _failed(message: str, reason: str, **metadata: str) -> Decision:
    error = job_error.error(job_error.USER_ERROR_CODE, message, reason, **metadata)
    return Decision(state=states.FAILED, error=error)
