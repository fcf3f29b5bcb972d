"""Persistent resources that keep modules imported: jobs start as forks, and notice nothing of it."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from lib.environment_packages import wheel
from lib.supervisors import living_supervisor
from lib.waiting import wait_until

from vtrain.runtime.folder import JobFolder
from vtrain.runtime.locks import lock_holder

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(sys.platform != "linux", reason="slots are warm on Linux only"),
]

FRAMEWORK = """
import os
import multiprocessing.spawn
PID = os.getpid()
STATE = []
class Error(Exception): pass
"""
POOL = "--resource-pool-spec=machine-type=n1-standard-4,replica-count={count}"


class Slots:
    """A resource `team` that keeps `framework` imported, and jobs on it."""

    def __init__(self, vtrain: Any, home: Path, folder: Path) -> None:
        self.vtrain = vtrain
        self.home = home
        self.code = folder / "code"

    def make(self, count: int = 1, modules: str = "framework") -> None:
        made = self.vtrain(
            *("persistent-resources", "create", "--persistent-resource-id=team", POOL.format(count=count)),
            *("--backend=local", f"--preload={modules}"),
        )
        assert made.code == 0, made.err

    def run(self, code: str, *flags: str, script: bool = False, args: tuple[str, ...] = ()) -> Any:
        """A job of that code, to its end."""
        (self.code / "trainer").mkdir(parents=True, exist_ok=True)
        (self.code / "trainer" / "task.py").write_text(code)
        what = "script=trainer/task.py" if script else "python-module=trainer.task"
        pool = f"machine-type=n1-standard-4,local-package-path={self.code},{what},requirements=framework"
        return self.vtrain(
            *("custom-jobs", "create", "--backend=process", "--display-name=job"),
            *(f"--worker-pool-spec={pool}", "--persistent-resource-id=team", *flags, "--", *args),
        )

    def warm(self) -> None:
        """Run a first job, and wait until a slot is warm."""
        assert self.run("import framework", "--wait").code == 0
        wait_until(lambda: self.sockets() != [])

    def sockets(self) -> list[Path]:
        return sorted(self.home.glob("slots/*/*.socket"))

    def preloaders(self) -> list[int]:
        return [pid for lock in self.home.glob("slots/*/*.lock") if (pid := lock_holder(lock)) > 0]

    def log(self, job: str = "@last") -> str:
        """The lines of a job's trainer."""
        read = self.vtrain("custom-jobs", "stream-logs", job, "--format=value(task_name, message)")
        lines = [line.split("\t", 1) for line in read.out.splitlines()]
        return "".join(f"{text[0]}\n" for task, *text in lines if task == "workerpool0-0" and text)

    def service_log(self, job: str = "@last") -> str:
        return str(self.vtrain("custom-jobs", "stream-logs", job).out)


