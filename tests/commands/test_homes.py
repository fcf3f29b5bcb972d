"""Homes that cannot be written, are in use, are full, or belong to somebody else."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.privileges import mounted_tmpfs, run_bound, vtrain_as_nobody
from lib.supervisors import living_supervisor
from lib.waiting import wait_until

from vtrain.runtime import database
from vtrain.runtime.adoption import RESPAWN_SECONDS
from vtrain.runtime.folder import JobFolder

pytestmark = pytest.mark.end_to_end

VTRAIN = [sys.executable, "-m", "vtrain", "custom-jobs"]
CREATE = ["create", "--backend=process", "--display-name=a", "--format=value(name)"]
HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.readline()
"""
WRITE_AND_DIE = """
import json, os, sys
from pathlib import Path
from vtrain.runtime.store import Store
store = Store.open(Path(sys.argv[1]))
found = store.get(sys.argv[2])
document = json.dumps({"name": found.name, "state": found.state, "displayName": "written at last"})
store.update(found.name, state=found.state, end_time=found.end_time, document=document)
os._exit(0)
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A job without a package: a module of the standard library."""
    pool = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": 1,
        "pythonPackageSpec": {"pythonModule": "this", "packageUris": [], "executorImageUri": ""},
    }
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"workerPoolSpecs": [pool]}))
    file.chmod(0o644)
    return f"--config={file}"


@pytest.fixture
def job(vtrain, config: str) -> str:
    """A job that has ended in the test's home."""
    ended = vtrain("custom-jobs", *CREATE, config, "--wait")
    assert ended.code == 0, ended.err
    return ended.out.strip()


def traces(home: Path) -> list[str]:
    """What a create may leave in a home."""
    return sorted(path.name for path in (home / "jobs").iterdir())


@pytest.fixture
def read_only(vtrain_home: Path, job: str) -> Iterator[Path]:
    vtrain_home.chmod(0o500)
    yield vtrain_home
    vtrain_home.chmod(0o700)


def test_what_ended_is_read_in_a_home_that_cannot_be_written(read_only: Path, job: str, config: str) -> None:
    environment = {"VTRAIN_HOME": str(read_only)}
    outputs = {}
    for argv in (["list", "--format=value(name,state)"], ["describe", job], ["stream-logs", job]):
        ended = run_bound([*VTRAIN, *argv], environment)
        assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
        outputs[argv[0]] = ended.stdout
    assert outputs["list"].split() == [job, "JOB_STATE_SUCCEEDED"]
    assert "JOB_STATE_SUCCEEDED" in outputs["describe"]
    assert "Beautiful is better than ugly." in outputs["stream-logs"]
    before = traces(read_only)
    for argv in ([*CREATE, config], ["delete", job]):
        ended = run_bound([*VTRAIN, *argv], environment)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert f"vtrain cannot write to {read_only}." in ended.stderr
    assert traces(read_only) == before


def test_what_a_killed_writer_wrote_is_read_where_nothing_can_be_written(vtrain_home: Path, job: str) -> None:
    subprocess.run([sys.executable, "-c", WRITE_AND_DIE, str(vtrain_home), job], check=True)
    assert (vtrain_home / f"{database.DATABASE}-wal").stat().st_size > 0
    vtrain_home.chmod(0o500)
    try:
        argv = [*VTRAIN, "describe", job, "--format=value(displayName)"]
        assert run_bound(argv, {"VTRAIN_HOME": str(vtrain_home)}).stdout == "written at last\n"
    finally:
        vtrain_home.chmod(0o700)


def test_a_file_system_that_cannot_be_written(tmp_path: Path, vtrain, config: str, monkeypatch) -> None:
    with mounted_tmpfs(tmp_path / "mounted", "size=8m,mode=0755") as home:
        monkeypatch.setenv("VTRAIN_HOME", str(home))
        name = vtrain("custom-jobs", *CREATE, config, "--wait").out.strip()
        remount_read_only(home)
        assert vtrain("custom-jobs", "list", "--format=value(name)").out.strip() == name
        assert "Beautiful" in vtrain("custom-jobs", "stream-logs", name).out
        refused = vtrain("custom-jobs", *CREATE, config)
        assert (refused.code, refused.out) == (1, "")
        assert f"vtrain cannot write to {home}." in refused.err


