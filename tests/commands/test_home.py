"""A VTRAIN_HOME that no command can use, and the odd ones that every command can."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from lib.privileges import run_bound

COMMANDS = (
    ("custom-jobs", "list"),
    ("custom-jobs", "list", "--backend=process"),
    ("custom-jobs", "describe", "1"),
    ("custom-jobs", "cancel", "1"),
    ("custom-jobs", "wait", "1"),
    ("custom-jobs", "stream-logs", "1"),
    ("custom-jobs", "delete", "1"),
    ("hp-tuning-jobs", "list"),
    ("gc",),
    ("package", "sdist", "--local-package-path=.", "--python-module=t"),
    ("emulator", "storage"),
)
RUN = ("custom-jobs", "local-run", "--backend=process", "--script=t.py", "--quiet")


def make(kind: str, place: Path) -> Path:
    """A home of this kind, as VTRAIN_HOME names it."""
    if kind in ("file", "below a file"):
        (place / "file").touch()
    if kind == "a loop":
        (place / "a loop").symlink_to(place / "a loop")
    if kind == "a link to nothing":
        (place / kind).symlink_to(place / "nothing")
    return place / ("file/home" if kind == "below a file" else "x" * 300 if kind == "a long name" else kind)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("file", ": Not a directory."),
        ("below a file", ": Not a directory."),
        ("a loop", ": Too many levels of symbolic links."),
        ("a long name", ": File name too long."),
        ("a link to nothing", "is a link to a folder that does not exist."),
    ],
)
def test_every_command_says_that_a_home_cannot_be_used(
    vtrain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, reason: str
) -> None:
    home = make(kind, tmp_path)
    (tmp_path / "t.py").write_text("print(1)\n")
    monkeypatch.setenv("VTRAIN_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for words in (*COMMANDS, RUN):
        ended = vtrain(*words)
        assert (ended.code, ended.out) == (125 if words is RUN else 1, ""), words
        (line,) = [line for line in ended.err.splitlines() if line.startswith("ERROR: ")]
        assert str(home) in line and line.endswith(reason), words
        assert "Set VTRAIN_HOME." in ended.err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_home_that_nobody_may_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").mkdir(mode=0o300)
    monkeypatch.setenv("VTRAIN_HOME", str(tmp_path / "closed"))
    ended = run_bound([sys.executable, "-m", "vtrain", "custom-jobs", "list", "--backend=process"])
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"ERROR: vtrain cannot use {tmp_path / 'closed'}: Permission denied." in ended.stderr


@pytest.mark.parametrize(
    "name", ["relative", "a b#c%41?d", "new\nline", "ümlaut \u202e", "-dash", "~nobody-here"]
)
def test_odd_names_of_homes(vtrain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "t.py").write_text("print('trained')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VTRAIN_HOME", name)
    ended = vtrain(*RUN)
    assert (ended.code, ended.out) == (0, "trained\n"), ended.err
    monkeypatch.setenv("VTRAIN_HOME", str(tmp_path / name))
    listed = vtrain("custom-jobs", "list", "--backend=process", "--format=value(state)")
    assert listed.out == "JOB_STATE_SUCCEEDED\n", listed.err


def test_what_cannot_be_read_is_named_and_can_be_excluded(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('trained')\n")
    (tmp_path / "closed").mkdir(mode=0)
    (tmp_path / "mute").touch(mode=0)
    argv = [sys.executable, "-m", "vtrain", "package", "sdist"]
    argv += [f"--local-package-path={tmp_path}", "--script=train.py", f"--output-dir={tmp_path / 'out'}"]
    excluded = ""
    for pattern, named in (("closed/", f"the folder {tmp_path / 'closed'}"), ("mute", "mute")):
        refused = run_bound(argv)
        assert refused.returncode == 1
        assert f"Cannot read {named}: Permission denied." in refused.stderr
        assert f"write {pattern} into .vtrainignore" in refused.stderr
        excluded += f"{pattern}\n"
        (tmp_path / ".vtrainignore").write_text(excluded)
    assert run_bound(argv).returncode == 0
