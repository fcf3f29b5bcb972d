"""Random damage to every file of a job: commands answer in sentences, and jobs end.

The damage is the same in every run; VTRAIN_CHAOS_SEED gives other damage.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lib.chaos_report import SEED_VARIABLE
from lib.waiting import wait_until, wait_until_gone

import vtrain
from vtrain.backends import BackendSettings
from vtrain.backends.local import LocalBackend
from vtrain.backends.registry import open_backend
from vtrain.messages import states
from vtrain.messages.custom_job import EnvVar
from vtrain.runtime.folder import JobFolder
from vtrain.testing.script import Script, script_job

pytestmark = pytest.mark.end_to_end

ROOT = str(Path(vtrain.__file__).parent.parent)
SEED = os.environ.get(SEED_VARIABLE, "1")
CASES = 32
PATIENCE_SECONDS = 150.0
COMMANDS = (
    ("describe",),
    ("stream-logs",),
    ("stream-logs", "--task-name=workerpool0-0"),
    ("wait", "--wait-timeout=60s"),
    ("cancel",),
)


def truncate(path: Path, chance: random.Random) -> None:
    os.truncate(path, chance.randrange(path.stat().st_size + 1))


def empty(path: Path, chance: random.Random) -> None:
    os.truncate(path, 0)


def flip(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(min(len(content), chance.randrange(1, 40))):
        content[chance.randrange(len(content))] ^= chance.randrange(1, 256)
    path.write_bytes(content)


def overwrite(path: Path, chance: random.Random) -> None:
    """Random bytes from a random offset on, up to megabytes."""
    place = chance.randrange(path.stat().st_size + 1)
    with path.open("r+b") as file:
        file.seek(place)
        file.write(chance.randbytes(chance.choice([10, 1000, 3_000_000])))


def holes(path: Path, chance: random.Random) -> None:
    with path.open("r+b") as file:
        file.truncate(2**22 if path.suffix == ".log" else chance.choice([10_000, 2**33]))


def remove(path: Path, chance: random.Random) -> None:
    path.unlink()


def folder(path: Path, chance: random.Random) -> None:
    path.unlink()
    path.mkdir()


def fifo(path: Path, chance: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def link(path: Path, chance: random.Random) -> None:
    path.unlink()
    path.symlink_to(chance.choice([path.name, "/nowhere", "/"]))


DAMAGES: tuple[Callable[[Path, random.Random], None], ...] = (
    *(truncate, empty, flip, overwrite, holes, remove, folder, fifo, link),
)


def files_of(job: Path) -> list[Path]:
    """Every file of a job but what its trainer has written itself."""
    return sorted(path for path in job.rglob("*") if path.is_file() and "work" not in path.parts)


def opened(home: Path) -> LocalBackend:
    return open_backend("process", BackendSettings(home=home, project="local", region="us-central1"))


def submit(backend: LocalBackend, *scripts: Script) -> str:
    job = script_job(*scripts, env=[EnvVar(name="PYTHONPATH", value=ROOT)])
    return backend.submit(backend.plan(job)).name


def until_ended(backend: LocalBackend, name: str) -> str:
    wait_until(lambda: states.has_ended(backend.get(name).state), f"{name} does not end")
    return backend.get(name).state


@pytest.fixture
def home(vtrain_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("VTRAIN_GRACE_SECONDS", "1")
    yield vtrain_home
    wait_until_gone(lambda: processes_of(vtrain_home))


def processes_of(home: Path) -> list[bytes]:
    """The command lines of living processes of this home's jobs."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
        except OSError:
            continue
        if f"{home}/jobs/".encode() in command or f"TMPDIR={home}/jobs/".encode() in environment:
            found.append(command)
    return found


