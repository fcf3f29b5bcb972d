"""A trial as the supervisor of its study keeps it: `jobs/ID/trials/N.json`, written before anything is done.

The record names the trial's job before that job is submitted, so that another supervisor finds it. Where it
finds none, it submits one under a new name.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from vtrain.messages.hyperparameter_tuning_job import Measurement, Parameter, Trial
from vtrain.messages.states import ENDED_TRIAL
from vtrain.runtime.folder import TRIALS, DamagedFileError, JobFolder, require_struct, write_struct
from vtrain.runtime.log.log_reader import ChildLogs
from vtrain.runtime.tuning.study import StudyTrial, thinned

REQUESTED, ACTIVE, STOPPING = "REQUESTED", "ACTIVE", "STOPPING"
RECENT = 100
"""Measurements by which a file is known again that another reader has read: as many as hypertune keeps."""
MOST_KEPT = 1000
"""Measurements of an ended trial that are kept: enough for curves and for the rules of early stopping."""
MOST_MEASURED = 100_000
"""Measurements of a running trial that are remembered; of more, only the very last one."""


class TrialRecord(StudyTrial, frozen=True, kw_only=True):
    """`job` is the full name of the trial's job.

    `failed`: the job failed, which counts for maxFailedTrialCount. `is_cut_off`: the study ended before it.
    `is_silent`: the job succeeded, and reported nothing that the study asks for; `nearest` is the number with
    the nearest name that it did report. `measurements` are filled at the end.
    """

    job: str
    state: str = REQUESTED
    start_time: str = ""
    end_time: str = ""
    infeasible_reason: str = ""
    failed: bool = False
    is_cut_off: bool = False
    is_silent: bool = False
    nearest: str = ""

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED_TRIAL

    @property
    def message(self) -> Trial:
        """The trial as the API answers it."""
        parameters = (Parameter(parameter_id=name, value=value) for name, value in self.parameters.items())
        return Trial(
            id=str(self.id),
            state=self.state,
            parameters=tuple(parameters),
            final_measurement=self.final,
            start_time=self.start_time,
            end_time=self.end_time,
            infeasible_reason=self.infeasible_reason,
            custom_job=self.job,
        )


def read_records(folder: JobFolder) -> list[TrialRecord]:
    """The trials of a study, by number. Raises DamagedFileError."""
    return [require_struct(path, TrialRecord) for path in _files(folder)]


def readable_records(folder: JobFolder) -> list[TrialRecord]:
    """The trials of a study whose records are not damaged, by number."""
    records = []
    for path in _files(folder):
        with suppress(DamagedFileError):
            records.append(require_struct(path, TrialRecord))
    return records


def trial_logs(folder: JobFolder) -> list[ChildLogs]:
    """The logs of a study's trials; none for any other job."""
    if not _folder(folder).is_dir():
        return []
    jobs = {str(record.id): record.job.rpartition("/")[2] for record in readable_records(folder)}
    return [
        ChildLogs(folder=folder.path.with_name(job) / folder.logs.name, key=trial, trial_id=trial)
        for trial, job in jobs.items()
    ]


def write_record(folder: JobFolder, record: TrialRecord) -> None:
    """Keep a trial. Raises OSError."""
    _folder(folder).mkdir(mode=0o700, exist_ok=True)
    write_struct(_folder(folder) / f"{record.id}.json", record)


def remembered(measurements: list[Measurement]) -> list[Measurement]:
    """The measurements of a running trial, without those between the first ones and the very last one."""
    if len(measurements) <= MOST_MEASURED:
        return measurements
    return [*measurements[: MOST_MEASURED - 1], measurements[-1]]


def kept(measurements: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """The measurements of a trial that its record holds: the last ones, and some of the earlier ones."""
    earlier, last = measurements[:-RECENT], measurements[-RECENT:]
    return (*thinned(earlier, MOST_KEPT - RECENT), *last)


def _files(folder: JobFolder) -> list[Path]:
    numbers = (int(path.stem) for path in _folder(folder).glob("*.json") if path.stem.isdecimal())
    return [_folder(folder) / f"{number}.json" for number in sorted(numbers)]


def _folder(folder: JobFolder) -> Path:
    return folder.path / TRIALS