@pytest.fixture
def slots(vtrain: Any, vtrain_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    wheel(tmp_path / "wheels", "framework", code=FRAMEWORK)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    made = Slots(vtrain, vtrain_home, tmp_path)
    yield made
    vtrain("persistent-resources", "delete", "team", "--force", "--backend=local")
    wait_until(lambda: made.preloaders() == [], patience=30)


IS_WARM = "import os, framework; print('warm', framework.PID != os.getpid())\n"


def test_the_second_job_starts_with_the_modules(slots: Slots) -> None:
    slots.make()
    assert slots.run(IS_WARM, "--wait").code == 0
    assert slots.log() == "warm False\n"
    wait_until(lambda: slots.sockets() != [])
    assert slots.run(f"{IS_WARM}framework.STATE.append(1)", "--wait").code == 0
    assert slots.log() == "warm True\n"
    assert "workerpool0-0 started with framework imported already." in slots.service_log()
    assert slots.run(f"{IS_WARM}print(framework.STATE)", "--wait").code == 0
    assert slots.log() == "warm True\n[]\n"


FACTS = """
import atexit, json, multiprocessing, os, pickle, signal, sys, threading
import framework
sys.path.append("/of-this-job")
def child(queue):
    queue.put((sys.executable, __name__))
class Thing:
    pass
def main():
    facts = {
        "argv": sys.argv, "orig": sys.orig_argv, "path": sys.path,
        "prefix": sys.prefix, "python": sys.executable,
        "main": [__name__, __file__, bool(__spec__), __package__],
        "signals": {int(s): str(signal.getsignal(s)) for s in signal.valid_signals()},
        "blocked": len(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "environ": dict(os.environ), "cwd": os.getcwd(), "files": os.listdir("."),
        "fds": sorted(os.listdir("/proc/self/fd"))[:4],
        "streams": [(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, s.isatty())
                    for s in (sys.stdin, sys.stdout, sys.stderr)],
        "stdin": sys.stdin.read(),
        "thread": [threading.current_thread() is threading.main_thread(), threading.active_count()],
        "leader": os.getsid(0) == os.getpid(), "group": os.getpgid(0) == os.getpid(),
        "modules": sorted(m for m in sys.modules if m.split(".")[0] in
                          ("vtrain", "shim", "journal", "cgroup", "process_tree", "trainer")),
        "pickled": len(pickle.dumps(Thing())), "umask": os.umask(0o22), "nice": os.nice(0),
        "trace": sys.gettrace() is None, "limits": __import__("resource").getrlimit(7),
    }
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    other = context.Process(target=child, args=(queue,))
    other.start()
    facts["spawned"] = queue.get()
    other.join()
    print(json.dumps(facts, indent=1))
    atexit.register(print, "at exit")
if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("script", [False, True], ids=["module", "script"])
def test_a_trainer_finds_what_it_would_find_without(slots: Slots, script: bool) -> None:
    slots.make()
    told = []
    for _ in range(2):
        ended = slots.run(FACTS, "--wait", "--env=OWN=1", script=script, args=("--a=b c", "-x"))
        job = slots.vtrain("custom-jobs", "list", "--limit=1", "--format=value(name.basename())").out.strip()
        assert ended.code == 0, slots.log()
        told.append(re.sub(rf"{job}|(?<=environments/)[\w-]+|127.0.0.1:\d+", "…", slots.log()))
        wait_until(lambda: slots.sockets() != [])
    assert "imported already" in slots.service_log()
    (cold, at_exit), (warm, also_at_exit) = (text.split("\n}\n") for text in told)
    assert at_exit == also_at_exit == "at exit\n"
    facts, others = json.loads(f"{cold}}}"), json.loads(f"{warm}}}")
    assert facts["argv"][1:] == ["--a=b c", "-x"]
    assert {name: (facts[name], others[name]) for name in facts if facts[name] != others[name]} == {}


ENDS = {
    "error": "def f():\n    raise framework.Error('no')\nf()",
    "chained": "try:\n    1/0\nexcept Exception:\n    raise ValueError('then')",
    "words": "import sys; sys.exit('words')",
    "code": "import sys; sys.exit(7)",
    "at-once": "import os; os._exit(9)",
    "killed": "import os; os.kill(os.getpid(), 9)",
    "syntax": "x = (",
    "hook": "import sys; sys.excepthook = lambda *a: print('hooked', a[0].__name__); 1/0",
    "thread": "import threading, time\n"
    "threading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()",
}


@pytest.mark.parametrize("script", [False, True], ids=["module", "script"])
def test_ends_are_told_as_without(slots: Slots, script: bool) -> None:
    slots.make()
    cold: dict[str, Any] = {}
    for kind, code in ENDS.items():  # each has the variables of its own, and so starts cold
        ended = slots.run(f"import framework\n{code}\n", "--wait", f"--env=KIND={kind}", script=script)
        cold[kind] = (ended.code, _without_ids(slots.log()))
        assert "imported already" not in slots.service_log(), kind
    slots.warm()
    for kind, code in ENDS.items():
        ended = slots.run(f"import framework\n{code}\n", "--wait", script=script)
        assert (ended.code, _without_ids(slots.log())) == cold[kind], kind
        assert "imported already" in slots.service_log(), kind


def _without_ids(text: str) -> str:
    return re.sub(r"\d{19}|(?<=environments/)[\w-]+", "…", text)


LEAVES = """
import os, socket, subprocess, sys, framework, random
framework.STATE.append("left")
framework.left = True
os.environ["LEFT"] = "1"
open("left", "w").close(); open(os.path.join(os.environ["TMPDIR"], "left"), "w").close()
sleeper = subprocess.Popen(["sleep", "600"], start_new_session=True)
listener = socket.create_server(("127.0.0.1", 0))
print("PORT", listener.getsockname()[1], sleeper.pid, random.random(), os.getpid(), flush=True)
"""
LOOKS = """
import os, socket, sys, framework, random
print(framework.STATE, hasattr(framework, "left"), "LEFT" in os.environ, os.listdir("."),
      os.listdir(os.environ["TMPDIR"]))
print("NUMBER", random.random())
"""


def test_nothing_of_one_job_is_left_for_the_next(slots: Slots) -> None:
    slots.make()
    slots.warm()
    assert slots.run(LEAVES, "--wait").code == 0
    _, port, sleeper, number, _ = slots.log().split()
    wait_until(lambda: not Path(f"/proc/{sleeper}").exists(), patience=10)  # it was killed; init reaps it
    assert f":{int(port):04X}" not in _listening()
    assert slots.run(LOOKS, "--wait").code == 0
    lines = slots.log().splitlines()
    assert lines[0] == "[] False False ['trainer'] []"
    assert lines[1] != f"NUMBER {number}"


def _listening() -> str:
    """The local addresses of listening sockets, in hexadecimal."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return " ".join(row[1] for row in rows if row[3] == "0A")


def test_other_variables_need_another_process_and_slots_bound_them(slots: Slots) -> None:
    slots.make(count=2)
    for value in ("1", "2", "3"):
        assert slots.run(IS_WARM, "--wait", f"--env=OMP_NUM_THREADS={value}").code == 0
        assert slots.log() == "warm False\n"
        wait_until(lambda: all(map(_is_ready, slots.home.glob("slots/*/*.lock"))))
    assert len(slots.preloaders()) == 2
    for value, is_warm in (("3", True), ("1", False)):
        assert slots.run(IS_WARM, "--wait", f"--env=OMP_NUM_THREADS={value}").code == 0
        assert slots.log() == f"warm {is_warm}\n"


def test_a_process_with_other_limits_comes_from_another(slots: Slots) -> None:
    """A fork has the file mode mask, limits, priority and search path of what it came from."""
    facts = "import os, resource, framework\nmask = os.umask(0)\n"
    facts += "print(framework.PID != os.getpid(), oct(mask), resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
    slots.make(count=3)
    slots.warm()
    usual, (soft, hard) = os.umask(0o077), resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert slots.run(facts, "--wait").code == 0
        assert slots.log().split()[:2] == ["False", "0o77"]
    finally:
        os.umask(usual)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    try:
        assert slots.run(facts, "--wait").code == 0
        assert slots.log().split()[::2] == ["False", str(soft - 1)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert slots.run(facts, "--wait").code == 0
    assert slots.log().split() == ["True", oct(usual), str(soft)]


def test_the_search_path_of_a_preloader_is_that_of_its_jobs(
    slots: Slots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(tmp_path / "wheels", "framework", code=f"{FRAMEWORK}\nPATH = os.environ['PATH']\n")
    monkeypatch.setenv("PATH", f"/first-of-this-test:{os.environ['PATH']}")
    slots.make()
    slots.warm()
    code = f"{IS_WARM}own, *path = os.environ['PATH'].split(':'); print(framework.PATH == ':'.join(path))"
    assert slots.run(code, "--wait").code == 0
    assert slots.log() == "warm True\nTrue\n"
    monkeypatch.setenv("PATH", f"/second-of-this-test:{os.environ['PATH']}")
    assert slots.run(IS_WARM, "--wait").code == 0
    assert slots.log() == "warm False\n"


def test_no_waiting_process_keeps_a_secret(slots: Slots, monkeypatch: pytest.MonkeyPatch) -> None:
    slots.make()
    for variable in ("HF_TOKEN=hidden", "STORE=https://me:hidden@example.com/"):
        for _ in range(2):
            assert slots.run(IS_WARM, "--wait", f"--env={variable}", "--allow-plaintext-secrets").code == 0
            assert slots.log() == "warm False\n"
        assert slots.preloaders() == [] and not (slots.home / "slots").exists()
    # the password of a proxy stays with the job
    monkeypatch.setenv("HTTPS_PROXY", "http://me:hidden-word@127.0.0.1:9")
    slots.warm()
    assert slots.run(f"{IS_WARM}print(os.environ['HTTPS_PROXY'][:11])", "--wait").code == 0
    assert slots.log() == "warm True\nhttp://me:h\n"
    (preloader,) = slots.preloaders()
    assert b"hidden-word" not in Path(f"/proc/{preloader}/environ").read_bytes()


def _is_ready(lock: Path) -> bool:
    return lock.with_suffix(".socket").exists()


@pytest.mark.parametrize(
    ("modules", "code", "why"),
    [
        ("nothere", "", "No module named 'nothere'"),
        ("framework", "raise RuntimeError('no ' * 999)", "RuntimeError: no no"),
        ("framework", "import sys; sys.exit(3)", "SystemExit: 3"),
        (
            "framework",
            "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
            "starts threads",
        ),
    ],
)
def test_modules_that_cannot_be_kept_are_told(
    slots: Slots, tmp_path: Path, modules: str, code: str, why: str
) -> None:
    wheel(tmp_path / "wheels", "framework", code=f"{FRAMEWORK}\n{code}\n")
    slots.make(modules=modules)
    assert slots.run("print(1)", "--wait").code == 0
    wait_until(lambda: list(slots.home.glob("slots/*/*.reason")) != [])
    assert slots.run("print(2)", "--wait").code == 0
    assert slots.log() == "2\n"
    assert "cannot be kept imported: " in slots.service_log() and why in slots.service_log()
    assert slots.preloaders() == []


def test_reboot_and_delete_end_the_processes(slots: Slots) -> None:
    slots.make()
    slots.warm()
    (preloader,) = slots.preloaders()
    assert slots.vtrain("persistent-resources", "reboot", "team", "--backend=local").code == 0
    wait_until(lambda: not _is_alive(preloader), patience=30)
    assert slots.run(IS_WARM, "--wait").code == 0
    assert slots.log() == "warm False\n"
    wait_until(lambda: slots.sockets() != [])
    (preloader,) = slots.preloaders()
    assert slots.vtrain("persistent-resources", "delete", "team", "--backend=local").code == 0
    wait_until(lambda: not _is_alive(preloader), patience=30)
    assert not list((slots.home / "slots").iterdir())


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


WAITS = """
import os, pathlib, signal, sys, time, framework
def stop(*_):
    print("stopping", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
os.write(1, f"begun {os.getpid()} {os.getppid()} {framework.PID != os.getpid()}\\n".encode())
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
print("done")
"""


@pytest.fixture
def running(slots: Slots, tmp_path: Path) -> Any:
    """A warm job that waits, and the numbers of its trainer and its shim."""
    slots.make()
    slots.warm()
    assert slots.run(WAITS, args=(str(tmp_path / "go"),)).code == 0
    found: list[int] = []

    def has_begun() -> bool:
        text = slots.vtrain("logs", "@last").out
        begun = re.search(r"begun (\d+) (\d+) True", text)
        found[:] = [int(begun[1]), int(begun[2])] if begun else []
        return bool(found)

    wait_until(has_begun)
    return found


def test_a_job_outlives_the_process_that_it_came_from(
    slots: Slots, running: list[int], tmp_path: Path
) -> None:
    (preloader,) = slots.preloaders()
    os.kill(preloader, signal.SIGKILL)
    wait_until(lambda: not _is_alive(preloader), patience=30)
    (tmp_path / "go").touch()
    assert slots.vtrain("custom-jobs", "wait", "@last").code == 0
    assert slots.log().endswith("done\n")
    assert slots.run(IS_WARM, "--wait").code == 0
    assert slots.log() == "warm False\n"
    wait_until(lambda: slots.preloaders() not in ([], [preloader]) and slots.sockets() != [])


def test_a_warm_job_is_cancelled_with_sigterm(slots: Slots, running: list[int]) -> None:
    assert slots.vtrain("custom-jobs", "cancel", "@last").code == 0
    assert slots.vtrain("custom-jobs", "wait", "@last").code == 11
    assert slots.log().endswith("stopping\n")
    assert not any(map(_is_alive, running))


def test_a_killed_shim_ends_its_trainer(slots: Slots, running: list[int], tmp_path: Path) -> None:
    os.kill(running[1], signal.SIGKILL)
    wait_until(lambda: not any(map(_is_alive, running)), patience=30)
    (tmp_path / "go").touch()
    assert slots.vtrain("custom-jobs", "wait", "@last").code == 0
    assert slots.log().count("begun") == 2  # the job lost it, and has restarted


def test_another_supervisor_finds_a_warm_replica(slots: Slots, running: list[int], tmp_path: Path) -> None:
    (shown,) = json.loads(slots.vtrain("top", "@last", "--format=json").out)
    assert shown["processes"] == 1, "a command runs beside a warm trainer"
    job = slots.vtrain("custom-jobs", "list", "--limit=1", "--format=value(name.basename())").out.strip()
    supervisor = living_supervisor(JobFolder(slots.home / "jobs" / job))
    assert supervisor > 1
    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: not _is_alive(supervisor), patience=30)
    assert slots.vtrain("custom-jobs", "describe", "@last").code == 0
    (tmp_path / "go").touch()
    assert slots.vtrain("custom-jobs", "wait", "@last").code == 0
    assert slots.log().count("begun") == 1 and slots.log().endswith("done\n")


def test_slots_are_those_of_their_home(slots: Slots, tmp_path: Path) -> None:
    slots.make()
    slots.warm()
    (preloader,) = slots.preloaders()
    (slots.home / "slots").rename(tmp_path / "moved")
    wait_until(lambda: not _is_alive(preloader), patience=30)


def test_modules_that_are_refused(vtrain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    line = ("persistent-resources", "create", "--persistent-resource-id=team", POOL.format(count=1))
    for modules in ("a b", "-x", "a..b", "1a", "a;b", "../x"):
        refused = vtrain(*line, f"--preload={modules}")
        assert (refused.code, "is not the name of a module" in refused.err) == (2, True)
    monkeypatch.setenv("CLOUDSDK_CORE_PROJECT", "demo")
    monkeypatch.setenv("CLOUDSDK_AI_REGION", "us-central1")
    refused = vtrain(*line, "--preload=torch", "--backend=vertex", "--dry-run")
    assert (refused.code, "--preload is for jobs on this machine" in refused.err) == (1, True), refused.err
