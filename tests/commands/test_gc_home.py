"""`vtrain gc` on what lies in vtrain's home, with jobs that really ran. Docker's part is in test_gc.py."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lib.privileges import run_bound
from lib.supervisors import living_supervisor
from lib.waiting import wait_until

from vtrain.runtime.folder import JobFolder
from vtrain.runtime.locks import lock_holder

pytestmark = pytest.mark.end_to_end

DAY = 86400.0
CREATE = "custom-jobs create --backend=process --environment=new --display-name=old".split()
AWAY = "Images and containers are left as they are: The Docker engine at "


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    monkeypatch.setenv("VTRAIN_GRACE_SECONDS", "0")


@pytest.fixture
def trainer(tmp_path: Path) -> Path:
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "__init__.py").write_text("")
    (tmp_path / "trainer" / "task.py").write_text("print('trained')\n")
    return tmp_path


def create(vtrain, trainer: Path, *flags: str) -> str:
    pool = (
        f"replica-count=1,machine-type=n1-standard-4,local-package-path={trainer},python-module=trainer.task"
    )
    return str(documents(vtrain, *CREATE, f"--worker-pool-spec={pool}", *flags)["name"])


def age(home: Path, days: float) -> None:
    """Let all that lies in the home be that old, and the jobs have ended then."""
    moment = time.time() - days * DAY
    for path in home.rglob("*"):
        os.utime(path, (moment, moment), follow_symlinks=False)


def documents(vtrain, *argv: str) -> Any:
    """What a command answers."""
    ended = vtrain(*argv, "--format=json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def gc(vtrain, *flags: str) -> dict[str, str]:
    """What becomes of the leftovers, by their kind."""
    return {entry["kind"]: entry["status"] for entry in documents(vtrain, "gc", *flags)}


def test_an_empty_home_is_not_made(vtrain, vtrain_home: Path) -> None:
    ended = vtrain("gc")
    assert (ended.code, ended.out) == (0, "")
    away, nothing = ended.err.splitlines()
    assert away.startswith(AWAY) and nothing == "There is nothing to remove."
    assert not vtrain_home.exists()


@pytest.mark.parametrize("value", ["", "soon", "30x", "30", "0", "1.5", "0.0", "1h30", "1d.5"])
def test_ages_are_durations_with_a_unit(vtrain, vtrain_home: Path, value: str) -> None:
    ended = vtrain("gc", f"--older-than={value}")
    assert (ended.code, "--older-than: " in ended.err) == (2, True)
    assert not vtrain_home.exists()


def test_everything_of_an_ended_job_goes(vtrain, trainer: Path, vtrain_home: Path) -> None:
    name = create(vtrain, trainer, "--wait", "--staging-bucket=gs://staging")
    assert gc(vtrain) == {}
    assert gc(vtrain, "--older-than=0s") == {"job": "removed"}  # the rest was used just now
    assert (
        "; 0 would go, 0 B: used within the last hour.\n" in vtrain("gc", "--older-than=0s", "--dry-run").err
    )
    assert "\nWhat was used within the last hour stays. " in vtrain("gc", "--older-than=0s").err
    name = create(vtrain, trainer, "--wait", "--staging-bucket=gs://staging")
    age(vtrain_home, 40)
    planned = vtrain("gc", "--older-than=0s", "--dry-run")
    _, total, environments, packages, jobs = planned.err.splitlines()
    assert total.startswith("Would remove 5 items, ")
    assert re.fullmatch(r"2 environments, [\d.]+ k?B; 2 would go, [\d.]+ k?B\.", environments)
    assert re.fullmatch(r"1 package, [\d.]+ k?B; 2 would go, [\d.]+ k?B\.", packages)
    assert re.fullmatch(r"1 job, [\d.]+ k?B; 1 would go, [\d.]+ k?B\.", jobs)
    assert planned.out.splitlines()[0].split() == ["NAME", "KIND", "SIZE", "CREATED", "STATUS"]
    assert len(re.findall(f"^{name} +job +.* kB +.* would be removed$", planned.out, re.MULTILINE)) == 1
    assert [job["name"] for job in documents(vtrain, "custom-jobs", "list")] == [name]
    ended = documents(vtrain, "gc", "--older-than=0s")
    assert [entry["status"] for entry in ended] == ["removed"] * 5
    assert sorted(entry["kind"] for entry in ended) == ["environment"] * 2 + ["job"] + ["package"] * 2
    assert vtrain("custom-jobs", "describe", name).code == 1
    kept = {".claims", "store.db", "store.db-wal", "store.db-shm", "vtrain.log"}
    assert [path for path in vtrain_home.rglob("*") if path.is_file() and path.name not in kept] == []
    assert vtrain("gc", "--older-than=0s").err.splitlines()[1] == "There is nothing to remove."


@pytest.fixture
def waiting(vtrain, trainer: Path) -> Iterator[str]:
    """A job that runs until the test is over."""
    (trainer / "trainer" / "task.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(600)\n")
    name = create(vtrain, trainer, "--staging-bucket=gs://staging")
    wait_until(lambda: documents(vtrain, "custom-jobs", "describe", name)["state"] == "JOB_STATE_RUNNING")
    yield name
    vtrain("custom-jobs", "cancel", name)
    vtrain("custom-jobs", "wait", name)


def test_what_a_living_job_uses_stays(vtrain, waiting: str, vtrain_home: Path) -> None:
    for folder in ("environments", "packages", "buckets"):
        age(vtrain_home / folder, 40)
    assert gc(vtrain, "--older-than=0s") == {
        "environment": "kept: a job uses it",
        "package": "removed",  # the copy that was staged is the job's
    }
    assert documents(vtrain, "custom-jobs", "describe", waiting)["state"].endswith("RUNNING")


@pytest.fixture
def moved_store(vtrain, trainer: Path, waiting: str, vtrain_home: Path, tmp_path: Path) -> Iterator[Path]:
    """A home whose store was moved away, as the advice says, and that has another one since."""
    away = tmp_path / "away"
    move_store(vtrain_home, away)
    (trainer / "trainer" / "task.py").write_text("print('another')\n")
    create(vtrain, trainer, "--wait")
    yield vtrain_home
    move_store(vtrain_home, tmp_path / "other")
    move_store(away, vtrain_home)


def move_store(home: Path, place: Path) -> None:
    place.mkdir(exist_ok=True)
    for file in home.glob("store.db*"):
        file.rename(place / file.name)


@pytest.mark.parametrize("killed", ["nobody", "supervisor"])
def test_a_job_of_a_store_that_was_moved_away_goes_on(
    vtrain, waiting: str, moved_store: Path, killed: str
) -> None:
    folder = JobFolder(moved_store / "jobs" / waiting.rpartition("/")[2])
    shim = lock_holder(folder.replica("workerpool0-0").lock)
    if killed == "supervisor":
        os.kill(living_supervisor(folder), signal.SIGKILL)
    age(moved_store, 40)
    found = documents(vtrain, "gc", "--older-than=0s")
    stays = "kept: it has a process" if killed == "supervisor" else "kept: a supervisor has it"
    assert {entry["status"] for entry in found if entry["id"] == folder.path.name} == {stays}
    assert {entry["kind"]: entry["status"] for entry in found}["environment"] == "kept: a job uses it"
    assert not [entry for entry in found if entry["kind"] in ("process", "cgroup")]
    assert lock_holder(folder.replica("workerpool0-0").lock) == shim > 0
    assert "up" in folder.log("workerpool0-0").read_text()


def test_processes_of_a_job_that_ended_go(vtrain, waiting: str, vtrain_home: Path) -> None:
    """As after a machine that lost the supervisor, the shim and the store's last hours."""
    from vtrain.runtime.store import Store

    tmp = vtrain_home / "jobs" / waiting.rpartition("/")[2] / "replicas" / "workerpool0-9" / "tmp"
    with subprocess.Popen(["sleep", "600"], env={"PATH": os.environ["PATH"], "TMPDIR": str(tmp)}) as stray:
        try:
            assert "process" not in gc(vtrain)
            vtrain("custom-jobs", "cancel", waiting)
            vtrain("custom-jobs", "wait", waiting)
            assert Store.open(vtrain_home).get(waiting).state == "JOB_STATE_CANCELLED"
            assert gc(vtrain)["process"] == "removed"
            assert stray.wait(60) == -signal.SIGKILL
        finally:
            stray.kill()


