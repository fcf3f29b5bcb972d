"""Runs one tuning job: suggests trials, submits each as a job of its own, and ends with a verdict."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vtrain.messages import states
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, StudySpec
from vtrain.messages.names import parse_name
from vtrain.runtime import job_error
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.history import STUDY_FIELD
from vtrain.runtime.home import Home
from vtrain.runtime.job_order import StudyPart
from vtrain.runtime.log.service_log import RUNNING
from vtrain.runtime.store import Store
from vtrain.runtime.supervision.base import Decision
from vtrain.runtime.supervision.parent_supervisor import ParentSupervisor
from vtrain.runtime.supervisor_process import stand_by
from vtrain.runtime.tuning.study import SUCCEEDED
from vtrain.runtime.tuning.suggestion import next_parameters
from vtrain.runtime.tuning.trial_jobs import TrialJobs
from vtrain.runtime.tuning.trial_metrics import how_to_report
from vtrain.runtime.tuning.trial_record import REQUESTED, TrialRecord
from vtrain.times import timestamp

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
                trials.study_trials,
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
            # The first trials may have ended since the last look.
            started = (record.start_time for record in self._trials.records if record.start_time)
            self._change(state=states.RUNNING, start_time=min(started, default=timestamp()))
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
    rule = f"maxFailedTrialCount is {limit}" if limit else "no maxFailedTrialCount allows that"
    count = "1 trial has" if len(failed) == 1 else f"{len(failed)} trials have"
    advice = "" if limit else "With --max-failed-trial-count=N the study would go on. "
    metadata = {
        "trial": str(last.id),
        "log": str(Home(home).job(last.job).logs),
        "hint": f"{advice}Look at its job: vtrain custom-jobs describe {name.id if name else last.job}",
    }
    message = f"{count} failed ({rule}). Trial {last.id}: {last.infeasible_reason}"
    return _failed(message, "TRIALS_FAILED", **metadata)


def _completion(job: HyperparameterTuningJob, records: list[TrialRecord]) -> Decision:
    """The end of a study whose trials have all ended."""
    if any(record.state == SUCCEEDED for record in records):
        return Decision(state=states.SUCCEEDED)
    reason = next((record.infeasible_reason for record in records), "")
    metrics = [metric.metric_id for metric in (job.study_spec or StudySpec()).metrics]
    wanted = ", ".join(metrics)
    left = job.max_trial_count - len(records)
    stopped = f" The study stopped before the other {left}." if left > 0 else ""
    message = f"No trial has a measurement of {wanted}. Trial 1: {reason}{stopped}"
    hint = how_to_report(metrics[0]) if any(record.is_silent for record in records) else ""
    return _failed(message, "NO_MEASUREMENT", hint=hint)


def _failed(message: str, reason: str, **metadata: str) -> Decision:
    error = job_error.error(job_error.USER_ERROR_CODE, message, reason, **metadata)
    return Decision(state=states.FAILED, error=error)
