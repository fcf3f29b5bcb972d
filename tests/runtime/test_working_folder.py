"""The working directory of a replica: filled with the trainer's files, looked at when its job has ended."""

from __future__ import annotations

import compileall
import os
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from lib.privileges import run_bound

from vtrain.packaging.archive import SNAPSHOT
from vtrain.packaging.sdist import build_sdist, keep_snapshot, plan_sdist
from vtrain.packaging.source import TrainerSource
from vtrain.runtime.folder import JobFolder, ReplicaFolder
from vtrain.runtime.launching import PrepareFailed
from vtrain.runtime.working_folder import MOST_COUNTED, Remarks, fill, keep_files, remarks_on, tell

TRAINER = {
    "trainer/__init__.py": "",
    "trainer/task.py": "print('hello')\n",
    "trainer/defaults.json": "{}",
    "config/config.yaml": "lr: 0.1\n",
    "run.sh": "#!/bin/sh\n",
}
SETUP = {
    "setup.py": "from setuptools import setup\nsetup(name='trainer', version='1', packages=['trainer'])\n"
}


def make_attempt(tmp_path: Path, files: Mapping[str, str], **source: str) -> ReplicaFolder:
    """An attempt of a job whose trainer is in `tmp_path/source`."""
    folder = tmp_path / "source"
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if (folder / "run.sh").exists():
        (folder / "run.sh").chmod(0o755)
    wanted = source or {"python_module": "trainer.task"}
    plan = plan_sdist(TrainerSource(folder=folder, **wanted))  # type: ignore[arg-type]
    if not plan.pep517:
        build_sdist(plan, tmp_path / "packages")
    else:
        (tmp_path / "packages" / plan.content_hash).mkdir(parents=True)
    job = JobFolder(tmp_path / "home" / "jobs" / "1")
    job.path.mkdir(parents=True)
    keep_files(str(keep_snapshot(plan, tmp_path / "packages")), job)
    return job.replica("workerpool0-0")


def files_in(work: Path) -> set[str]:
    return {str(path.relative_to(work)) for path in work.rglob("*") if not path.is_dir()}


@pytest.mark.parametrize("project", [{}, SETUP], ids=["folder", "project"])
def test_the_trainers_files_are_there(tmp_path: Path, project: dict[str, str]) -> None:
    attempt = make_attempt(tmp_path, TRAINER | project)
    fill(attempt, opened=False)
    assert files_in(attempt.work) == {*TRAINER, *project} - {"trainer/__init__.py"}
    assert (attempt.work / "config/config.yaml").read_text() == "lr: 0.1\n"
    assert os.access(attempt.work / "run.sh", os.X_OK)
    assert attempt.work.stat().st_mode & 0o777 == 0o700


def test_it_is_fresh_after_a_supervisor_died(tmp_path: Path) -> None:
    attempt = make_attempt(tmp_path, TRAINER)
    fill(attempt, opened=False)
    (attempt.work / "half").write_text("x")
    fill(attempt, opened=False)
    assert "half" not in files_in(attempt.work)


def test_a_container_may_write_as_any_user(tmp_path: Path) -> None:
    attempt = make_attempt(tmp_path, TRAINER)
    fill(attempt, opened=True)
    modes = {
        name: (attempt.work / name).stat().st_mode & 0o777
        for name in (".", "config", "run.sh", "config/config.yaml")
    }
    assert modes == {".": 0o777, "config": 0o777, "run.sh": 0o777, "config/config.yaml": 0o666}


def told(attempt: ReplicaFolder) -> str:
    """What is said about the only working directory of a job."""
    (note,) = tell(attempt.job, (attempt,)).notes
    start = f"Left in the working directory of {attempt.name}: {attempt.work} "
    assert note.startswith(start)
    return note.removeprefix(start)


def test_a_script_finds_an_empty_folder(tmp_path: Path) -> None:
    attempt = make_attempt(tmp_path, {"train.py": "", "data.txt": "x"}, script="train.py")
    fill(attempt, opened=False)
    assert files_in(attempt.work) == set()
    for name, text in (("train.py", ""), ("data.txt", "x"), ("model.pt", "m")):  # as its launcher does
        (attempt.work / name).write_text(text)
    assert told(attempt) == "(model.pt)"


def test_without_a_trainer_of_this_machine_every_file_is_new(tmp_path: Path) -> None:
    attempt = JobFolder(tmp_path / "1").replica("workerpool0-0")
    fill(attempt, opened=False)
    (attempt.work / "model.pt").write_text("m")
    assert told(attempt) == "(model.pt)"


def test_only_new_files_are_told_and_none_is_removed(tmp_path: Path) -> None:
    attempt = make_attempt(tmp_path, TRAINER)
    fill(attempt, opened=False)
    work = attempt.work
    assert compileall.compile_dir(work, quiet=1)
    (work / "config/config.yaml").write_text("lr: 0.2\n")
    (work / "out/deep").mkdir(parents=True)
    (work / "out/deep/model.pt").write_text("m")
    before = files_in(work)
    assert told(attempt) == "(out/deep/model.pt)"
    assert files_in(work) == before
    assert not (attempt.job.path / SNAPSHOT).exists()