def test_two_at_once_and_one_that_is_killed_leave_nothing(vtrain, trainer: Path, vtrain_home: Path) -> None:
    command = [sys.executable, "-m", "vtrain", "gc", "--older-than=0s"]
    for killed in (True, False):
        for _ in range(3):
            create(vtrain, trainer, "--wait")
        age(vtrain_home, 40)
        for patience in (0.0, 0.3, 0.5, 0.6) if killed else ():
            started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(patience)
            started.kill()
            started.wait()
        quiet, pipe = subprocess.DEVNULL, subprocess.PIPE
        crew = [subprocess.Popen(command, stdout=quiet, stderr=pipe) for _ in range(1 if killed else 3)]
        told = [one.communicate(timeout=120)[1] for one in crew]
        for one, err in zip(crew, told, strict=True):
            assert (one.returncode, b"Traceback" in err, b"unexpectedly" in err) == (0, False, False), err
        assert documents(vtrain, "custom-jobs", "list") == []
        assert [*(vtrain_home / "jobs").iterdir(), *vtrain_home.rglob(".gone-*")] == []
        assert list((vtrain_home / "packages").iterdir()) == []


def test_output_of_ended_jobs_goes_only_where_it_is_asked_for(
    vtrain, trainer: Path, vtrain_home: Path
) -> None:
    folder = output_folder(vtrain, trainer, vtrain_home)
    own = vtrain_home / "buckets" / "local-runs" / "mine"
    own.mkdir()
    assert gc(vtrain, "--kind=output") == {}
    age(vtrain_home, 40)
    told = vtrain("gc", "--dry-run").err
    assert "1 output, 5 B; only --kind=output removes those older than 30d." in told
    assert "those older than 7d." in vtrain("gc", "--dry-run", "--older-than=7d").err
    assert gc(vtrain).keys() == {"package", "environment"} and folder.is_dir()
    planned = documents(vtrain, "gc", "--kind=output", "--dry-run")
    assert [(entry["id"], entry["status"]) for entry in planned] == [(folder.name, "would be removed")]
    assert gc(vtrain, "--kind=output") == {"output": "removed"}
    assert not folder.exists() and own.is_dir()


