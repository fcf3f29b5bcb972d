"""The trials of a study, whenever its supervisor is killed."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from vtrain.messages.custom_job import CustomJob
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.service_log import ServiceLog
from vtrain.runtime.store import Store
from vtrain.runtime.tuning.trial_jobs import TrialJobs
from vtrain.runtime.tuning.trial_record import TrialRecord, readable_records, write_record

PARENT = "projects/local/locations/us-central1/hyperparameterTuningJobs"


def begin_study(folder: JobFolder, home: Path) -> None:
    order = JobOrder(
        home=str(home),
        name=f"{PARENT}/{folder.path.name}",
        job=CustomJob(),
        backend="process",
        base_env={},
        grace_seconds=1,
    )
    folder.make(order)


def load_trials(folder: JobFolder, home: Path, earlier: str) -> None:
    store = Store.open(home)
    TrialJobs(folder, store, ServiceLog(folder), HyperparameterTuningJob()).load(f"{PARENT}/{earlier}")
    store.close()


def load_until_killed(folder: JobFolder, home: Path, earlier: str, writes: int) -> None:
    """Load the trials in a process that is killed before it publishes one more file than `writes`."""
    child = os.fork()
    if child == 0:
        left = writes

        def kill_at_last(event: str, args: tuple[object, ...]) -> None:
            nonlocal left
            if event == "os.rename" and str(args[1]).endswith(".json"):
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(kill_at_last)
        load_trials(folder, home, earlier)
        os._exit(0)
    os.waitpid(child, 0)


@pytest.mark.parametrize("writes", range(4))
def test_all_trials_of_an_earlier_study_are_taken_over(tmp_path: Path, writes: int) -> None:
    earlier, later = (JobFolder(tmp_path / "jobs" / number) for number in ("1" * 19, "2" * 19))
    begin_study(earlier, tmp_path)
    begin_study(later, tmp_path)
    for number in (1, 2, 3):
        record = TrialRecord(id=number, parameters={"n": float(number)}, job=f"j{number}", state="SUCCEEDED")
        write_record(earlier, record)
    load_until_killed(later, tmp_path, "1" * 19, writes)
    load_trials(later, tmp_path, "1" * 19)
    assert [(one.id, one.job) for one in readable_records(later)] == [(1, "j1"), (2, "j2"), (3, "j3")]
