"""Decisions about a job's replicas survive the supervisor that made them: real files, a second supervisor."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import pytest
from still_launcher import Death, StillLauncher, end, order_of, supervise

from vtrain.backends import BackendSettings
from vtrain.backends.local import LocalBackend
from vtrain.backends.registry import open_backend
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob, Scheduling
from vtrain.privacy import make_private
from vtrain.runtime import attempts as attempts_module
from vtrain.runtime.attempts import Attempts
from vtrain.runtime.folder import FOLDER_REMOVED, LOST, JobFolder, ReplicaExit, ReplicaFolder, write_struct
from vtrain.runtime.history import History, Preempted, read_history, write_history
from vtrain.runtime.job_order import SimulatedPreemption
from vtrain.runtime.locks import hold_lock
from vtrain.runtime.process.process_tree import boot_id, boot_seconds
from vtrain.runtime.recovery import Action, Cause
from vtrain.testing.script import Script, script_job

PRIMARY, WORKER = NAMES = ("workerpool0-0", "workerpool1-0")


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    """A job's folder with two replicas that were ordered."""
    folder = JobFolder(tmp_path / "jobs" / "1")
    make_private(folder.logs)
    for name in NAMES:
        folder.replica(name).order(order_of(folder.replica(name)))
    return folder


def opened(folder: JobFolder, launcher: StillLauncher | None = None) -> Attempts:
    """The job's attempts, as the next supervisor knows them."""
    return Attempts(folder, launcher or StillLauncher(), NAMES, 0.0)


def test_a_restart_is_known_to_the_next_supervisor(folder: JobFolder) -> None:
    first = opened(folder)
    first.keep_started()
    end(folder.replica(WORKER), 255, interruption=LOST)
    (ended,) = first.ended()
    assert first.action(ended, None) is Action.RESTART_REPLICA
    first.restart(ended, Action.RESTART_REPLICA)
    launcher = StillLauncher()
    second = opened(folder, launcher)
    second.keep_started()
    assert launcher.started == [(PRIMARY, 0), (WORKER, 1)]
    assert second.current() == (folder.replica(PRIMARY), folder.replica(WORKER, 1))
    assert second.all() == (folder.replica(PRIMARY), folder.replica(WORKER), folder.replica(WORKER, 1))
    (restart,) = second.history.restarts
    assert (restart.cause, restart.replicas, restart.reason, restart.is_retry) == (
        WORKER,
        (WORKER,),
        LOST,
        False,
    )
    assert abs(restart.time - time.time()) < 600


@pytest.mark.parametrize(("action", "is_retry"), [(Action.RESTART_ALL, False), (Action.RETRY_JOB, True)])
def test_a_restart_of_all_replicas_is_known_to_the_next(
    folder: JobFolder, action: Action, is_retry: bool
) -> None:
    first = opened(folder)
    first.keep_started()
    end(folder.replica(WORKER), 139)
    first.restart(first.ended()[0], action)
    second = opened(folder)
    assert second.current() == (folder.replica(PRIMARY, 1), folder.replica(WORKER, 1))
    assert second.history.restarts[0].is_retry is is_retry


def test_restarts_of_earlier_supervisors_count(folder: JobFolder) -> None:
    """Else each supervisor would give a replica its restarts anew."""
    for number in range(5):
        attempts = opened(folder)
        attempts.keep_started()
        end(folder.replica(WORKER, number), 255, interruption=LOST)
        (ended,) = attempts.ended()
        assert attempts.action(ended, None) is Action.RESTART_REPLICA
        attempts.restart(ended, Action.RESTART_REPLICA)
    last = opened(folder)
    last.keep_started()
    end(folder.replica(WORKER, 5), 255, interruption=LOST)
    assert last.action(last.ended()[0], None) is Action.RETRY_JOB


