"""The trials of a study, whenever its supervisor is killed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest

from vtrain.messages.custom_job import CustomJob
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.names import CUSTOM_JOBS
from vtrain.runtime import supervisor_process
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.log.service_log import ServiceLog
from vtrain.runtime.store import Store
from vtrain.runtime.supervisor_process import start_supervisor
from vtrain.runtime.tuning.study_supervisor import TrialJobs
from vtrain.runtime.tuning.trial_record import (
    REQUESTED,
    STOPPING,
    TrialRecord,
    readable_records,
    write_record,
)

pytestmark = pytest.mark.child

PLACE = "projects/local/locations/us-central1"
PARENT = f"{PLACE}/hyperparameterTuningJobs"
TRIAL = "9" * 19


def begin_study(folder: JobFolder, home: Path) -> None:
    order = JobOrder(
        home=str(home),
        name=f"{PARENT}/{folder.path.name}",
        job=CustomJob(),
        backend="process",
        grace_seconds=1,
    )
    folder.make(order)


@contextmanager
def trials_of(folder: JobFolder, home: Path) -> Iterator[TrialJobs]:
    store = Store.open(home)
    start = partial(start_supervisor, home / "nothing.py")  # it ends at once
    yield TrialJobs(folder, store, start, ServiceLog(folder), HyperparameterTuningJob())
    store.close()


def load_trials(folder: JobFolder, home: Path, earlier: str) -> None:
    with trials_of(folder, home) as trials:
        trials.load(f"{PARENT}/{earlier}")


def killed_at(work: Callable[[], None], is_last: Callable[[str, tuple[object, ...]], bool]) -> None:
    """Do it in a process that is killed at the first event of the interpreter that is the last."""
    child = os.fork()
    if child == 0:

        def kill_at_last(event: str, args: tuple[object, ...]) -> None:
            if is_last(event, args):
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(kill_at_last)
        try:
            work()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def after_writes(writes: int) -> Callable[[str, tuple[object, ...]], bool]:
    """The publication of one more file than `writes`."""
    left = writes

    def is_last(event: str, args: tuple[object, ...]) -> bool:
        nonlocal left
        if event == "os.rename" and str(args[1]).endswith(".json"):
            left -= 1
        return left < 0

    return is_last


@pytest.mark.parametrize("writes", range(4))
def test_all_trials_of_an_earlier_study_are_taken_over(tmp_path: Path, writes: int) -> None:
    earlier, later = (JobFolder(tmp_path / "jobs" / number) for number in ("1" * 19, "2" * 19))
    begin_study(earlier, tmp_path)
    begin_study(later, tmp_path)
    for number in (1, 2, 3):
        record = TrialRecord(id=number, parameters={"n": float(number)}, job=f"j{number}", state="SUCCEEDED")
        write_record(earlier, record)
    killed_at(lambda: load_trials(later, tmp_path, "1" * 19), after_writes(writes))
    load_trials(later, tmp_path, "1" * 19)
    assert [(one.id, one.job) for one in readable_records(later)] == [(1, "j1"), (2, "j2"), (3, "j3")]


@pytest.fixture
def study(tmp_path: Path) -> JobFolder:
    """A study whose trials have supervisors that end at once."""
    folder = JobFolder(tmp_path / "jobs" / ("1" * 19))
    begin_study(folder, tmp_path)
    (tmp_path / "nothing.py").touch()
    return folder


def half_begin(study: JobFolder, home: Path, event: str, ending: str) -> None:
    """Begin a trial in a process that is killed at that event of the interpreter."""

    def begin() -> None:
        with trials_of(study, home) as trials:
            trials.begin({"n": 1.0})

    killed_at(begin, lambda seen, args: seen == event and any(str(arg).endswith(ending) for arg in args))


@pytest.mark.parametrize(
    ("event", "ending"),
    [
        ("os.mkdir", TRIAL),
        ("os.mkdir", "/logs"),
        ("os.rename", f"{TRIAL}/spec.json"),
        ("open", f"{TRIAL}/lock"),
        ("os.posix_spawn", ""),
    ],
)
def test_a_trial_that_was_half_submitted_is_submitted_once(
    study: JobFolder, tmp_path: Path, event: str, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL to the study's supervisor before it makes a part of the trial's folder, and after the last."""
    with monkeypatch.context() as context:
        context.setattr(supervisor_process, "random_job_id", lambda: TRIAL)
        half_begin(study, tmp_path, event, ending)
    (half,) = readable_records(study)
    assert half.job.endswith(TRIAL)
    with trials_of(study, tmp_path) as trials:
        trials.load()
        trials.look()
    (record,) = readable_records(study)
    assert (record.id, record.parameters, record.state) == (1, half.parameters, REQUESTED)
    names = {record.job.rpartition("/")[2]}
    assert Store.open(tmp_path).ids(CUSTOM_JOBS) == names
    assert {path.name for path in (tmp_path / "jobs").iterdir()} == {study.path.name, *names}


def test_a_trial_that_the_store_has_lost_keeps_its_folder(study: JobFolder, tmp_path: Path) -> None:
    """As after an older copy of the store was put back: the trial may run."""
    with trials_of(study, tmp_path) as trials:
        trials.begin({"n": 1.0})
        (lost,) = readable_records(study)
        Store.open(tmp_path).delete(lost.job)
        trials.look()
    (record,) = readable_records(study)
    assert record.job != lost.job
    folders = {path.name for path in (tmp_path / "jobs").iterdir()}
    assert {one.job.rpartition("/")[2] for one in (lost, record)} < folders


def test_a_decision_to_stop_a_trial_survives_the_supervisor(study: JobFolder, tmp_path: Path) -> None:
    """It is killed after it has written the decision, and before it has asked for the end."""
    with trials_of(study, tmp_path) as trials:
        trials.begin({"n": 1.0})
    (record,) = readable_records(study)
    write_record(study, msgspec.structs.replace(record, state=STOPPING))
    store = Store.open(tmp_path)
    for _ in range(2):
        with trials_of(study, tmp_path) as trials:
            trials.load()
            trials.look()
        assert store.requests(record.job) == {"cancel"}
    assert study.log("service").read_text().count("Trial 1 is stopped early") == 1
