"""`vtrain rerun`: which line it runs, and for which jobs it has one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stored_jobs import add_job

from vtrain.commands.rerun import signature, with_wait
from vtrain.testing.memory import MemoryBackend
from vtrain.testing.script import Script, script_job


@pytest.mark.parametrize(
    ("typed", "watched"),
    [
        ("run t.py -- create", "run t.py -- create"),
        ("submit t.py", "submit t.py --stream-logs --on-interrupt=cancel"),
        ("ai custom-jobs create -- a", "ai custom-jobs create --stream-logs --on-interrupt=cancel -- a"),
        ("custom-jobs local-run --script=t.py", "custom-jobs local-run --script=t.py"),
    ],
)
def test_a_watched_line_stays_with_its_job(typed: str, watched: str) -> None:
    assert with_wait(tuple(typed.split())) == tuple(watched.split())


def test_a_job_without_a_known_line_says_so(vtrain: Any, vtrain_home: Path) -> None:
    add_job(vtrain_home, "6167751115219977808", "old")
    ended = vtrain("rerun", "old")
    assert ended.code == 1 and "The command line that made this job is not known." in ended.err


def test_a_backend_elsewhere_has_no_lines(vtrain: Any, memory: MemoryBackend) -> None:
    name = memory.submit(memory.plan(script_job(Script()))).name
    ended = vtrain("rerun", name)
    assert ended.code == 1 and "The backend memory keeps no command lines." in ended.err


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
