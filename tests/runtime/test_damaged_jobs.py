"""The files of a job, damaged before a supervisor takes it over: each ends in a verdict that names it."""

from __future__ import annotations

import os
import random
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from still_launcher import supervise

from vtrain.backends import PREPARE, SUPERVISE, BackendSettings
from vtrain.backends.docker.docker_launcher import DockerLauncher
from vtrain.backends.local import LocalBackend
from vtrain.backends.process.process_launcher import ProcessLauncher
from vtrain.backends.registry import open_backend
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob
from vtrain.runtime import job_error
from vtrain.runtime.folder import (
    UNREADABLE_EXIT,
    DamagedFileError,
    JobFolder,
    ReplicaExit,
    read_struct,
    write_struct,
)
from vtrain.runtime.gc.living import living_jobs
from vtrain.runtime.history import History
from vtrain.runtime.inheritance import drop_credentials
from vtrain.runtime.locks import hold_lock, lock_holder, still_holds
from vtrain.runtime.recovery import Restart
from vtrain.runtime.store import remove_folder
from vtrain.runtime.supervision import base
from vtrain.runtime.supervision.job_supervisor import JobSupervisor
from vtrain.testing.script import Script, script_job

PRIMARY = "workerpool0-0"


class Submitted:
    """A job that no supervisor has yet, nor ever gets but from here."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = home
        self.backend = open_backend(
            "process", BackendSettings(home=home, project="local", region="us-central1")
        )
        monkeypatch.setattr(
            LocalBackend, "_spawn_supervisor", lambda _, folder, lock: self._remember(folder, lock)
        )
        self.name = self.backend.submit(self.backend.plan(script_job(Script().hang()))).name

    def _remember(self, folder: JobFolder, lock: int) -> None:
        self.folder, self.lock = folder, lock

    def supervise(self, launcher: ProcessLauncher | None = None) -> CustomJob:
        supervise(self.folder.path, launcher or Sleeping(), self.lock)
        return self.backend.get(self.name)


class Sleeping(ProcessLauncher):
    """Its replicas run until they are asked to end, and are no processes."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped: list[tuple[str, int]] = []
        self.living: set[tuple[str, int]] = set()

    def start(self, replica) -> None:  # type: ignore[no-untyped-def]
        self.living.add((replica.name, replica.attempt))
        (replica.path / "started.json").write_text("{}")

    def lives(self, replica) -> bool:  # type: ignore[no-untyped-def]
        return (replica.name, replica.attempt) in self.living

    def stop(self, replica) -> None:  # type: ignore[no-untyped-def]
        self.living.discard((replica.name, replica.attempt))
        self.stopped.append((replica.name, replica.attempt))

    kill = stop


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submitted:
    return Submitted(tmp_path / "home", monkeypatch)


def garbage(path: Path) -> None:
    path.write_bytes(random.Random(5).randbytes(100_000))


def deep(path: Path) -> None:
    path.write_bytes(b"[" * 100_000)


def of_another_kind(path: Path) -> None:
    path.write_bytes(b'"text"')


def empty(path: Path) -> None:
    path.write_bytes(b"")


def folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def link(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(path.name)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**34)


