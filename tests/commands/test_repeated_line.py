"""`vtrain rerun`: which line it runs, and for which jobs it has one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lib.stored_jobs import add_job

from vtrain.commands.rerun import signature, with_arguments, with_wait
from vtrain.testing.memory import MemoryBackend
from vtrain.testing.script import Script, script_job


def test_a_watched_line_stays_with_its_job() -> None:
    for typed, watched in (
        ("run t.py -- create", "run t.py -- create"),
        ("submit t.py", "submit t.py --stream-logs --on-interrupt=cancel"),
        ("ai custom-jobs create -- a", "ai custom-jobs create --stream-logs --on-interrupt=cancel -- a"),
        ("custom-jobs local-run --script=t.py", "custom-jobs local-run --script=t.py"),
    ):
        assert with_wait(tuple(typed.split())) == tuple(watched.split())


@pytest.mark.parametrize(
    ("typed", "given", "expected"),
    [
        ("run t.py -- --lr=0.1 --n 3", "", "--lr=0.1 --n 3"),
        ("run t.py -- --lr=0.1 --n 3", "--lr=0.5", "--lr=0.5 --n 3"),
        ("run t.py -- --lr=0.1 --n 3", "--n=4", "--lr=0.1 --n=4"),
        ("run t.py -- --lr=0.1 --n 3", "--n 4 --lr 1e-3", "--lr 1e-3 --n 4"),
        ("run t.py -- --shift -1 a", "--shift=-2", "--shift=-2 a"),
        ("run t.py -- --shift -1 a", "--shift -.5", "--shift -.5 a"),
        ("run t.py -- --lr=0.1", "--epochs=3 -v", "--lr=0.1 --epochs=3 -v"),
        ("run t.py -- a.csv --lr=0.1 b.csv", "--lr=1", "a.csv --lr=1 b.csv"),
        ("run t.py -- --fast a.csv", "--fast", "--fast a.csv"),
        ("run t.py -- --fast --lr=1", "--lr=2", "--fast --lr=2"),
        ("run t.py -- --x=1 --x=2 --y=3", "--x=4", "--x=4 --y=3"),
        ("run t.py -- --x=1", "--x=4 --x=5", "--x=4 --x=5"),
        ("run t.py -- 20 --lr=0.1", "30 --lr=0.2", "30 --lr=0.2"),
        ("run t.py -- 20 5", "-3", "-3"),
        ("run t.py", "--lr=0.5", "--lr=0.5"),
        ("run t.py -- - --lr=1", "--lr=2 -", "- --lr=2 -"),
    ],
)
def test_arguments_of_the_trainer_take_the_place_of_those_of_their_name(
    typed: str, given: str, expected: str
) -> None:
    words = with_arguments(tuple(typed.split()), tuple(given.split()))
    assert words == ("run", "t.py", "--", *expected.split())


def test_a_job_runs_again_with_another_argument(tmp_path: Path) -> None:
    (tmp_path / "t.sh").write_text('echo "$@"\n')
    argv = [sys.executable, "-m", "vtrain"]
    first = subprocess.run(
        [*argv, "run", "t.sh", "--", "--lr=0.1", "--n=3"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (first.returncode, first.stdout) == (0, "--lr=0.1 --n=3\n"), first.stderr
    second = subprocess.run(
        [*argv, "rerun", "--", "--lr=0.5"], cwd=tmp_path.parent, capture_output=True, text=True
    )
    assert (second.returncode, second.stdout) == (0, "--lr=0.5 --n=3\n"), second.stderr
    assert "\n$ vtrain run t.sh -- --lr=0.5 --n=3\n" in second.stderr


def test_a_job_without_a_known_line_says_so(vtrain: Any, vtrain_home: Path, memory: MemoryBackend) -> None:
    ended = vtrain("rerun", memory.submit(memory.plan(script_job(Script()))).name)
    assert ended.code == 1 and "The backend memory keeps no command lines." in ended.err
    add_job(vtrain_home, "6167751115219977808", "old")
    ended = vtrain("rerun", "old", "--backend=local")
    assert ended.code == 1 and "The command line that made this job is not known." in ended.err


def test_a_line_whose_folder_is_gone_is_not_run(
    vtrain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "t.sh").write_text("exit 0\n")
    monkeypatch.chdir(folder)
    assert vtrain("run", "t.sh", "--env=API_KEY=hunter2hunter2").code == 0
    monkeypatch.chdir(tmp_path)
    folder.rename(tmp_path / "moved")
    ended = vtrain("rerun", "@last")
    assert ended.code == 1 and f"The folder {folder}, in which the line was typed" in ended.err


def test_only_files_that_belong_to_the_trainer_are_watched(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in ("train.py", "home/store.db", "__pycache__/train.pyc", "data/ignored.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a")
    (tmp_path / ".gitignore").write_text("data/\n")
    first = signature(tmp_path, home)
    assert first is not None and set(first) == {"train.py", ".gitignore"}
    (home / "store.db").write_text("changed")
    (tmp_path / "data" / "ignored.csv").write_text("changed")
    assert signature(tmp_path, home) == first
    (tmp_path / "train.py").write_text("longer")
    assert signature(tmp_path, home) != first
    assert signature(tmp_path / "nowhere", home) is None