def test_the_attempt_before_has_to_end_first(folder: JobFolder) -> None:
    launcher = StillLauncher()
    first = opened(folder, launcher)
    first.keep_started()
    end(folder.replica(WORKER), 139)
    first.restart(first.ended()[0], Action.RETRY_JOB)
    first.keep_started()
    assert launcher.started == [(PRIMARY, 0), (WORKER, 0), (WORKER, 1)], "the primary still runs"
    assert launcher.stopped == [(PRIMARY, 0)]
    assert first.is_changing()
    end(folder.replica(PRIMARY), 143)
    first.keep_started()
    assert launcher.started[-1] == (PRIMARY, 1)
    assert not first.is_changing()


def test_one_that_does_not_end_is_made_to(folder: JobFolder) -> None:
    launcher = StillLauncher()
    first = opened(folder, launcher)
    first.keep_started()
    end(folder.replica(WORKER), 139)
    first.restart(first.ended()[0], Action.RETRY_JOB)
    first._patience = 0.0
    first.keep_started()
    assert launcher.killed == [(PRIMARY, 0)]
    told = folder.replica(PRIMARY).exit()
    assert told is not None
    assert (told.code, told.interruption) == (255, LOST)
    assert (PRIMARY, 1) in launcher.started


def test_a_preempted_replica_is_known_to_the_next_supervisor(folder: JobFolder) -> None:
    first = opened(folder)
    assert not first.preempt(WORKER), "it does not run yet"
    first.keep_started()
    assert first.preempt(WORKER)
    launcher = StillLauncher()
    launcher.living = {folder.replica(PRIMARY), folder.replica(WORKER)}
    second = opened(folder, launcher)
    second.stop_preempted()
    assert launcher.stopped == [(WORKER, 0)]
    preempted = second.history.preempted
    assert preempted is not None
    end(folder.replica(WORKER), 143, ended=preempted.time + 3)
    second.stop_preempted()
    assert launcher.stopped == [(WORKER, 0)], "it has ended"
    (ended,) = second.ended()
    assert (ended.cause, ended.reason) == (Cause.PREEMPTED, "its machine was preempted (simulated)")
    assert ended.reported_exit.interruption == ended.reason
    assert not second.preempt(WORKER)


def preempted_at(folder: JobFolder, moment: float) -> Attempts:
    write_history(folder, History(preempted=Preempted(replica=WORKER, attempt=0, time=moment)))
    attempts = opened(folder)
    attempts.keep_started()
    return attempts


def test_what_follows_a_preemption_counts_after_it(folder: JobFolder) -> None:
    """A peer fails the moment that its partner is gone, and before that one has saved its work."""
    attempts = preempted_at(folder, 10.0)
    end(folder.replica(PRIMARY), 1, ended=11.0)
    end(folder.replica(WORKER), 0, ended=15.0)
    assert [(ended.attempt.name, ended.cause) for ended in attempts.ended()] == [
        (WORKER, Cause.PREEMPTED),
        (PRIMARY, Cause.PERMANENT),
    ]


def test_what_came_before_a_preemption_counts_before_it(folder: JobFolder) -> None:
    attempts = preempted_at(folder, 10.0)
    end(folder.replica(PRIMARY), 1, ended=9.0)
    end(folder.replica(WORKER), 143, ended=12.0)
    assert [ended.attempt.name for ended in attempts.ended()] == [PRIMARY, WORKER]


@pytest.mark.parametrize(("ended", "cause"), [(9.9, Cause.PERMANENT), (10.0, Cause.PREEMPTED)])
def test_an_end_in_the_instant_before_is_no_preemption(folder: JobFolder, ended: float, cause: Cause) -> None:
    attempts = preempted_at(folder, 10.0)
    end(folder.replica(WORKER), 1, ended=ended)
    assert [found.cause for found in attempts.ended()] == [cause]


def test_a_later_attempt_has_not_lost_its_machine(folder: JobFolder) -> None:
    attempts = preempted_at(folder, 10.0)
    end(folder.replica(WORKER), 143, ended=12.0)
    attempts.restart(attempts.ended()[0], Action.RESTART_REPLICA)
    attempts.keep_started()
    end(folder.replica(WORKER, 1), 1, ended=20.0)
    assert [found.cause for found in attempts.ended()] == [Cause.PERMANENT]


