"""A shim and real processes: what is stored, what is reported, what is stopped."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from lib.privileges import NOBODY, program_of_root, shim_as_nobody
from lib.waiting import wait_until, wait_until_gone

import vtrain
from vtrain.messages.log import LogQuery
from vtrain.runtime.folder import LeftProcess, ReplicaExit, ReplicaFolder
from vtrain.runtime.job_order import LentTerminal, ReplicaOrder
from vtrain.runtime.locks import hold_lock, lock_holder
from vtrain.runtime.log.log_reader import read_logs
from vtrain.runtime.orphans import LISTED, end_all, find_processes, kill_orphans, salvage
from vtrain.runtime.process import exit_report
from vtrain.runtime.process.cgroup import find_groups, make_group
from vtrain.runtime.process.exit_report import ExitReport
from vtrain.runtime.process.journal import STDOUT
from vtrain.runtime.process.process_tree import Process, boot_id, identify, is_alive, read_stat

pytestmark = pytest.mark.end_to_end

PATIENCE_SECONDS = 60.0
SHIM = Path(vtrain.__file__).parent / "runtime" / "process" / "shim.py"


class Case:
    """One replica folder, and the shims started for it."""

    def __init__(self, folder: Path) -> None:
        self.replica = ReplicaFolder(folder / "workerpool0-0")
        self.logs = folder / "logs"
        self.logs.mkdir()

    def start(
        self,
        *argv: str,
        grace: float = 1.0,
        groups: str = "",
        has_work: bool = True,
        largest: int = resource.RLIM_INFINITY,
        as_nobody: bool = False,
        processes: int = -1,
        terminal: LentTerminal | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a replica under a shim whose files may not grow beyond `largest` bytes."""
        order = ReplicaOrder(
            argv=argv,
            env={"PATH": os.environ["PATH"]},
            log=str(self.logs / "workerpool0-0"),
            wake=str(self.logs / "no-fifo"),
            grace_seconds=grace,
            groups=groups,
            terminal=terminal,
        )
        self.replica.order(order)
        if not has_work:
            self.replica.work.rmdir()
        lock = hold_lock(self.replica.lock)
        assert lock is not None
        if as_nobody:
            for path in (self.logs, self.replica.root, *self.replica.root.rglob("*")):
                os.chown(path, NOBODY, NOBODY)
            shim = shim_as_nobody(SHIM, self.replica.path, lock, processes=processes)
            os.close(lock)
            return shim
        command = [sys.executable, "-I", "-S", str(SHIM), str(self.replica.path), str(lock)]
        limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (largest, largest))
        shim = subprocess.Popen(command, pass_fds=[lock], preexec_fn=limit)
        os.close(lock)
        return shim

    def run(self, *argv: str, **options: object) -> ReplicaExit:
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
        wait_until(lambda: list(self.logs.glob("*.idx")) and self.lines())


def test_a_later_attempt_runs_by_the_first_order_in_its_own_folders(case: Case) -> None:
    case.run(*python("import os; print(os.getcwd(), os.environ['TMPDIR'])"))
    later = ReplicaFolder(case.replica.root, 1)
    later.order_again()
    lock = hold_lock(later.lock)
    assert lock is not None
    command = [sys.executable, "-I", "-S", str(SHIM), str(later.path), str(lock)]
    subprocess.run(command, pass_fds=[lock], check=True)
    os.close(lock)
    assert case.lines() == [f"{each.work} {each.tmp}" for each in (case.replica, later)]


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
    wait_until_gone(lambda: started_in(tmp_path))


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
    report = case.run("sh", "-c", "a\0b")
    assert (report.code, report.message) == (126, "embedded null byte")
    assert case.lines() == []
    report = case.run("sh", "-c", "true", has_work=False)
    assert (report.code, report.message) == (127, f"No such file or directory: {case.replica.work}")


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
    raw = (case.logs / "workerpool0-0.0.log").read_text()
    assert raw == "".join(f"line {i}\n" for i in range(100000)) + "last"


def test_descendants_end_with_their_replica(case: Case, tmp_path: Path) -> None:
    stubborn = f"trap '' TERM; echo in; touch '{tmp_path}/in'; exec sleep 600"
    awaited = f"until test -e '{tmp_path}/in'; do sleep 0.05; done"
    report = case.run("sh", "-c", f'(exec setsid sh -c "{stubborn}") & {awaited}; exit 3')
    assert report.code == 3
    assert case.lines() == ["in"]