def remount_read_only(folder: Path) -> None:
    """Done once nobody has a file open for writing any more."""

    def is_remounted() -> bool:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # Python 3.13 tells of those of earlier tests
            gc.collect()  # connections of commands that ran in this process
        return subprocess.run(["mount", "-o", "remount,ro", folder], capture_output=True).returncode == 0

    wait_until(is_remounted, pause=0.1)


@pytest.mark.parametrize("words", [("exec", "--", "true"), ("start", "--port=0"), ("start", "--detach")])
@pytest.mark.parametrize("has_folder", [False, True])
def test_an_emulator_names_the_folder_that_it_cannot_write_to(
    tmp_path: Path, words: tuple[str, ...], has_folder: bool
) -> None:
    home, folder = tmp_path / "home", tmp_path / "home" / "emulator"
    (folder if has_folder else home).mkdir(parents=True)
    for path in (folder, home)[not has_folder :]:
        path.chmod(0o500)
    refused = run_bound([sys.executable, "-m", "vtrain", "emulator", *words], {"VTRAIN_HOME": str(home)})
    assert (refused.returncode, refused.stdout) == (1, "")
    fault = f"vtrain cannot write to {folder}." if has_folder else f"Cannot make {folder}: Permission denied."
    assert refused.stderr == f"ERROR: {fault}\n  Set VTRAIN_HOME.\n"


def test_a_full_disk(tmp_path: Path, vtrain, config: str, monkeypatch) -> None:
    with mounted_tmpfs(tmp_path / "mounted", "size=4m,mode=0700") as home:
        monkeypatch.setenv("VTRAIN_HOME", str(home))
        name = vtrain("custom-jobs", *CREATE, config, "--wait").out.strip()
        before = traces(home)
        with pytest.raises(OSError, match="No space"), (home / "filler").open("wb", buffering=0) as filler:
            while filler.write(b"x" * 4096):
                pass
        refused = vtrain("custom-jobs", *CREATE, config)
        assert (refused.code, refused.out) == (1, "")
        assert f"The disk that holds {home} is full." in refused.err
        assert traces(home) == before
        assert vtrain("custom-jobs", "list", "--format=value(name)").out.strip() == name
        assert "Beautiful" in vtrain("custom-jobs", "stream-logs", name).out
        (home / "filler").unlink()
        assert vtrain("custom-jobs", *CREATE, config, "--wait").code == 0


WAITING = """
import os, time
print("up", flush=True)
while not os.path.exists({gate!r}):
    time.sleep(0.02)
"""