def test_what_cannot_be_removed_is_told_and_ends_with_1(vtrain_home: Path) -> None:
    """Somebody took the right to write into a bucket away."""
    bucket = vtrain_home / "buckets" / "local-runs"
    output, left = bucket / "train-1234567890123456789", vtrain_home / "packages" / ".gone-trainer"
    output.mkdir(parents=True)
    left.mkdir(parents=True)
    (left / "file").write_text("heavy")
    age(vtrain_home, 40)
    bucket.chmod(0o500)
    words = (sys.executable, "-m", "vtrain", "gc", "--kind=output,temporary", "--format=value(kind,status)")
    try:
        planned, ended = run_bound([*words, "--dry-run"]), run_bound(words)
    finally:
        bucket.chmod(0o700)
    assert (planned.returncode, "ERROR" in planned.stderr) == (0, False)
    assert sorted(ended.stdout.splitlines()) == ["output\tkept: Permission denied", "temporary\tremoved"]
    assert ended.stderr == ("Removed 1 item, 5 B.\nERROR: 1 item could not be removed.\n  STATUS says why.\n")
    assert ended.returncode == 1 and output.exists() and not left.exists()


def test_all_takes_every_kind_of_any_age_and_says_what_stays(
    vtrain, trainer: Path, vtrain_home: Path
) -> None:
    job = create(vtrain, trainer, "--wait")
    ended = vtrain("gc", "--all")
    assert (ended.code, ended.out) == (1, "") and ended.err.startswith("ERROR: Nothing was removed.\n")
    for used in ("packages", "environments"):
        age(vtrain_home / used, -0.01)  # however slow the machine is
    found = documents(vtrain, "gc", "--all", "--quiet")
    fates = {(entry["kind"], entry["status"]) for entry in found}
    assert fates == {
        ("job", "removed"),
        ("output", "removed"),
        ("package", "kept: used just now"),
        ("environment", "kept: used just now"),
    }
    assert vtrain("custom-jobs", "describe", job).code == 1
    age(vtrain_home, 1)
    ended = vtrain("gc", "--all", "--quiet")
    assert ended.code == 0 and "kept" not in ended.out
    assert documents(vtrain, "gc", "--all", "--quiet") == []