@pytest.mark.parametrize(("ended", "first"), [(9.0, True), (10.0, False), (11.0, False)])
def test_no_end_is_first_that_came_after_a_preemption(folder: JobFolder, ended: float, first: bool) -> None:
    attempts = preempted_at(folder, 10.0)
    end(folder.replica(PRIMARY), 1, ended=ended)
    (found,) = attempts.ended()
    assert attempts.is_first(found) is first


def test_looking_back_learns_how_attempts_ended(folder: JobFolder) -> None:
    """After the machine was started anew: a container's engine knows it, once it is asked."""

    def tell(launcher: StillLauncher, replica: ReplicaFolder) -> None:
        end(replica, 7)

    launcher = StillLauncher(on_stop=tell)
    launcher.living = {folder.replica(WORKER)}
    attempts = opened(folder, launcher)
    attempts.look_back()
    assert launcher.stopped == [(WORKER, 0)]
    assert [ended.exit.code for ended in attempts.ended()] == [7]


def test_looking_back_ends_where_nobody_answers(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = StillLauncher()
    launcher.living = {folder.replica(WORKER)}
    monkeypatch.setattr(attempts_module, "KILL_MARGIN_SECONDS", 0.05)
    attempts = opened(folder, launcher)
    attempts.look_back()
    assert set(launcher.stopped) == {(WORKER, 0)}
    assert attempts.ended() == []


def test_looking_back_asks_nobody_who_has_told_his_end(folder: JobFolder) -> None:
    launcher = StillLauncher()
    end(folder.replica(WORKER), 0)
    attempts = opened(folder, launcher)
    attempts.look_back()
    assert launcher.stopped == []


def test_an_early_report_stands_for_an_attempt_whose_shim_was_killed(folder: JobFolder) -> None:
    launcher = StillLauncher()
    attempts = opened(folder, launcher)
    attempts.keep_started()
    worker = folder.replica(WORKER)
    write_struct(
        worker.path / "exited.json", ReplicaExit(code=0, started=1.0, ended=2.0, peak_memory_bytes=5)
    )
    for name in ("exit.json.tmp", "started.json.tmp"):
        (worker.path / name).write_bytes(b" " * 10)
    launcher.living.clear()
    found = {ended.attempt.name: ended for ended in attempts.ended()}
    assert (found[WORKER].cause, found[WORKER].exit.peak_memory_bytes) == (Cause.DONE, 5)
    assert found[PRIMARY].cause is Cause.OUTSIDE
    assert not list(worker.path.glob("*.tmp")) and [*worker.path.glob("exit*")] == [worker.path / "exit.json"]


def test_a_replica_that_ends_while_it_is_looked_at_is_not_killed(folder: JobFolder) -> None:
    class Leaving(StillLauncher):
        def lives(self, replica: ReplicaFolder) -> bool:
            end(replica, 0)  # as a shim does before it lets its lock go
            return False

    launcher = Leaving()
    attempts = opened(folder, launcher)
    attempts.keep_started()
    assert [ended.cause for ended in attempts.ended()] == [Cause.DONE, Cause.DONE]
    assert launcher.killed == []


@pytest.mark.parametrize(
    ("content", "is_known"),
    [(b'{"pid": 7, "time": 1000.5}', True), (b"{}", False), (b"{", False), (b'{"time": 99999999999}', False)],
)
def test_a_lost_attempt_began_when_its_program_did(folder: JobFolder, content: bytes, is_known: bool) -> None:
    launcher = StillLauncher()
    attempts = opened(folder, launcher)
    attempts.keep_started()
    (folder.replica(WORKER).path / "started.json").write_bytes(content)
    launcher.living.clear()
    ends = {ended.attempt.name: ended.exit for ended in attempts.ended()}
    assert (ends[WORKER].started == 1000.5) is is_known
    assert ends[WORKER].started <= ends[WORKER].ended


def test_a_torn_early_report_is_none(folder: JobFolder) -> None:
    launcher = StillLauncher()
    attempts = opened(folder, launcher)
    attempts.keep_started()
    (folder.replica(WORKER).path / "exited.json").write_bytes(b'{"code": 0, ' + b" " * 40)
    launcher.living.clear()
    assert {ended.cause for ended in attempts.ended()} == {Cause.OUTSIDE}


class Unsure(StillLauncher):
    """Takes a replica without an exit for one that lives, as for a container that nobody watches."""

    def lives(self, replica: ReplicaFolder) -> bool:
        return replica.exit() is None


@pytest.mark.parametrize("kind", [StillLauncher, Unsure])
def test_a_replica_without_its_order_does_not_begin_again(
    folder: JobFolder, kind: type[StillLauncher]
) -> None:
    launcher = kind()
    attempts = opened(folder, launcher)
    (folder.replica(WORKER).path / "spec.json").unlink()
    attempts.keep_started()
    assert launcher.started == [(PRIMARY, 0)]
    (ended,) = attempts.ended()
    assert (ended.cause, ended.reason) == (Cause.OUTSIDE, FOLDER_REMOVED)
    assert attempts.action(ended, None) is Action.FAIL


class Bench:
    """A submitted job of two replicas, and supervisors that die whenever the test wants."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch, **options: object) -> None:
        monkeypatch.setattr("vtrain.runtime.supervision.job_supervisor.POLL_SECONDS", 0.02)
        settings = BackendSettings(home=home, project="local", region="us-central1")
        self.backend = open_backend(
            "process", msgspec.structs.replace(settings, preemption=options.get("preemption"))
        )
        scheduling = options.get("scheduling")
        with monkeypatch.context() as context:
            context.setattr(
                LocalBackend, "_spawn_supervisor", lambda _, folder, lock: self.keep(folder, lock)
            )
            job = script_job(Script(), Script())
            spec = msgspec.structs.replace(job.job_spec, scheduling=scheduling)
            plan = self.backend.plan(msgspec.structs.replace(job, job_spec=spec))
            self.name = self.backend.submit(plan).name
        monkeypatch.setattr(LocalBackend, "_spawn_supervisor", lambda _, folder, lock: os.close(lock))

    def keep(self, folder: JobFolder, lock: int) -> None:
        os.close(lock)
        self.folder = folder

    def supervise(self, launcher: StillLauncher) -> CustomJob | None:
        """The ended job; None where the supervisor has died before that."""
        lock = hold_lock(self.folder.lock)
        assert lock is not None
        try:
            supervise(self.folder.path, launcher, lock)
        except Death:
            os.close(lock)
            return None
        return self.backend.get(self.name)

    def reboot(self) -> None:
        order = msgspec.structs.replace(self.folder.order(), boot_id="another")
        write_struct(self.folder.path / "spec.json", order)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path / "home", monkeypatch)


def test_the_timeout_counts_from_the_first_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Bench(tmp_path / "home", monkeypatch, scheduling=Scheduling(timeout="600s"))
    before = boot_seconds()
    assert watched.supervise(StillLauncher(patience=6)) is None
    since = read_history(watched.folder).running_since
    assert before <= since <= boot_seconds()
    assert watched.supervise(StillLauncher(patience=6)) is None
    assert read_history(watched.folder).running_since == since, "a second supervisor is no second start"
    write_history(watched.folder, History(running_since=boot_seconds() - 601))
    stopping = StillLauncher(patience=50, on_stop=lambda _, replica: end(replica, 143))
    job = watched.supervise(stopping)
    assert job is not None
    assert job.error is not None
    assert (job.state, job.error.details[0]["reason"]) == (states.CANCELLED, "TIMEOUT")


def test_a_first_start_that_was_noted_stays_the_first(watched: Bench) -> None:
    """A supervisor may die after it has noted that, and before it has changed the job's state."""
    write_history(watched.folder, History(running_since=7.0))
    assert watched.supervise(StillLauncher(patience=6)) is None
    assert watched.backend.get(watched.name).state == states.RUNNING
    assert read_history(watched.folder).running_since == 7.0


def test_a_job_is_preempted_once_over_all_supervisors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = SimulatedPreemption(after_seconds=0.0, replica=WORKER)
    watched = Bench(tmp_path / "home", monkeypatch, preemption=once)

    def leave(launcher: StillLauncher, replica: ReplicaFolder) -> None:
        end(replica, 143, ended=time.time() + 1)

    first = StillLauncher(on_stop=leave, last=(WORKER, 1))
    assert watched.supervise(first) is None
    assert first.stopped == [(WORKER, 0)]
    assert first.started == [(PRIMARY, 0), (WORKER, 0), (WORKER, 1)]
    second = StillLauncher(patience=12)
    assert watched.supervise(second) is None
    assert (second.stopped, (WORKER, 1) in second.started) == ([], True)
    end(watched.folder.replica(PRIMARY), 0)
    end(watched.folder.replica(WORKER, 1), 0)
    job = watched.supervise(StillLauncher())
    assert job is not None
    assert job.state == states.SUCCEEDED, job.error


@pytest.mark.parametrize(
    ("code", "fields", "state", "reason"),
    [
        (0, {}, states.SUCCEEDED, ""),
        (1, {}, states.FAILED, "REPLICA_FAILED"),
        (1, {"stopped": True}, states.FAILED, "REPLICA_FAILED"),
        (137, {"stopped": True}, states.FAILED, "MACHINE_RESTARTED"),
        (143, {"stopped": True}, states.FAILED, "MACHINE_RESTARTED"),
        (255, {"stopped": True}, states.FAILED, "MACHINE_RESTARTED"),
        (137, {"stopped": True, "oom": True}, states.FAILED, "OUT_OF_MEMORY"),
        (137, {}, states.FAILED, "REPLICA_FAILED"),
        (255, {"interruption": "the engine was stopped"}, states.FAILED, "MACHINE_RESTARTED"),
        (139, {}, states.FAILED, "MACHINE_RESTARTED"),
        (None, {}, states.FAILED, "MACHINE_RESTARTED"),
    ],
)
def test_what_is_known_after_the_machine_was_started_anew(
    watched: Bench, code: int | None, fields: dict[str, object], state: str, reason: str
) -> None:
    assert watched.supervise(StillLauncher(patience=6)) is None
    watched.reboot()
    assert boot_id() != "another"
    if code is not None:
        end(watched.folder.replica(PRIMARY), code, **fields)
    launcher = StillLauncher()
    job = watched.supervise(launcher)
    assert job is not None
    assert (job.state, job.error.details[0]["reason"] if job.error else "") == (state, reason)
    assert launcher.started == [], "nobody trains again because somebody looks"


def test_a_supervisor_looks_back_after_the_machine_was_started_anew(watched: Bench) -> None:
    assert watched.supervise(StillLauncher(patience=6)) is None
    watched.reboot()
    launcher = StillLauncher(on_stop=lambda _, replica: end(replica, 3))
    launcher.living = {watched.folder.replica(PRIMARY)}
    job = watched.supervise(launcher)
    assert job is not None
    assert job.error is not None
    assert job.error.details[0]["metadata"]["exitCode"] == "3"


def test_the_machine_has_ended_what_was_ended_from_outside_before_it_was_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Bench(tmp_path / "home", monkeypatch, scheduling=Scheduling(disable_retries=True))
    assert watched.supervise(StillLauncher(patience=6)) is None
    watched.reboot()
    end(watched.folder.replica(PRIMARY), 255, interruption="the engine was stopped")
    job = watched.supervise(StillLauncher())
    assert job is not None
    assert job.error is not None
    assert job.error.details[0]["reason"] == "MACHINE_RESTARTED"


def test_a_machine_that_started_anew_before_the_first_attempt(watched: Bench) -> None:
    watched.reboot()
    job = watched.supervise(StillLauncher())
    assert job is not None and job.error is not None
    assert job.error.details[0]["reason"] == "MACHINE_RESTARTED"
