"""Training pipelines on this machine: the data for a task, the job that it runs, the model that it leaves.

The record of a task is written before anything is done for it.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from vtrain.runtime.folder import DamagedFileError, JobFolder, read_struct
from vtrain.runtime.job_order import DataPart
from vtrain.runtime.log.log_reader import ChildLogs
from vtrain.runtime.tuning.trial_record import trial_logs

TASK_FILE = "task.json"
"""The record in the folder of a pipeline."""


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The job that runs the task, by its full name; `seen` says that it was there."""

    job: str
    data: DataPart | None = None
    seen: bool = False


def task_logs(folder: JobFolder) -> list[ChildLogs]:
    """The logs of a pipeline's task, and of its trials if it is a tuning job; none for any other job."""
    with suppress(DamagedFileError):
        record = read_struct(folder.path / TASK_FILE, TaskRecord)
        if record is not None:
            task = JobFolder(folder.path.with_name(record.job.rpartition("/")[2]))
            return [ChildLogs(folder=task.logs, key="task"), *trial_logs(task)]
    return []
