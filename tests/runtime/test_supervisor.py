"""The supervisor with launchers of the test's own making: preparation, its failure, its cancellation."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
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
from vtrain.retry import wait_until
from vtrain.runtime.environments.installer import run_logged
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.inheritance import COPY
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.launcher import Log, PrepareFailed, Runtime
from vtrain.runtime.locks import hold_lock
from vtrain.runtime.recovery import RESTARTS_PER_JOB
from vtrain.runtime.store import Store
from vtrain.testing.script import Script, script_job

ROOT = str(Path(vtrain.__file__).parent.parent)


class PreparingLauncher(ProcessLauncher):
    """Prepares in a way that the test decides."""

    def __init__(self, work: Callable[[Log], None]) -> None:
        super().__init__()
        self.work = work

    def needs_preparation(self, order: JobOrder) -> bool:
        return True

    def prepare(self, order: JobOrder, log: Log) -> tuple[Runtime, ...]:
        self.work(log)
        return tuple(Runtime(python=sys.executable) for _ in order.job.job_spec.worker_pool_specs)


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

    def supervise(self, work: Callable[[Log], None]) -> CustomJob:
        supervise(self.folder.path, PreparingLauncher(work), self.lock)
        return self.backend.get(self.name)

    def lines(self, task: str = "service") -> list[str]:
        page = self.backend.logs(LogQuery(name=self.name, task_name=task))
        return [line for entry in page.entries for line in entry.message.split("\n")]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path / "home", monkeypatch)


def test_what_tools_say_is_in_the_service_log(bench: Bench) -> None:
    def work(log: Log) -> None:
        log(b"Collecting numpy\n")
        log(b"Installed numpy")

    job = bench.supervise(work)
    assert job.state == states.SUCCEEDED
    lines = bench.lines()
    assert lines.index("Collecting numpy") + 1 == lines.index("Installed numpy")
    assert bench.lines("workerpool0-0") == ["x"]


def test_lines_of_a_tool_that_says_much_stay_whole(bench: Bench) -> None:
    lines = [f"line {number} {'x' * (number % 97)}" for number in range(20_000)]

    def work(log: Log) -> None:
        for start in range(0, len(lines), 500):
            log("".join(f"{line}\n" for line in lines[start : start + 500]).encode())
        log(b"the last one")

    bench.supervise(work)
    told = (bench.folder.log("service")).read_text().splitlines()
    assert [line for line in told if line.startswith("line ")] == lines
    assert "the last one" in told


def test_a_failed_preparation_fails_the_job(bench: Bench) -> None:
    def work(log: Log) -> None:
        log(b"ERROR: no matching distribution\n")
        raise PrepareFailed("pip could not install nosuch==1.", "Check its name.")

    job = bench.supervise(work)
    assert (job.state, job.start_time) == (states.FAILED, "")
    assert job.error is not None
    assert (job.error.code, job.error.message) == (3, "pip could not install nosuch==1.")
    assert job.error.details[0]["metadata"]["hint"] == "Check its name."
    assert "ERROR: no matching distribution" in bench.lines()
    assert bench.lines()[-1] == "Job failed."


def test_a_failure_of_many_words_is_told_in_full(bench: Bench) -> None:
    words = "word " * 100_000  # more than a pipe holds

    def work(_: Log) -> None:
        raise PrepareFailed(words)

    job = bench.supervise(work)
    assert job.error is not None
    assert job.error.message == words


def test_a_fault_in_the_preparation_is_named(bench: Bench) -> None:
    def work(_: Log) -> None:
        raise ZeroDivisionError("oops")

    job = bench.supervise(work)
    assert job.error is not None
    assert "ZeroDivisionError('oops')" in job.error.message


def killed_in(folder: Path, kills: int, number: int) -> Callable[[Log], None]:
    """A preparation that the signal ends in its first tries."""

    def work(log: Log) -> None:
        log(b"a try\n")
        if len([*folder.iterdir()]) < kills:
            (folder / str(os.getpid())).touch()
            os.kill(os.getpid(), number)
            time.sleep(600)

    folder.mkdir()
    return work


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_preparation_is_begun_again(bench: Bench, tmp_path: Path, number: int) -> None:
    job = bench.supervise(killed_in(tmp_path / "tries", RESTARTS_PER_JOB, number))
    assert job.state == states.SUCCEEDED, job.error
    assert bench.lines().count("a try") == RESTARTS_PER_JOB + 1
    assert bench.lines().count("The preparation of the environment was killed. It begins again.") == 3


def test_a_preparation_that_is_killed_each_time_fails_the_job(bench: Bench, tmp_path: Path) -> None:
    job = bench.supervise(killed_in(tmp_path / "tries", 100, signal.SIGKILL))
    assert job.state == states.FAILED
    assert job.error is not None
    assert job.error.message == "The preparation of the environment was killed."
    assert bench.lines().count("a try") == RESTARTS_PER_JOB + 1


def test_a_fault_of_the_engine_ends_the_job(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    class Broken(PreparingLauncher):
        def replica_orders(self, *_: object) -> dict[str, object]:  # type: ignore[override]
            raise KeyError("bug")

    supervise(bench.folder.path, Broken(lambda _: None), bench.lock)
    job = bench.backend.get(bench.name)
    assert job.state == states.FAILED
    assert job.error is not None
    assert (job.error.code, job.error.details[0]["reason"]) == (13, "ENGINE_FAILED")
    assert "KeyError: 'bug'" in capfd.readouterr().err


def test_a_file_that_the_system_refuses_is_named(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    class Refused(PreparingLauncher):
        def replica_orders(self, *_: object) -> dict[str, object]:  # type: ignore[override]
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/some/file")

    supervise(bench.folder.path, Refused(lambda _: None), bench.lock)
    job = bench.backend.get(bench.name)
    assert job.error is not None
    assert job.error.message == "vtrain could not go on with the job: Permission denied (/some/file)."


def test_a_full_disk_ends_the_supervisor_and_not_the_job(bench: Bench) -> None:
    class Full(PreparingLauncher):
        def replica_orders(self, *_: object) -> dict[str, object]:  # type: ignore[override]
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space"):
        supervise(bench.folder.path, Full(lambda _: None), bench.lock)
    os.close(bench.lock)
    lock = hold_lock(bench.folder.lock)
    assert lock is not None
    supervise(bench.folder.path, PreparingLauncher(lambda _: None), lock)
    assert bench.backend.get(bench.name).state == states.SUCCEEDED


def test_a_fault_in_the_clean_up_leaves_the_verdict_alone(
    bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    class Untidy(PreparingLauncher):
        def clear(self, order: JobOrder) -> str:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "/bucket/part-0001.tmp")

    supervise(bench.folder.path, Untidy(lambda _: None), bench.lock)
    assert bench.backend.get(bench.name).state == states.SUCCEEDED
    assert any("/bucket/part-0001.tmp" in line for line in bench.lines())
    assert "FileNotFoundError" in capfd.readouterr().err


def test_a_folder_in_the_place_of_the_credentials_leaves_the_verdict_alone(bench: Bench) -> None:
    def work(_: Log) -> None:  # as a trainer could, whose user is the caller
        (bench.folder.path / COPY).mkdir()

    assert bench.supervise(work).state == states.SUCCEEDED
    assert not (bench.folder.path / COPY).exists()


def test_cancel_while_tools_are_at_work(bench: Bench) -> None:
    seconds = f"361.{os.getpid()}"  # told apart from that of another run of this test

    def work(log: Log) -> None:
        log(b"installing\n")
        run_logged("sleep", ["sh", "-c", f"sleep {seconds}"], dict(os.environ), Path("/"), log, 0)

    def cancel() -> None:
        backend = opened(bench)
        while "installing" not in str(backend.logs(LogQuery(name=bench.name)).entries):
            time.sleep(0.01)
        backend.cancel(bench.name)

    begin = time.monotonic()
    thread = threading.Thread(target=cancel)
    thread.start()
    job = bench.supervise(work)
    thread.join()
    assert job.state == states.CANCELLED
    assert time.monotonic() - begin < 300
    wait_for_end_of(seconds)


def test_a_supervisor_that_is_killed_leaves_no_preparation_behind(bench: Bench) -> None:
    seconds = f"366.{os.getpid()}"

    def work(log: Log) -> None:
        log(b"installing\n")
        run_logged("sleep", ["sh", "-c", f"sleep {seconds}"], dict(os.environ), Path("/"), log, 0)

    supervisor = os.fork()
    if supervisor == 0:
        try:
            bench.supervise(work)
        finally:
            os._exit(0)
    os.close(bench.lock)
    assert wait_until(lambda: any(seconds.encode() in command for command in commands()), 60)
    os.kill(supervisor, signal.SIGKILL)
    os.waitpid(supervisor, 0)
    opened(bench).cancel(bench.name)
    store = Store.open(Path(bench.folder.order().home))  # which starts no other supervisor, as a backend does
    assert wait_until(lambda: store.get(bench.name).state == states.CANCELLED, 60)
    store.close()
    wait_for_end_of(seconds)


def opened(bench: Bench) -> LocalBackend:
    """Another backend over the same home, as another process has it."""
    home = Path(bench.folder.order().home)
    return open_backend("process", BackendSettings(home=home, project="local", region="us-central1"))


def wait_for_end_of(seconds: str) -> None:
    """Wait until no process has these words on its command line."""
    deadline = time.monotonic() + 60
    while any(seconds.encode() in command for command in commands()):
        assert time.monotonic() < deadline, "the tool still runs"
        time.sleep(0.02)


def commands() -> list[bytes]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            found.append((entry / "cmdline").read_bytes())
        except OSError:
            continue
    return found


def test_a_tool_that_is_cancelled_while_it_starts(bench: Bench) -> None:
    """The signal can come before the tool's process is known to whoever started it."""
    seconds = f"362.{os.getpid()}"

    def work(log: Log) -> None:
        subprocess.Popen(["sh", "-c", f"sleep {seconds}"], start_new_session=True)
        opened(bench).cancel(bench.name)
        time.sleep(600)

    assert bench.supervise(work).state == states.CANCELLED
    wait_for_end_of(seconds)


