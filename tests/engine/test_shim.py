"""A shim and real processes: what is stored, what is reported, what is stopped."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

import vtrain
from vtrain.engine.folder import ReplicaExit, ReplicaFolder, ReplicaOrder, hold_lock, lock_holder
from vtrain.engine.log_reader import read_logs
from vtrain.messages.log import LogQuery

PATIENCE_SECONDS = 60.0
SHIM = Path(vtrain.__file__).parent / "engine" / "shim.py"


class Case:
    """One replica folder, and the shims started for it."""

    def __init__(self, folder: Path) -> None:
        self.replica = ReplicaFolder(folder / "workerpool0-0")
        self.logs = folder / "logs"
        self.logs.mkdir()

    def start(
        self, *argv: str, grace: float = 1.0, cwd: str = "", largest: int = resource.RLIM_INFINITY
    ) -> subprocess.Popen[bytes]:
        """Start a replica under a shim whose files may not grow beyond `largest` bytes."""
        order = ReplicaOrder(
            argv=argv,
            env={"PATH": os.environ["PATH"], "TMPDIR": str(self.replica.tmp)},
            cwd=cwd or str(self.replica.work),
            log=str(self.logs / "workerpool0-0"),
            wake=str(self.logs / "no-fifo"),
            grace_seconds=grace,
        )
        self.replica.order(order)
        lock = hold_lock(self.replica.lock)
        assert lock is not None
        command = [sys.executable, "-I", "-S", str(SHIM), str(self.replica.path), str(lock)]
        limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (largest, largest))
        shim = subprocess.Popen(command, pass_fds=[lock], preexec_fn=limit)
        os.close(lock)
        return shim

    def run(self, *argv: str, **options: str | int) -> ReplicaExit:
        assert self.start(*argv, **options).wait(PATIENCE_SECONDS) == 0  # type: ignore[arg-type]
        return self.exit()

    def exit(self) -> ReplicaExit:
        report = self.replica.exit()
        assert report is not None
        return report

    def lines(self) -> list[str]:
        page = read_logs(self.logs, LogQuery(name="x"), ended=True)
        return [line for entry in page.entries for line in entry.message.split("\n")]

    def until_line(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (list(self.logs.glob("*.idx")) and self.lines()):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_wake_up_call_that_nobody_takes_harms_nothing(case: Case) -> None:
    fifo = case.logs / "no-fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    try:
        with pytest.raises(BlockingIOError):
            while True:
                os.write(reader, b"." * 4096)
        assert case.run(*python("print('x'); raise SystemExit(3)")).code == 3
    finally:
        os.close(reader)
    assert case.lines() == ["x"]


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    yield Case(tmp_path)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (left := started_in(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert left == []


def started_in(folder: Path) -> list[bytes]:
    """The command lines of living processes whose TMPDIR is in this folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"TMPDIR={folder}/".encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes())
    return found


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_output_and_exit_code(case: Case) -> None:
    report = case.run(*python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"))
    assert (report.code, report.signal, report.message, report.stopped) == (7, 0, "", False)
    assert report.started <= report.ended
    assert sorted(case.lines()) == ["err", "out"]
    assert lock_holder(case.replica.lock) == 0


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, 137), (signal.SIGSEGV, 139), (signal.SIGTERM, 143)]
)
def test_signals(case: Case, number: int, code: int) -> None:
    report = case.run(*python(f"import os; os.kill(os.getpid(), {number:d})"))
    assert (report.code, report.signal) == (code, number)


def test_programs_that_cannot_start(case: Case, tmp_path: Path) -> None:
    report = case.run("/no/such/program")
    assert (report.code, report.message) == (127, "No such file or directory: /no/such/program")
    assert not case.replica.started()
    (tmp_path / "plain").write_text("not a program")
    report = case.run(str(tmp_path / "plain"))
    assert (report.code, report.message) == (126, f"Permission denied: {tmp_path}/plain")
    report = case.run("sh", "-c", "true", cwd="/no/such/folder")
    assert (report.code, report.message) == (127, "No such file or directory: /no/such/folder")