def test_a_log_is_read_on_a_full_disk_where_no_supervisor_can_live(
    tmp_path: Path, vtrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.py").write_text(WAITING.format(gate=str(tmp_path / "gate")))
    with mounted_tmpfs(tmp_path / "mounted", "size=8m,mode=0700") as home:
        monkeypatch.setenv("VTRAIN_HOME", str(home))
        words = ("submit", str(tmp_path / "t.py"), "--backend=process", "--format=value(name)")
        name = vtrain(*words).out.strip()
        folder = JobFolder(home / "jobs" / name.rpartition("/")[2])
        wait_until(lambda: "up\n" in vtrain("logs", name).out)
        os.kill(living_supervisor(folder), signal.SIGKILL)
        with pytest.raises(OSError, match="No space"), (home / "filler").open("wb", buffering=0) as filler:
            while filler.write(b"x" * 4096):
                pass
        full = f"The disk that holds {home} is full."
        time.sleep(RESPAWN_SECONDS)
        read = vtrain("logs", name)
        assert (read.code, "up\n" in read.out) == (0, True), read.err
        assert vtrain("custom-jobs", "describe", name, "--format=value(state)").out == "JOB_STATE_RUNNING\n"
        assert vtrain("ps", "--format=value(name)").out.strip() == name
        argv = [sys.executable, "-m", "vtrain", "logs", name, "-f"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
            assert follower.stdout is not None and follower.stderr is not None
            assert any("up\n" in line for line in follower.stdout)
            assert any(full in line.replace("\n", " ") for line in follower.stderr), "it says so"
            (home / "filler").unlink()
            (tmp_path / "gate").touch()
            _, err = follower.communicate(timeout=120)
            assert (follower.returncode, err.count(full)) == (0, 0), err


@pytest.fixture
def holder(vtrain_home: Path, job: str) -> Iterator[subprocess.Popen[bytes]]:
    """Somebody who has the database to himself until he reads a line."""
    argv = [sys.executable, "-c", HOLD, str(vtrain_home / database.DATABASE)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_a_store_in_use_for_a_while(vtrain, vtrain_home: Path, config: str, holder) -> None:
    argv = [*VTRAIN, *CREATE, config, "--wait"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as create:
        with pytest.raises(subprocess.TimeoutExpired):
            create.wait(2)  # it waits: it does not give up at once
        assert len(traces(vtrain_home)) <= 2
        holder.stdin.write(b"\n")
        holder.stdin.flush()
        out, err = create.communicate(timeout=120)
    assert create.returncode == 0, err
    assert vtrain("custom-jobs", "describe", out.decode().strip()).code == 0


def test_a_store_in_use_for_too_long(
    vtrain, vtrain_home: Path, job: str, config: str, holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.3)
    before = traces(vtrain_home)
    for argv in ([*CREATE, config], ["delete", job]):
        ended = vtrain("custom-jobs", *argv)
        assert (ended.code, ended.out) == (1, "")
        assert f"The store in {vtrain_home} is in use and stayed locked." in ended.err
        assert vtrain("custom-jobs", "list", "--format=value(name)").out.strip() == job
    assert traces(vtrain_home) == before


@pytest.fixture
def shared_place() -> Iterator[Path]:
    """A folder that every user can walk through, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="vtrain-test-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_jobs_of_another_user(shared_place: Path, vtrain, config: str, monkeypatch) -> None:
    home = shared_place / "home"
    monkeypatch.setenv("VTRAIN_HOME", str(home))
    job = vtrain("custom-jobs", *CREATE, config, "--wait").out.strip()
    for argv in (["list"], ["describe", job], ["stream-logs", job], ["cancel", job], ["delete", job]):
        ended = vtrain_as_nobody(["custom-jobs", *argv], home, shared_place)
        words = ended.stderr.partition("as nobody\n")[2]
        assert (ended.returncode, ended.stdout, "unexpected" in words) == (1, "", False)
        assert f"ERROR: vtrain cannot use {home}: Permission denied." in words
    assert vtrain("custom-jobs", "describe", job).code == 0


def test_a_home_that_somebody_else_has_made(shared_place: Path, vtrain, monkeypatch) -> None:
    """His jobs would run with our rights."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a home of another user")
    home = shared_place / "home"
    home.mkdir(mode=0o777)
    os.chown(home, 65534, 65534)
    monkeypatch.setenv("VTRAIN_HOME", str(home))
    (home / "store.db").write_bytes(b"")
    for argv in (["custom-jobs", "list"], ["gc"]):
        ended = vtrain(*argv)
        assert (ended.code, ended.out) == (1, "")
        assert f"{home} belongs to another user (uid 65534)" in ended.err


NOT_UTF8 = os.fsdecode(b"bad\xff")


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems hold UTF-8 names only")
@pytest.mark.parametrize(("verb", "code"), [("list", 1), ("local-run", 125)])
def test_a_home_whose_path_is_not_utf8(tmp_path: Path, verb: str, code: int) -> None:
    environment = os.environ | {"VTRAIN_HOME": str(tmp_path / NOT_UTF8)}
    (tmp_path / "t.py").write_text("print()")
    trainer = [f"--local-package-path={tmp_path / 't.py'}"] if verb == "local-run" else []
    command = [*VTRAIN, verb, "--backend=process", *trainer]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == code
    assert "is not UTF-8.\n  Set VTRAIN_HOME.\n" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / NOT_UTF8).exists()


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems hold UTF-8 names only")
def test_a_trainer_in_a_folder_that_is_not_utf8(tmp_path: Path, vtrain, vtrain_home, monkeypatch) -> None:
    folder = tmp_path / NOT_UTF8
    folder.mkdir()
    (folder / "t.py").write_text("print()")
    monkeypatch.chdir(folder)
    ended = vtrain("custom-jobs", "local-run", "--backend=process", "--local-package-path=.", "--script=t.py")
    assert (ended.code, ended.out) == (1, "")
    assert "is not UTF-8.\n  Rename the folder.\n" in ended.err
    assert not (vtrain_home / "packages").exists()