DAMAGES = [garbage, deep, of_another_kind, empty, folder, fifo, link, sparse]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_no_value(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    path = tmp_path / "exit.json"
    damage(path)
    with pytest.raises(DamagedFileError, match=r"exit\.json is damaged"):
        read_struct(path, ReplicaExit)


def test_a_file_that_is_missing_is_no_damage(tmp_path: Path) -> None:
    assert read_struct(tmp_path / "exit.json", ReplicaExit) is None


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_history_ends_the_job_and_all_that_runs_of_it(
    submitted: Submitted, damage: Callable[[Path], None]
) -> None:
    """Nobody knows any more how often a replica was restarted; but the folders tell what may run."""
    launcher = Sleeping()
    launcher.living = {(PRIMARY, 2)}
    write_struct(submitted.folder.path / "replicas.json", [PRIMARY])
    (submitted.folder.replica(PRIMARY, 2).path).mkdir(parents=True)
    damage(submitted.folder.path / "history.json")
    job = submitted.supervise(launcher)
    assert job.state == states.FAILED
    assert job.error is not None
    assert job.error.message.endswith("is damaged: its history.json cannot be read.")
    assert (PRIMARY, 2) in launcher.stopped
    assert launcher.living == set()


def test_a_history_counts_attempts_beyond_a_byte() -> None:
    restart = Restart(time=0.0, cause=PRIMARY, replicas=(PRIMARY,), reason="x")
    assert History(restarts=(restart,) * 403).attempt(PRIMARY) == 403


@pytest.mark.parametrize("damage", [garbage, folder, empty])
def test_a_damaged_decision_is_made_again(submitted: Submitted, damage: Callable[[Path], None]) -> None:
    submitted.backend.cancel(submitted.name)
    damage(submitted.folder.path / "decision.json")
    assert submitted.supervise().state == states.CANCELLED
    assert b"CANCELLED" in (submitted.folder.path / "decision.json").read_bytes()


@pytest.mark.parametrize("damage", [garbage, folder, of_another_kind])
def test_a_damaged_list_of_replicas_is_made_again(
    submitted: Submitted, damage: Callable[[Path], None]
) -> None:
    damage(submitted.folder.path / "replicas.json")
    replica = submitted.folder.replica(PRIMARY)
    replica.path.mkdir(parents=True)
    write_struct(replica.path / "exit.json", ReplicaExit(code=0, started=1.0, ended=2.0))
    write_struct(replica.path / "spec.json", {})
    assert submitted.supervise().state == states.SUCCEEDED


@pytest.mark.parametrize("damage", [garbage, folder, fifo])
def test_a_damaged_exit_is_told(submitted: Submitted, damage: Callable[[Path], None]) -> None:
    """Once more is what the rules say of a replica that was lost; then nobody knows how it ended."""
    write_struct(submitted.folder.path / "replicas.json", [PRIMARY])
    launcher = Sleeping()

    def start(replica) -> None:  # type: ignore[no-untyped-def]
        damage(replica.path / "exit.json")

    launcher.start = start  # type: ignore[method-assign]
    first = submitted.folder.replica(PRIMARY)
    first.path.mkdir(parents=True)
    (first.path / "spec.json").write_text(
        '{"argv": ["x"], "env": {}, "log": "/l", "wake": "/w", "grace_seconds": 1}'
    )
    job = submitted.supervise(launcher)
    assert job.state == states.FAILED
    assert job.error is not None
    assert "exit code of the replica workerpool0-0 is not known: " in job.error.message
    assert job.error.message.endswith("exit.json is damaged.")
    assert first.exit() is not None
    assert first.exit().interruption == UNREADABLE_EXIT  # type: ignore[union-attr]


@pytest.mark.parametrize("damage", [garbage, folder])
def test_a_damaged_order_of_a_replica_ends_the_job(
    submitted: Submitted, damage: Callable[[Path], None]
) -> None:
    """It is read again when the replica begins once more."""
    replica = submitted.folder.replica(PRIMARY)
    launcher = Sleeping()

    def start(_) -> None:  # type: ignore[no-untyped-def]
        lost = ReplicaExit(code=255, started=1.0, ended=2.0, interruption="x")
        write_struct(replica.path / "exit.json", lost)
        damage(replica.path / "spec.json")

    launcher.start = start  # type: ignore[method-assign]
    job = submitted.supervise(launcher)
    assert job.state == states.FAILED
    assert job.error is not None
    assert job.error.message.endswith(f"is damaged: its replicas/{PRIMARY}/spec.json cannot be read.")


def test_containers_without_an_order_are_left_to_the_end_of_the_job(submitted: Submitted) -> None:
    replica = submitted.folder.replica(PRIMARY)
    replica.path.mkdir(parents=True)
    garbage(replica.path / "spec.json")
    launcher = DockerLauncher()
    launcher.stop(replica)
    launcher.kill([replica])
    with pytest.raises(DamagedFileError):
        launcher.start(replica)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_job_whose_order_is_damaged_ends_at_the_next_look(
    submitted: Submitted, damage: Callable[[Path], None]
) -> None:
    os.close(submitted.lock)
    os.utime(submitted.folder.lock, (0, 0))
    damage(submitted.folder.path / "spec.json")
    submitted.backend.get(submitted.name)
    job = submitted.backend.get(submitted.name)
    assert job.state == states.FAILED
    assert job.error is not None
    assert job.error.message.endswith("its spec.json cannot be read.")
    submitted.backend.delete(submitted.name)
    assert not submitted.folder.path.exists()


@pytest.mark.parametrize("damage", [empty, folder, link, Path.unlink])
def test_a_supervisor_makes_the_file_anew_by_which_it_is_woken(
    submitted: Submitted, damage: Callable[[Path], None]
) -> None:
    damage(submitted.folder.wake_fifo) if damage is not empty else None
    if damage is empty:
        submitted.folder.wake_fifo.unlink()
        submitted.folder.wake_fifo.write_bytes(b"no FIFO")
        assert not submitted.folder.wake()
    wakeup = base.Wakeup(submitted.folder.wake_fifo)
    assert submitted.folder.wake_fifo.is_fifo()
    assert submitted.folder.wake()
    wakeup.wait(60.0)


def test_a_lock_that_was_removed_is_taken_again(submitted: Submitted) -> None:
    submitted.folder.lock.unlink()
    assert still_holds(submitted.lock, submitted.folder.lock)
    assert hold_lock(submitted.folder.lock) is None
    submitted.folder.lock.unlink()
    submitted.folder.lock.mkdir()
    assert still_holds(submitted.lock, submitted.folder.lock)
    assert hold_lock(submitted.folder.lock) is None


def test_of_two_supervisors_the_one_without_the_lock_leaves(submitted: Submitted) -> None:
    submitted.folder.lock.unlink()
    other = hold_lock(submitted.folder.lock)
    assert other is not None
    supervise(submitted.folder.path, Sleeping(), submitted.lock)
    assert submitted.backend.get(submitted.name).state == states.PENDING
    assert not (submitted.folder.path / "decision.json").exists()
    submitted.backend.cancel(submitted.name)
    supervise(submitted.folder.path, Sleeping(), other)
    assert submitted.backend.get(submitted.name).state == states.CANCELLED


@pytest.mark.parametrize("text", [b"", b"-5", b"x", b"\xff" * 40, b"99999999999", str(os.getppid()).encode()])
def test_a_number_in_a_lock_that_is_not_its_holders_is_not_signalled(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "replica" / "lock"
    path.parent.mkdir()
    lock = hold_lock(path)
    assert lock is not None
    path.write_bytes(text)
    assert lock_holder(path) == -1
    os.close(lock)
    assert lock_holder(path) == 0


@pytest.mark.child
def test_a_damaged_log_of_a_process_does_not_keep_it_from_starting(tmp_path: Path) -> None:
    from vtrain.runtime.spawning import spawn_holding

    (tmp_path / "shim.log").mkdir()
    lock = hold_lock(tmp_path / "lock")
    assert lock is not None
    child = spawn_holding(lock, ["/bin/true"], dict(os.environ), tmp_path / "shim.log")
    assert os.waitpid(child, 0)[1] == 0
    assert (tmp_path / "shim.log").is_file()


def test_credentials_in_whose_place_a_folder_stands_do_not_keep_the_job_from_ending(
    submitted: Submitted,
) -> None:
    (submitted.folder.path / "credentials.json").mkdir()
    drop_credentials(submitted.folder)
    assert not (submitted.folder.path / "credentials.json").exists()


@pytest.mark.parametrize("damage", [of_another_kind, link])
def test_a_job_folder_that_is_none_can_be_removed(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    path = tmp_path / "1234"
    damage(path)
    remove_folder(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text", [b"[]", b"5", b'{"config": "x", "env": []}', b'{"config": {"Image": 5}, "env": {"PATH": 5}}']
)
def test_gc_reads_orders_that_are_none(submitted: Submitted, text: bytes) -> None:
    replica = submitted.folder.replica(PRIMARY)
    replica.path.mkdir(parents=True)
    (replica.path / "spec.json").write_bytes(text)
    assert living_jobs(submitted.home).ids == {submitted.folder.path.name}
    fifo(replica.path / "spec.json")
    assert living_jobs(submitted.home).images <= {""}


def test_a_supervisor_can_be_made_whatever_its_files_are(submitted: Submitted) -> None:
    """Who starts it takes its death for no reason to start it once more, for ever."""
    for name in ("history.json", "decision.json", "replicas.json", "wake"):
        folder(submitted.folder.path / name)
    for suffix in (".log", ".idx"):
        folder(submitted.folder.logs / f"service.0{suffix}")
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    assert isinstance(submitted.backend, LocalBackend)
    store = submitted.backend._open_store()
    supervisor = JobSupervisor(
        submitted.folder, store, submitted.lock, SUPERVISE, launcher=Sleeping(), prepare=PREPARE
    )
    supervisor.run()
    assert submitted.backend.get(submitted.name).state == states.FAILED


FILES = ("spec.json", "history.json", "decision.json", "replicas.json")
OLD, NEW = {"which": "old"}, {"which": "new", "more": "x" * 100_000}


def in_a_child(act: Callable[[], None]) -> int:
    """The exit code of a child that does this; 1 where it raises."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.child
@pytest.mark.parametrize(
    "name", [*FILES, f"replicas/{PRIMARY}/exit.json", f"replicas/{PRIMARY}/restarts/1/spec.json"]
)
@pytest.mark.parametrize("before", [None, OLD])
def test_a_crash_between_write_and_rename_leaves_the_old_file_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, before: dict[str, str] | None
) -> None:
    path = tmp_path / "jobs" / "1" / name
    path.parent.mkdir(parents=True)
    if before is not None:
        write_struct(path, before)
    with monkeypatch.context() as context:
        context.setattr(os, "replace", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        assert in_a_child(lambda: write_struct(path, NEW)) == -signal.SIGKILL
    assert len(list(path.parent.iterdir())) == (1 if before is None else 2)
    JobFolder(tmp_path / "jobs" / "1").clear_unpublished()
    assert read_struct(path, dict) == before
    assert list(path.parent.iterdir()) == ([] if before is None else [path])


@pytest.mark.child
@pytest.mark.parametrize("name", FILES)
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, name: str) -> None:
    write_struct(tmp_path / name, OLD)

    def write_on() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        with pytest.raises(OSError, match="File too large"):
            write_struct(tmp_path / name, NEW)

    assert in_a_child(write_on) == 0
    assert read_struct(tmp_path / name, dict) == OLD
    assert list(tmp_path.iterdir()) == [tmp_path / name]


def test_a_removed_folder_is_told_as_removed_and_names_no_log_that_is_gone(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "jobs" / "1")
    gone = job_error.file_damaged(folder, folder.path / "spec.json")
    assert "was removed before the job had ended" in gone.message
    folder.path.mkdir(parents=True)
    damaged = job_error.file_damaged(folder, folder.path / "spec.json")
    assert "is damaged" in damaged.message and "log" not in damaged.details[0]["metadata"]
    folder.logs.mkdir()
    folder.log("service").touch()
    told = job_error.file_damaged(folder, folder.path / "spec.json")
    assert told.details[0]["metadata"]["log"] == str(folder.log("service"))


def test_a_machine_that_lost_its_power_while_replicas_were_ordered_leaves_no_temporary_folder(
    submitted: Submitted,
) -> None:
    replica = submitted.folder.replica(PRIMARY)
    replica.order(submitted.folder.order())  # and `replicas.json` was not written any more
    (replica.tmp / "begun").touch()
    moved = msgspec.structs.replace(submitted.folder.order(), boot_id="another")
    write_struct(submitted.folder.path / "spec.json", moved)
    assert submitted.supervise().state == states.FAILED
    assert not replica.tmp.exists()