def test_stdin_is_empty_and_signals_are_normal(case: Case) -> None:
    code = (
        "import signal, sys\n"
        "print(repr(sys.stdin.read()))\n"
        "for n in (signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1):\n"
        "    print(signal.getsignal(n) == signal.SIG_DFL)\n"
    )
    case.run(*python(code))
    assert case.lines() == ["''", "True", "True", "True"]


def test_nothing_is_lost_under_load(case: Case) -> None:
    code = "import sys\nfor i in range(100000): sys.stdout.write(f'line {i}\\n')\nsys.stdout.write('last')"
    case.run(*python(code))
    raw = (case.logs / "workerpool0-0.log").read_text()
    assert raw == "".join(f"line {i}\n" for i in range(100000)) + "last"


def test_descendants_end_with_their_replica(case: Case, tmp_path: Path) -> None:
    stubborn = f"trap '' TERM; echo in; touch '{tmp_path}/in'; exec sleep 600"
    awaited = f"until test -e '{tmp_path}/in'; do sleep 0.05; done"
    report = case.run("sh", "-c", f'(exec setsid sh -c "{stubborn}") & {awaited}; exit 3')
    assert report.code == 3
    assert case.lines() == ["in"]


def test_stop_is_polite_first(case: Case) -> None:
    code = (
        "import signal, sys, time\n"
        "def leave(*_):\n    print('saved', flush=True)\n    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, leave)\nprint('ready', flush=True)\ntime.sleep(60)\n"
    )
    shim = case.start(*python(code))
    case.until_line()
    assert lock_holder(case.replica.lock) == shim.pid
    os.kill(shim.pid, signal.SIGTERM)
    assert shim.wait(PATIENCE_SECONDS) == 0
    assert (case.exit().code, case.exit().stopped) == (0, True)
    assert case.lines() == ["ready", "saved"]


def test_stop_kills_after_the_grace_period(case: Case) -> None:
    shim = case.start("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done", grace=0.3)
    case.until_line()
    begin = time.monotonic()
    os.kill(shim.pid, signal.SIGTERM)
    assert shim.wait(PATIENCE_SECONDS) == 0
    assert time.monotonic() - begin > 0.25
    assert (case.exit().code, case.exit().signal) == (137, signal.SIGKILL)


def test_a_killed_shim_takes_the_trainer_along(case: Case) -> None:
    shim = case.start("sh", "-c", "echo ready; exec sleep 60")
    case.until_line()
    os.kill(shim.pid, signal.SIGKILL)
    shim.wait(PATIENCE_SECONDS)
    deadline = time.monotonic() + PATIENCE_SECONDS
    trainer = int((case.replica.path / "started.json").read_text().split(":")[1].split(",")[0])
    while Path(f"/proc/{trainer}/cmdline").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert case.replica.exit() is None
    assert lock_holder(case.replica.lock) == 0


def test_a_full_disk_does_not_end_the_trainer(case: Case) -> None:
    report = case.run(*python("print('x' * 99999); print('y')"), largest=65536)
    assert (report.code, report.log_lost_bytes) == (0, 100002 - 65536)
    assert (case.logs / "workerpool0-0.log").read_bytes() == b"x" * 65536


@pytest.mark.parametrize("suffix", [".log", ".idx"])
def test_a_folder_in_the_place_of_a_log_does_not_end_the_trainer(case: Case, suffix: str) -> None:
    (case.logs / f"workerpool0-0{suffix}").mkdir()
    report = case.run(*python("print('y')"))
    assert (report.code, report.log_lost_bytes, case.lines()) == (0, 0, ["y"])


def test_a_trainer_that_closes_its_output_lives_on(case: Case) -> None:
    report = case.run(*python("import os, time; os.close(1); os.close(2); time.sleep(0.2); os._exit(5)"))
    assert report.code == 5
    assert report.ended - report.started > 0.15