def test_a_tool_of_code_that_takes_no_notice_is_cancelled_too(bench: Bench) -> None:
    """The exception of a signal is lost where Python ignores it: in `__del__`, in callbacks of C."""
    seconds = f"364.{os.getpid()}"

    def work(log: Log) -> None:
        subprocess.Popen(["sh", "-c", f"sleep {seconds}"], start_new_session=True)
        with suppress(BaseException):
            opened(bench).cancel(bench.name)
        while True:
            with suppress(BaseException):
                time.sleep(600)

    assert bench.supervise(work).state == states.CANCELLED
    wait_for_end_of(seconds)


def test_a_tool_whose_parent_has_ended_is_cancelled_too(bench: Bench) -> None:
    """So it is with one that was forked just before its parent was killed."""
    seconds = f"363.{os.getpid()}"

    def work(log: Log) -> None:
        subprocess.run(["sh", "-c", f"sleep {seconds} &"], start_new_session=True, check=True)
        opened(bench).cancel(bench.name)
        time.sleep(600)

    assert bench.supervise(work).state == states.CANCELLED
    wait_for_end_of(seconds)


def test_an_ended_job_stays_ended(bench: Bench) -> None:
    first = bench.supervise(lambda _: None)
    lock = hold_lock(bench.folder.lock)
    assert lock is not None
    supervise(bench.folder.path, PreparingLauncher(lambda _: None), lock)
    assert bench.backend.get(bench.name) == first


def test_a_decision_survives_the_supervisor(bench: Bench) -> None:
    decision = {"state": states.CANCELLED, "error": {"code": 1, "message": "CANCELED"}}
    (bench.folder.path / "decision.json").write_bytes(msgspec.json.encode(decision))
    job = bench.supervise(lambda _: None)
    assert job.state == states.CANCELLED
    assert bench.lines() == ["Job cancelled."]


def test_a_lease_is_given_back_once_the_end_is_recorded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor may be killed between the two, and the next job must not begin before this one's end."""
    seen: list[str] = []
    monkeypatch.setattr(
        "vtrain.runtime.supervision.job_supervisor.release",
        lambda store, name: seen.append(store.get(name).state),
    )
    assert bench.supervise(lambda log: None).state == states.SUCCEEDED
    assert seen == [states.SUCCEEDED]
