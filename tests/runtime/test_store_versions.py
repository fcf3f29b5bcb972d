"""Stores of other versions: each command refuses them with one sentence, and changes no file there."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from vtrain.runtime.database import DATABASE, SCHEMA_VERSION
from vtrain.runtime.store import Store

NAME = "projects/local/locations/us-central1/customJobs/1"
COMMANDS = (
    ("custom-jobs", "list"),
    ("custom-jobs", "describe", NAME),
    ("custom-jobs", "delete", NAME),
    ("custom-jobs", "create", "--display-name=a", "--local-package-path=.", "--script=train.py"),
    ("gc", "--older-than=0s"),
)
OPEN = """
import sys
from pathlib import Path
from vtrain.runtime.store import Store
print(Store.open(Path(sys.argv[1])).execute("SELECT * FROM resources"))
"""


def files_of(home: Path) -> dict[str, bytes]:
    """The files of a home, apart from the log of commands; the folders have no content."""
    found = {path: path.read_bytes() if path.is_file() else b"" for path in home.rglob("*")}
    return {str(path): content for path, content in found.items() if "logs" not in path.parts}


@pytest.mark.child
@pytest.mark.parametrize("version", [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1, 0, -1])
def test_another_version_is_refused_and_left_alone(
    vtrain: Any, vtrain_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    (tmp_path / "train.py").write_text("")
    monkeypatch.chdir(tmp_path)
    Store.open(vtrain_home).close()
    for name in ("jobs/1", "packages/.gone-1", f"packages/{'a' * 64}"):
        (vtrain_home / name).mkdir(parents=True)
        os.utime(vtrain_home / name, (0, 0))
    with closing(sqlite3.connect(vtrain_home / DATABASE)) as connection:
        connection.execute(f"PRAGMA user_version={version}")
    before = files_of(vtrain_home)
    for argv in COMMANDS:
        ended = vtrain(*argv)
        assert (ended.code, ended.out) == (1, ""), (argv, ended.err)
        words = " ".join(ended.err.split())
        assert f"has version {version}; this vtrain reads only version {SCHEMA_VERSION}." in words
        assert f"Choose another folder with VTRAIN_HOME, or move {vtrain_home} away." in words
        assert files_of(vtrain_home).items() >= before.items(), argv  # create adds a package


def test_a_database_of_another_program(vtrain: Any, vtrain_home: Path) -> None:
    vtrain_home.mkdir(exist_ok=True)
    with closing(sqlite3.connect(vtrain_home / DATABASE)) as connection:
        connection.execute("CREATE TABLE notes (text TEXT)")
    before = files_of(vtrain_home)
    ended = vtrain("custom-jobs", "list")
    assert (ended.code, ended.out) == (1, "") and "has version 0; this" in " ".join(ended.err.split())
    assert files_of(vtrain_home) == before


@pytest.mark.child
def test_several_processes_make_the_store_at_once(tmp_path: Path) -> None:
    crew = [
        subprocess.Popen([sys.executable, "-c", OPEN, str(tmp_path)], stdout=subprocess.PIPE)
        for _ in range(5)
    ]
    assert {one.communicate(timeout=120)[0] for one in crew} == {b"[]\n"}
