"""The supervisor with launchers of the test's own making, and its decisions."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import pytest
from still_launcher import supervise

import vtrain
from vtrain.backends import BackendSettings
from vtrain.backends.local import LocalBackend
from vtrain.backends.process.process_launcher import ProcessLauncher
from vtrain.backends.registry import open_backend
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob, EnvVar
from vtrain.messages.log import LogQuery
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.inheritance import COPY
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.locks import hold_lock
from vtrain.runtime.store import Store
from vtrain.testing.script import Script, script_job

pytestmark = pytest.mark.child

ROOT = str(Path(vtrain.__file__).parent.parent)


class Bench:
    """A job that is submitted, and supervised by this process."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = BackendSettings(home=home, project="local", region="us-central1")
        self.backend = open_backend("process", settings)
        with monkeypatch.context() as context:
            context.setattr(
                LocalBackend, "_spawn_supervisor", lambda _, folder, lock: self.remember(folder, lock)
            )
            job = script_job(Script().write("x\n"), env=[EnvVar(name="PYTHONPATH", value=ROOT)])
            self.name = self.backend.submit(self.backend.plan(job)).name

    def remember(self, folder: JobFolder, lock: int) -> None:
        self.folder, self.lock = folder, lock

    def supervise(self, launcher: ProcessLauncher | None = None) -> CustomJob:
        supervise(self.folder.path, launcher or ProcessLauncher(), self.lock)
        return self.backend.get(self.name)

    def lines(self, task: str = "service") -> list[str]:
        page = self.backend.logs(LogQuery(name=self.name, task_name=task))
        return [line for entry in page.entries for line in entry.message.split("\n")]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path / "home", monkeypatch)


def test_a_fault_of_the_engine_ends_the_job(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    class Broken(ProcessLauncher):
        def replica_orders(self, *_: object) -> dict[str, object]:  # type: ignore[override]
            raise KeyError("bug")

    job = bench.supervise(Broken())
    assert job.state == states.FAILED
    assert job.error is not None
    assert (job.error.code, job.error.details[0]["reason"]) == (13, "ENGINE_FAILED")
    assert "KeyError: 'bug'" in capfd.readouterr().err


def test_a_file_that_the_system_refuses_is_named(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    class Refused(ProcessLauncher):
        def replica_orders(self, *_: object) -> dict[str, object]:  # type: ignore[override]
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/some/file")

    job = bench.supervise(Refused())
    assert job.error is not None
    assert job.error.message == "vtrain could not go on with the job: Permission denied (/some/file)."


def test_a_full_disk_ends_the_supervisor_and_not_the_job(bench: Bench) -> None:
    class Full(ProcessLauncher):
        def replica_orders(self, *_: object) -> dict[str, object]:  # type: ignore[override]
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space"):
        supervise(bench.folder.path, Full(), bench.lock)
    os.close(bench.lock)
    lock = hold_lock(bench.folder.lock)
    assert lock is not None
    supervise(bench.folder.path, ProcessLauncher(), lock)
    assert bench.backend.get(bench.name).state == states.SUCCEEDED


def test_a_fault_in_the_clean_up_leaves_the_verdict_alone(
    bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    class Untidy(ProcessLauncher):
        def clear(self, order: JobOrder) -> str:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "/bucket/part-0001.tmp")

    assert bench.supervise(Untidy()).state == states.SUCCEEDED
    assert any("/bucket/part-0001.tmp" in line for line in bench.lines())
    assert "FileNotFoundError" in capfd.readouterr().err


def test_a_folder_in_the_place_of_the_credentials_leaves_the_verdict_alone(bench: Bench) -> None:
    (bench.folder.path / COPY).mkdir()  # as a trainer could, whose user is the caller
    assert bench.supervise().state == states.SUCCEEDED
    assert not (bench.folder.path / COPY).exists()


def test_an_ended_job_stays_ended(bench: Bench) -> None:
    first = bench.supervise()
    lock = hold_lock(bench.folder.lock)
    assert lock is not None
    supervise(bench.folder.path, ProcessLauncher(), lock)
    assert bench.backend.get(bench.name) == first


def test_a_decision_survives_the_supervisor(bench: Bench) -> None:
    decision = {"state": states.CANCELLED, "error": {"code": 1, "message": "CANCELED"}}
    (bench.folder.path / "decision.json").write_bytes(msgspec.json.encode(decision))
    job = bench.supervise()
    assert job.state == states.CANCELLED
    assert bench.lines() == ["Job cancelled."]


@pytest.mark.parametrize("verb", ["cancel", "kill"])
def test_an_end_that_is_asked_for_before_the_start_counts(bench: Bench, verb: str) -> None:
    Store.open(bench.folder.home).request(bench.name, verb)
    assert bench.supervise().state == states.CANCELLED


def test_the_log_is_whole_once_the_end_is_recorded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who follows a job reads no further then."""
    update, last = Store.update, []

    def noted(store: Store, name: str, **fields: str) -> None:
        update(store, name, **fields)
        last.append((fields["state"], bench.lines()[-1]))

    monkeypatch.setattr(Store, "update", noted)
    bench.supervise()
    assert last[-1] == (states.SUCCEEDED, "Job completed successfully.")


def test_a_lease_is_given_back_once_the_end_is_recorded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor may be killed between the two, and the next job must not begin before this one's end."""
    seen: list[str] = []
    monkeypatch.setattr(
        "vtrain.runtime.supervision.job_supervisor.release",
        lambda store, name: seen.append(store.get(name).state),
    )
    assert bench.supervise().state == states.SUCCEEDED
    assert seen == [states.SUCCEEDED]
