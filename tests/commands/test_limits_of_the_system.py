"""What the system does not allow: long arguments, and files that may not be read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lib.privileges import run_bound

pytestmark = pytest.mark.end_to_end

PLACES = ["process", pytest.param("docker", marks=pytest.mark.docker)]
SENTENCE = (
    "The replica workerpool0-0 could not be started: "
    "its arguments and variables are too long for this system."
)


@pytest.mark.parametrize("backend", PLACES)
@pytest.mark.parametrize(
    ("flag", "words"),
    [("--args", ["w" * 100] * 36_000), ("--args", ["w" * 200_000]), ("--env", ["LONG=" + "w" * 200_000])],
    ids=["many", "one", "variable"],
)
def test_arguments_that_are_too_long_are_one_sentence(
    backend: str, flag: str, words: list[str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    image = [f"--executor-image-uri={request.getfixturevalue('base_image')}"] if backend == "docker" else []
    (tmp_path / "t.py").write_text("print('ran')\n")
    (tmp_path / "flags.json").write_text(json.dumps({flag: words}))
    argv = [sys.executable, "-m", "vtrain", "run", "t.py", f"--backend={backend}", *image]
    ended = subprocess.run(
        [*argv, "--flags-file=flags.json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (ended.returncode, ended.stdout) == (126, "")
    assert SENTENCE in ended.stderr and "pass its path to the trainer" in ended.stderr
    assert len(ended.stderr) < 2000, "the arguments are not shown"


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A folder that may not be entered, and a file that may not be read."""
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "t.py").touch()
    (tmp_path / "open.py").write_text("print('ran')\n")
    (tmp_path / "mute.txt").touch()
    (tmp_path / "mute.txt").chmod(0)
    (tmp_path / "closed").chmod(0)
    yield tmp_path
    (tmp_path / "closed").chmod(0o700)


@pytest.mark.parametrize(
    "words",
    [
        ["closed/t.py"],
        ["open.py"],
        ["closed", "-m", "t"],
        ["closed/x", "-m", "t"],
        ["--config=mute.txt"],
        ["--config=closed/x"],
        ["--flags-file=mute.txt"],
    ],
    ids=" ".join,
)
def test_a_named_file_that_may_not_be_read_ends_with_1(closed: Path, words: list[str]) -> None:
    for command in ("run", "submit"):
        ended = bound(closed, command, "--backend=process", *words)
        assert ended.returncode == 1, ended.stderr
        assert "ermission denied" in ended.stderr


def test_a_pyproject_that_may_not_be_read_ends_with_1(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "pyproject.toml").chmod(0)
    (tmp_path / "t.py").touch()
    ended = bound(tmp_path, "run", "t.py")
    assert ended.returncode == 1
    assert f"{tmp_path / 'pyproject.toml'} cannot be read: permission denied." in ended.stderr


def test_a_home_that_may_not_be_written_ends_a_local_run_with_125(tmp_path: Path) -> None:
    (tmp_path / "t.py").touch()
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    for command, code in (("run", 125), ("submit", 1)):
        ended = bound(tmp_path, command, "--backend=process", "t.py", VTRAIN_HOME=str(home / "own"))
        assert (ended.returncode, ended.stdout) == (code, ""), ended.stderr
        assert "ermission denied" in ended.stderr


def bound(folder: Path, *words: str, **variables: str) -> Any:
    """`vtrain WORDS` in a folder, by a user for whom modes count."""
    start = (
        "import os, sys; os.chdir(sys.argv.pop(1)); from vtrain.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    return run_bound([sys.executable, "-c", start, str(folder), *words], os.environ | variables)
