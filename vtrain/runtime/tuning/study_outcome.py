"""The end of a study, as far as its trials decide it."""

from __future__ import annotations

from pathlib import Path

from vtrain.messages import states
from vtrain.messages.base import Status
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, StudySpec
from vtrain.messages.names import parse_name
from vtrain.runtime import verdict
from vtrain.runtime.capacity.queue import job_folder
from vtrain.runtime.supervisor import Decision
from vtrain.runtime.tuning.study import SUCCEEDED
from vtrain.runtime.tuning.trial_record import TrialRecord

MOST_FAILURES = 5
"""Failed trials, more than half of those that ended, that end a study without maxFailedTrialCount. Of the
service's own rule only this is known: a first trial that fails ends the study."""


def failure(job: HyperparameterTuningJob, records: list[TrialRecord], home: Path) -> Decision | None:
    """The end of a study in which too many trials have failed."""
    failed = [record for record in records if record.failed]
    ended = sum(record.has_ended for record in records)
    if not failed or not _are_too_many(len(failed), ended, job.max_failed_trial_count):
        return None
    last = max(failed, key=lambda record: record.end_time)
    limit, name = job.max_failed_trial_count, parse_name(last.job)
    rule = f"maxFailedTrialCount is {limit}" if limit else "no maxFailedTrialCount allows that"
    count = "1 trial has" if len(failed) == 1 else f"{len(failed)} trials have"
    advice = "" if limit else "With --max-failed-trial-count=N the study would go on. "
    metadata = {
        "trial": str(last.id),
        "log": str(job_folder(home, last.job).logs),
        "hint": f"{advice}Look at its job: vtrain custom-jobs describe {name.id if name else last.job}",
    }
    message = f"{count} failed ({rule}). Trial {last.id}: {last.infeasible_reason}"
    return _failed(message, "TRIALS_FAILED", metadata)


def _are_too_many(failures: int, ended: int, limit: int) -> bool:
    if limit:
        return failures >= limit
    return failures == ended or (failures >= MOST_FAILURES and 2 * failures > ended)


def completion(job: HyperparameterTuningJob, records: list[TrialRecord]) -> Decision:
    """The end of a study whose trials have all ended."""
    if any(record.state == SUCCEEDED for record in records):
        return Decision(state=states.SUCCEEDED)
    reason = next((record.infeasible_reason for record in records), "")
    wanted = ", ".join(metric.metric_id for metric in (job.study_spec or StudySpec()).metrics)
    return _failed(f"No trial has a measurement of {wanted}. Trial 1: {reason}", "NO_MEASUREMENT", {})


def _failed(message: str, reason: str, metadata: dict[str, str]) -> Decision:
    details = (verdict.error_info(reason, metadata),)
    return Decision(
        state=states.FAILED, error=Status(code=verdict.USER_ERROR_CODE, message=message, details=details)
    )