def test_a_run_that_made_no_file_says_nothing(tmp_path: Path) -> None:
    attempt = make_attempt(tmp_path, TRAINER)
    fill(attempt, opened=False)
    assert tell(attempt.job, (attempt,)) == Remarks()


@pytest.mark.parametrize("target", ["mine", "config"], ids=["elsewhere", "to-itself"])
def test_a_link_in_the_place_of_a_folder_leads_nowhere(tmp_path: Path, target: str) -> None:
    attempt = make_attempt(tmp_path, TRAINER)
    fill(attempt, opened=False)
    (attempt.work / "config").rename(tmp_path / "mine")
    (attempt.work / "config").symlink_to(tmp_path / target if target == "mine" else target)
    assert told(attempt) == "(config)"


def test_a_link_in_place_of_the_working_directory_loses_nothing(tmp_path: Path) -> None:
    attempt = make_attempt(tmp_path, TRAINER)
    fill(attempt, opened=False)
    mine = tmp_path / "mine"
    attempt.work.rename(mine)
    attempt.work.symlink_to(mine)
    before = files_in(mine)
    assert tell(attempt.job, (attempt,)).notes == ()
    assert files_in(mine) == before


def test_names_of_any_bytes_are_told_on_one_line(tmp_path: Path) -> None:
    attempt = JobFolder(tmp_path / "jobs" / "1").replica("workerpool0-0")
    fill(attempt, opened=False)
    for name in (b"a\nb", b"c\xff", b"d\x1b[2J"):
        Path(os.fsdecode(bytes(attempt.work) + b"/" + name)).touch()
    remarks = tell(attempt.job, (attempt,))
    assert remarks.notes[0].endswith(r"(a\nb, c\udcff, d\x1b[2J)")
    assert remarks == remarks_on(tmp_path, "1")


@pytest.mark.child
def test_a_folder_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    attempt = make_attempt(tmp_path, TRAINER)
    fill(attempt, opened=False)
    (attempt.work / "closed").mkdir()
    (attempt.work / "closed").chmod(0)
    program = (
        "import sys; from pathlib import Path; from vtrain.runtime.folder import ReplicaFolder;"
        "from vtrain.runtime.working_folder import tell; attempt = ReplicaFolder(Path(sys.argv[1]));"
        "print(*tell(attempt.job, (attempt,)).notes)"
    )
    ended = run_bound([sys.executable, "-c", program, str(attempt.root)])
    (attempt.work / "closed").chmod(0o700)
    assert (ended.stdout.rpartition(" ")[2], ended.stderr) == ("(closed/)\n", "")


def test_no_more_is_counted_than_anybody_reads(tmp_path: Path) -> None:
    attempt = JobFolder(tmp_path / "1").replica("workerpool0-0")
    fill(attempt, opened=False)
    for number in range(MOST_COUNTED + 5):
        (attempt.work / f"{number:05}").touch()
    remarks = tell(attempt.job, (attempt,))
    expected = f"(00000, 00001, 00002 and more than {MOST_COUNTED - 3} more)"
    assert remarks.notes[0].endswith(f"{attempt.work} {expected}")


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    attempt = make_attempt(tmp_path, TRAINER)
    archive = attempt.job.path / SNAPSHOT
    whole = archive.read_bytes()
    filling = 16  # in the last bytes of a gzip file may be bits that mean nothing
    for length in range(0, len(whole) - filling, len(whole) // 12):
        for rest in (b"", b"\xff" + whole[length + 1 :]):
            archive.write_bytes(whole[:length] + rest)
            with pytest.raises(PrepareFailed, match=f"{SNAPSHOT} is not a readable"):
                fill(attempt, opened=False)


def test_an_archive_whose_names_lead_out_writes_nothing(tmp_path: Path) -> None:
    attempt = make_attempt(tmp_path, TRAINER)
    with tarfile.open(attempt.job.path / SNAPSHOT, "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("files/../../../escaped"))
    with pytest.raises(PrepareFailed, match="leads out"):
        fill(attempt, opened=False)
    assert not list(tmp_path.rglob("escaped"))


def test_a_snapshot_is_made_once(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg" / "__init__.py").write_text("x = 1\n" * 100)
    (folder / "pkg" / "task.py").write_text("print('trained')\n" * 100)
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "pkg"\nversion = "1"\n'
    )
    plan = plan_sdist(TrainerSource(folder=folder, python_module="pkg.task"))
    assert plan.pep517
    (tmp_path / "packages" / plan.content_hash).mkdir(parents=True)
    archive = keep_snapshot(plan, tmp_path / "packages")
    whole, before = archive.read_bytes(), archive.stat().st_mtime_ns
    assert keep_snapshot(plan, tmp_path / "packages") == archive
    assert archive.stat().st_mtime_ns == before
    archive.unlink()
    assert keep_snapshot(plan, tmp_path / "packages").read_bytes() == whole
    assert list(archive.parent.iterdir()) == [archive]