@pytest.mark.timeout(600)
def test_commands_about_an_ended_job_whose_files_are_damaged(vtrain, home: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    backend = opened(home)
    long = Script(tuple(("stdout", f"line {number}\n") for number in range(200)))
    name = submit(backend, long.write_error("no newline").exit(3), Script().write("other\n"))
    assert until_ended(backend, name) == states.FAILED
    job = home / "jobs" / name.rpartition("/")[2]
    kept = tmp_path / "kept"
    shutil.copytree(job, kept, ignore=shutil.ignore_patterns("wake"))
    chance = random.Random(f"{SEED} ended")
    files = files_of(kept)
    for number in range(CASES):
        shutil.rmtree(job)
        shutil.copytree(kept, job)
        # Each file comes in turn, then any of them; a third of the time two at once.
        chosen = {files[number % len(files)], *chance.sample(files, chance.choice([0, 0, 1]))}
        case = []
        for path in sorted(chosen):
            damage = chance.choice(DAMAGES)
            damage(job / path.relative_to(kept), chance)
            case.append(f"{damage.__name__} {path.relative_to(kept)}")
        for verb, *flags in COMMANDS:
            check(vtrain("custom-jobs", verb, name, *flags), f"{case}: {verb}")
        check(vtrain("custom-jobs", "list"), f"{case}: list")
        check(vtrain("gc", "--dry-run"), f"{case}: gc")
        assert vtrain("custom-jobs", "describe", name).code == 0, case
    damage_all(job, chance)
    assert vtrain("custom-jobs", "delete", name, "--quiet").code == 0
    assert not job.exists()


def check(ended, case: str) -> None:  # type: ignore[no-untyped-def]
    """A code of the table, and words that are no traceback of ours."""
    assert ended.code in (0, 1, 10), f"{case}: exit code {ended.code}\n{ended.err}"
    ours = [line for line in ended.err.splitlines() if "/vtrain/" in line and 'File "' in line]
    assert ours == [] and "unexpectedly" not in ended.err, f"{case}\n{ended.err}"


def damage_all(job: Path, chance: random.Random) -> None:
    for path in files_of(job):
        chance.choice(DAMAGES)(path, chance)


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="supervisors are found in /proc")
def test_jobs_whose_files_are_damaged_while_they_run_end(home: Path) -> None:
    """Cancelled with their supervisor alive, or after its death; nothing of them runs afterwards."""
    backend = opened(home)
    chance = random.Random(f"{SEED} running")
    names = [submit(backend, Script().write("ready\n").hang()) for _ in range(10)]
    for name in names:
        log = JobFolder(home / "jobs" / name.rpartition("/")[2]).log("workerpool0-0")
        wait_until(lambda: log.exists() and log.read_bytes() == b"ready\n")  # noqa: B023
    for number, name in enumerate(names):
        job = home / "jobs" / name.rpartition("/")[2]
        for path in chance.sample(files_of(job), 2):
            chance.choice(DAMAGES)(path, chance)
        if number % 2:
            kill_supervisor(job)
    for name in names:
        backend.get(name)
        backend.cancel(name)
    found = {until_ended(backend, name) for name in names}
    assert found <= {states.CANCELLED, states.FAILED}


def test_a_log_whose_files_were_both_removed_is_named(vtrain, home: Path) -> None:
    backend = opened(home)
    name = submit(backend, Script().write("trained\n"))
    assert until_ended(backend, name) == states.SUCCEEDED
    logs = JobFolder(home / "jobs" / name.rpartition("/")[2]).logs
    for path in logs.glob("workerpool0-0.*"):
        path.unlink()
    for selected in ((), ("--task-name=workerpool0-0",)):
        ended = vtrain("custom-jobs", "stream-logs", name, *selected)
        assert ended.code == 0
        assert "WARNING: The log of workerpool0-0 cannot be read: " in ended.err
        assert f"{logs}/workerpool0-0.0.log is missing or is no file." in ended.err
    assert "cannot be read" not in vtrain("custom-jobs", "stream-logs", name, "--task-name=service").err


@pytest.mark.parametrize("is_killed", [False, True], ids=["supervised", "adopted"])
def test_a_lock_that_is_no_file_hides_no_replica(home: Path, is_killed: bool) -> None:
    backend = opened(home)
    name = submit(backend, Script().write("ready\n").hang())
    job = JobFolder(home / "jobs" / name.rpartition("/")[2])
    wait_until(job.replica("workerpool0-0").started)
    lock = job.replica("workerpool0-0").lock
    lock.unlink()
    os.mkfifo(lock)
    if is_killed:
        kill_supervisor(job.path)
    backend.get(name)
    backend.cancel(name)
    assert until_ended(backend, name) == states.CANCELLED


def kill_supervisor(job: Path) -> None:
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(job).encode() in command and any(part.endswith(b"/supervise.py") for part in command):
            os.kill(int(entry.name), 9)