def test_stop_is_polite_first(case: Case) -> None:
    code = (
        "import os, signal, sys, time\n"
        "def leave(*_):\n    print('saved', flush=True)\n    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, leave)\nos.write(1, b'ready\\n')\ntime.sleep(60)\n"
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
    shim = case.start("sh", "-c", "echo ready; exec sleep 600")
    case.until_line()
    os.kill(shim.pid, signal.SIGKILL)
    shim.wait(PATIENCE_SECONDS)
    trainer = json.loads((case.replica.path / "started.json").read_text())["pid"]
    wait_until(
        lambda: (stat := read_stat(trainer)) is None or stat.has_ended, "the trainer goes on without its shim"
    )
    assert case.replica.exit() is None
    assert lock_holder(case.replica.lock) == 0


@pytest.fixture
def open_case() -> Iterator[Case]:
    """A replica whose folder other users can reach."""
    with tempfile.TemporaryDirectory(prefix="vtrain-test-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Case(Path(folder))


def test_a_process_of_another_user_costs_no_exit_code(open_case: Case) -> None:
    case = open_case
    as_root = program_of_root(case.logs.parent)
    is_roots = 'until read name < /proc/$!/comm && [ "$name" = sleep ]; do :; done'
    shim = case.start("sh", "-c", f"{as_root} sleep 600 & {is_roots}; echo $!; exit 3", as_nobody=True)
    assert shim.wait(PATIENCE_SECONDS) == 0
    (started,) = case.lines()
    assert case.exit().code == 3
    assert case.exit().left == (LeftProcess(pid=int(started), name="sleep", user=0),)
    os.kill(int(started), signal.SIGKILL)


def test_a_trainer_that_is_another_users_ends_with_its_shim(open_case: Case) -> None:
    case = open_case
    as_root = program_of_root(case.logs.parent)
    shim = case.start("sh", "-c", f"echo $$; exec {as_root} sleep 600", as_nobody=True, grace=0.2)
    case.until_line()
    trainer = int(case.lines()[0])
    wait_until(lambda: Path(f"/proc/{trainer}").stat().st_uid == 0)
    os.kill(shim.pid, signal.SIGTERM)
    assert shim.wait(PATIENCE_SECONDS) == 0
    assert (case.exit().stopped, case.exit().left[0].pid) == (True, trainer)
    os.kill(trainer, signal.SIGKILL)


def test_a_user_who_may_have_no_more_processes(open_case: Case) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    shim = open_case.start("true", as_nobody=True, processes=0)
    assert shim.wait(PATIENCE_SECONDS) == 0
    report = open_case.exit()
    assert (report.code, report.message) == (126, "Resource temporarily unavailable: true")


def test_an_exit_code_is_stored_before_anything_else_is_ended(case: Case) -> None:
    """A shim that is killed while it ends what the trainer has left takes no exit code along."""
    shim = case.start("sh", "-c", "trap '' TERM; (exec setsid sleep 600) & exit 7")
    wait_until(lambda: case.replica.early_exit() is not None)
    os.kill(shim.pid, signal.SIGKILL)
    shim.wait(PATIENCE_SECONDS)
    assert case.replica.exit() is None
    early = case.replica.early_exit()
    assert early is not None
    assert early.code == 7
    assert kill_orphans([case.replica]) == set()


COUNTING = """
import os, signal, sys, time
count = 0
def hear(*_):
    global count
    count += 1
signal.signal(signal.SIGTERM, hear)
print("ready", flush=True)
while not count:
    time.sleep(0.001)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # the child must not hear it by this handler
if len(sys.argv) > 1 and os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    time.sleep(600)
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
end = time.monotonic() + 0.5
while time.monotonic() < end:
    time.sleep(0.001)
print(count, flush=True)
if len(sys.argv) > 1:
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


def test_each_process_gets_sigterm_once_however_often_it_is_asked_for(case: Case) -> None:
    """One that begins only then gets it too."""
    shim = case.start(sys.executable, "-c", COUNTING, "fork", grace=60)
    case.until_line()
    while shim.poll() is None:
        os.kill(shim.pid, signal.SIGTERM)
        time.sleep(0.01)
    assert case.lines() == ["ready", "1", str(-signal.SIGTERM)]


def test_a_folder_in_the_place_of_the_list_keeps_nobody_from_going_on(case: Case) -> None:
    (case.replica.path / LISTED / "of-a-trainer").mkdir(parents=True)
    assert kill_orphans([case.replica]) == set()
    assert not (case.replica.path / LISTED).exists()


def test_pipes_of_any_number_are_salvaged(case: Case) -> None:
    """A supervisor of many replicas holds more descriptors than select() takes."""
    order = ReplicaOrder(
        argv=("true",), env={}, log=str(case.logs / "workerpool0-0"), wake="/", grace_seconds=1
    )
    case.replica.order(order)
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= 1100:
        pytest.skip("this process may not have so many files open")
    reading, writing = os.pipe()
    high = fcntl.fcntl(reading, fcntl.F_DUPFD_CLOEXEC, 1100)
    os.write(writing, b"last words\n")
    for pipe in (reading, writing):
        os.close(pipe)
    salvage(case.replica, {high: STDOUT})
    assert case.lines() == ["last words"]


@pytest.mark.parametrize("group", ["", "vtrain-test-{pid}"], ids=["list", "cgroup"])
def test_a_daemon_without_an_environment_is_found_after_its_shim(case: Case, group: str) -> None:
    name = group.format(pid=os.getpid())
    if name and not (made := make_group(f"{name}-r0")):
        pytest.skip("this user may make no cgroup here")
    shim = case.start(sys.executable, "-c", DAEMON, groups=name)
    case.until_line()
    daemon = identify(int(case.lines()[0]))
    wait_until(lambda: bool(name) or daemon[0] in listed(case))
    os.kill(shim.pid, signal.SIGKILL)
    shim.wait(PATIENCE_SECONDS)
    assert is_alive(daemon)
    end_all(lambda: processes_listed(case), [made] if name else [])
    wait_until(lambda: not is_alive(daemon))
    assert not name or not Path(made).exists()


def test_a_list_of_another_start_of_the_machine_names_nobody(case: Case) -> None:
    own = identify(os.getpid())
    case.replica.path.mkdir()
    for boot, found in ((boot_id(), True), ("another", False)):
        text = json.dumps({"boot_id": boot, "processes": [own]})
        (case.replica.path / LISTED).write_text(text)
        assert (own in processes_listed(case)) is found
    (case.replica.path / LISTED).write_text(json.dumps({"boot_id": boot_id(), "processes": [[own[0], 1]]}))
    assert processes_listed(case) == set(), "its id is another process's by now"


def test_a_cgroup_is_gone_with_a_daemon_of_a_program_that_ends_at_once(tmp_path: Path) -> None:
    """The program may have left its cgroup before the shim looks who is in it."""
    name = f"vtrain-test-{os.getpid()}"
    if not make_group(f"{name}-r0"):
        pytest.skip("this user may make no cgroup here")
    for turn in range(10):
        (tmp_path / str(turn)).mkdir()
        assert Case(tmp_path / str(turn)).run("sh", "-c", "sleep 600 &", groups=name).code == 0
        assert find_groups(f"{name}-r0") == []


def test_a_cgroup_is_gone_with_its_replica(case: Case) -> None:
    name = f"vtrain-test-{os.getpid()}"
    if not make_group(f"{name}-r0"):
        pytest.skip("this user may make no cgroup here")
    report = case.run("sh", "-c", "grep -c vtrain-test /proc/self/cgroup", groups=name)
    assert (report.code, case.lines()) == (0, ["1"])
    assert find_groups(f"{name}-r0") == []
    assert not (case.replica.path / LISTED).exists()


DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", WAIT], {})
time.sleep(600)
""".replace("WAIT", repr("import os, time; print(os.getpid(), flush=True); time.sleep(600)"))


def processes_listed(case: Case) -> set[Process]:
    """The living processes that are found by the shim's list."""
    return set(find_processes({}, {case.replica.path: case.replica.name}, None))


def listed(case: Case) -> set[int]:
    """The ids in the shim's list."""
    try:
        return {pid for pid, _ in json.loads((case.replica.path / LISTED).read_text())["processes"]}
    except FileNotFoundError:
        return set()


def test_a_replica_whose_folder_its_trainer_removes_has_its_exit_code(case: Case) -> None:
    begun = f"until test -e '{case.replica.path}/started.json'; do sleep 0.05; done"
    report = case.run("sh", "-c", f"{begun}; rm -rf '{case.replica.path}'; echo gone; exit 5")
    assert report.code == 5
    assert case.lines() == ["gone"]


def test_a_replica_of_a_job_whose_folder_was_removed_makes_nothing_anew(case: Case) -> None:
    begun = f"until test -e '{case.replica.path}/started.json'; do sleep 0.05; done"
    shim = case.start("sh", "-c", f"{begun}; rm -rf '{case.replica.path}' '{case.logs}'; exit 5")
    assert shim.wait(PATIENCE_SECONDS) == 0
    assert not case.replica.path.exists()


def test_a_full_disk_does_not_end_the_trainer(case: Case) -> None:
    report = case.run(*python("print('x' * 99999); print('y')"), largest=65536)
    assert (report.code, report.log_lost_bytes) == (0, 100002 - 65536)
    assert (case.logs / "workerpool0-0.0.log").read_bytes() == b"x" * 65536


LATE = """
import os, signal, time
if os.fork():
    while not os.path.exists("ready"):
        time.sleep(0.02)
else:
    signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"x" * 99999), os._exit(0)))
    open("ready", "w").close()
    time.sleep(600)
"""


def test_what_is_lost_of_a_process_that_goes_on_is_counted_too(case: Case) -> None:
    report = case.run(*python(LATE), largest=65536)
    assert (report.code, report.log_lost_bytes) == (0, 99999 - 65536)


def test_an_exit_code_is_kept_by_a_disk_that_refuses_the_last_report(tmp_path: Path) -> None:
    report = ExitReport(str(tmp_path), str(tmp_path))
    report.reserve()
    report.record_exit(-9)
    (tmp_path / "exit.json.tmp").mkdir()  # nothing can be written there any more
    report.write()
    assert json.loads((tmp_path / "exit.json").read_bytes())["code"] == 137


@pytest.mark.parametrize(
    ("code", "kills", "oom"), [(-9, 1, True), (137, 1, True), (-9, 0, False), (1, 1, False), (0, 1, False)]
)
def test_want_of_memory_is_told_of_a_program_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kills: int, oom: bool
) -> None:
    """The kernel counts those of the whole machine."""
    report, counted = ExitReport(str(tmp_path), str(tmp_path)), 5
    monkeypatch.setattr(exit_report, "count_oom_kills", lambda: counted)
    report.begin()
    counted += kills
    report.record_exit(code)
    assert json.loads((tmp_path / "exited.json").read_bytes())["oom"] is oom


@pytest.mark.parametrize("suffix", [".log", ".idx"])
def test_a_folder_in_the_place_of_a_log_does_not_end_the_trainer(case: Case, suffix: str) -> None:
    (case.logs / f"workerpool0-0.0{suffix}").mkdir()
    report = case.run(*python("print('y')"))
    assert (report.code, report.log_lost_bytes, case.lines()) == (0, 0, ["y"])


def test_a_trainer_that_closes_its_output_lives_on(case: Case) -> None:
    report = case.run(*python("import os, time; os.close(1); os.close(2); time.sleep(0.2); os._exit(5)"))
    assert report.code == 5
    assert report.ended - report.started > 0.15


def test_a_terminal_takes_keys_and_a_new_size_and_survives_nonsense(case: Case) -> None:
    fifo = case.logs / "terminal"
    os.mkfifo(fifo)
    program = python(
        "import os, signal, sys\n"
        "signal.signal(signal.SIGWINCH, lambda *_: os.write(1, f'{os.get_terminal_size()}\\n'.encode()))\n"
        "try: os.open('/dev/tty', os.O_RDONLY)\n"
        "except OSError: print('no controlling terminal')\n"
        "print(sys.stdin.readline(), file=sys.stderr, end='')\n"
        "print(sys.stdin.readline(), end='')"
    )
    lent = LentTerminal(columns=70, lines=20, stdout=True, stderr=True, interactive=True, fifo=str(fifo))
    shim = case.start(*program, terminal=lent)
    case.until_line()
    with fifo.open("wb", buffering=0) as window:
        window.write(b"no JSON\n[]\n" + b'{"lines": -1, "columns": "x", "keys": 3}\n' + b"x" * 9000 + b"\n")
        window.write(b'{"lines": 50, "columns": 90}\n{"keys": "first\\r"}\n')
        wait_until(lambda: "os.terminal_size(columns=90, lines=50)" in case.lines())
        window.write(b'{"keys": "second\\r"}\n')
    assert shim.wait(PATIENCE_SECONDS) == 0
    lines = case.lines()
    assert lines[0] == "no controlling terminal"
    assert sorted(lines[1:]) == [
        "first",
        "first",
        "os.terminal_size(columns=90, lines=50)",
        "second",
        "second",
    ]
    assert case.exit().code == 0


def test_all_that_a_terminal_holds_is_stored(case: Case) -> None:
    fifo = case.logs / "terminal"
    lent = LentTerminal(columns=70, lines=20, stdout=True, stderr=False, fifo=str(fifo))
    program = python(
        "import sys\nfor number in range(50_000): print(number)\nprint(sys.stderr.isatty(), file=sys.stderr)"
    )
    assert case.run(*program, terminal=lent).code == 0
    lines = case.lines()
    assert lines.pop(lines.index("False")) == "False"
    assert lines == [str(number) for number in range(50_000)]