def test_files_of_several_names_count_once(vtrain, vtrain_home: Path) -> None:
    for name in ("a", "b"):
        (vtrain_home / "environments" / "packages" / name).mkdir(parents=True)
    first = vtrain_home / "environments" / "packages" / "a" / "large"
    first.write_bytes(b"1" * 1000)
    os.link(first, first.with_name("again"))
    os.link(first, first.parents[1] / "b" / "large")
    age(vtrain_home, 40)
    found = documents(vtrain, "gc", "--dry-run")
    assert sorted(entry["size"] for entry in found) == [0, 1000]
    assert "2 environments, 1.0 kB; 2 would go, 1.0 kB." in vtrain("gc", "--dry-run").err


def test_output_that_is_a_models_is_kept(vtrain, trainer: Path, vtrain_home: Path) -> None:
    folder = output_folder(vtrain, trainer, vtrain_home)
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model" / "model.pkl").touch()
    flags = ("--display-name=m", "--model-id=m", "--container-image-uri=serve")
    uri = f"--artifact-uri=gs://local-runs/{folder.name}/model"
    assert vtrain("models", "upload", *flags, uri).code == 0
    age(vtrain_home, 40)
    planned = documents(vtrain, "gc", "--kind=output", "--dry-run")
    assert [entry["status"] for entry in planned] == ["kept: a model has its files there"]
    gc(vtrain, "--kind=output")
    assert folder.is_dir()
    assert vtrain("models", "delete", "m").code == 0
    assert gc(vtrain, "--kind=output") == {"output": "removed"}


def test_output_of_a_job_that_runs_is_kept(vtrain, trainer: Path, vtrain_home: Path) -> None:
    (trainer / "trainer" / "task.py").write_text("import time\ntime.sleep(600)\n")
    name = create(vtrain, trainer)
    uri = documents(vtrain, "custom-jobs", "describe", name)["jobSpec"]["baseOutputDirectory"]
    folder = vtrain_home / "buckets" / uri["outputUriPrefix"].removeprefix("gs://")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        assert gc(vtrain, "--kind=output", "--older-than=0s") == {"output": "kept: a job uses it"}
    finally:
        vtrain("custom-jobs", "cancel", name)
        vtrain("custom-jobs", "wait", name)
    assert gc(vtrain, "--kind=output", "--older-than=0s") == {"output": "removed"}


@pytest.mark.parametrize("flags", [["--kind=outputs"], ["--kind=job", "--images"]])
def test_kinds_that_do_not_exist_are_refused(vtrain, flags: list[str], vtrain_home: Path) -> None:
    ended = vtrain("gc", *flags)
    assert (ended.code, "--kind" in ended.err) == (2, True)
    assert not vtrain_home.exists()


def test_delete_says_what_it_removes_and_where_the_output_stays(
    vtrain, trainer: Path, vtrain_home: Path
) -> None:
    folder = output_folder(vtrain, trainer, vtrain_home)
    ended = vtrain("custom-jobs", "delete", folder.name.rpartition("-")[2])
    assert re.search(r"\nRemoved its record, its log and its files \(.+ [kM]?B\)\.\n", ended.err)
    assert ended.err.endswith(f"Its output stays. To remove that too:\n$ rm -r {folder}\n")
    assert (folder / "model" / "weights").read_text() == "heavy"


def test_delete_says_that_files_of_the_working_directory_go(vtrain, trainer: Path) -> None:
    (trainer / "trainer" / "task.py").write_text("open('model.bin', 'w').write('x')\n")
    name = create(vtrain, trainer, "--wait")
    told = vtrain("custom-jobs", "delete", name).err
    assert "), also those that the trainer left in its working directory.\n" in told


def test_delete_removes_an_output_folder_without_a_file(vtrain, trainer: Path, vtrain_home: Path) -> None:
    name = create(vtrain, trainer, "--wait")
    runs = vtrain_home / "buckets" / "local-runs"
    assert [path.name for path in runs.iterdir()] == [f"old-{name.rpartition('/')[2]}"]
    assert "stays" not in vtrain("custom-jobs", "delete", name).err
    assert list(runs.iterdir()) == []


def output_folder(vtrain, trainer: Path, home: Path) -> Path:
    """Where a job has written a model that named no base output directory."""
    (trainer / "trainer" / "task.py").write_text(
        "import os, pathlib\npathlib.Path(os.environ['AIP_MODEL_DIR'], 'weights').write_text('heavy')\n"
    )
    job = documents(
        vtrain, *CREATE, f"--local-package-path={trainer}", "--python-module=trainer.task", "--wait"
    )
    uri = job["jobSpec"]["baseOutputDirectory"]["outputUriPrefix"]
    return home / "buckets" / uri.removeprefix("gs://")
