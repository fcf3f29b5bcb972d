"""Named pipes, devices and folders where a file is meant: a sentence at once, and nobody waits for ever."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(60)
LIST = ("custom-jobs", "list", "--backend=process")
REMOTE = ("custom-jobs", "list", "--project=demo-project", "--region=us-central1")


def pipe(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


KINDS: dict[str, tuple[Callable[[Path], None], str]] = {
    "pipe": (pipe, "it is a named pipe"),
    "folder": (folder, "it is a folder"),
    "device": (device, "it is a device"),
}


@pytest.fixture
def gcloud_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "gcloud"
    (made / "configurations").mkdir(parents=True)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(made))
    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["active_config", "configurations/config_default"])
def test_gclouds_configuration(vtrain: Any, gcloud_folder: Path, name: str, kind: str) -> None:
    make, reason = KINDS[kind]
    make(gcloud_folder / name)
    ended = vtrain("custom-jobs", "list")
    assert (ended.code, ended.out) == (1, "")
    assert f"gcloud's configuration {gcloud_folder / name} cannot be read: {reason}." in ended.err


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variable", ["GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"])
def test_credentials(
    vtrain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, kind: str
) -> None:
    make, reason = KINDS[kind]
    make(tmp_path / "key")
    monkeypatch.setenv(variable, str(tmp_path / "key"))
    ended = vtrain(*REMOTE)
    assert (ended.code, ended.out) == (1, "")
    assert f"of {tmp_path / 'key'} (from {variable}) cannot be read: {reason}." in ended.err


@pytest.mark.parametrize("kind", KINDS)
def test_credentials_of_a_local_job(vtrain: Any, tmp_path: Path, kind: str) -> None:
    KINDS[kind][0](tmp_path / "key")
    (tmp_path / "t.py").write_text("print(1)")
    words = ("custom-jobs", "local-run", "--backend=process", f"--local-package-path={tmp_path / 't.py'}")
    ended = vtrain(*words, f"--credentials={tmp_path / 'key'}")
    assert (ended.code, ended.out) == (1, "")
    assert f"--credentials: {tmp_path / 'key'} is a {'folder' if kind == 'folder' else 'pipe'}" in ended.err


def test_what_a_shell_hands_over_is_read() -> None:
    """`--access-token-file=<(…)`, as gcloud reads it."""
    reading, writing = os.pipe()
    os.write(writing, b"a token of two words")
    os.close(writing)
    command = [sys.executable, "-m", "vtrain", *REMOTE, f"--access-token-file=/dev/fd/{reading}"]
    ended = subprocess.run(command, pass_fds=[reading], capture_output=True, text=True, check=False)
    os.close(reading)
    assert ended.returncode == 1 and "holds more than a token" in ended.stderr


def test_a_config_that_has_no_end(vtrain: Any) -> None:
    ended = vtrain("custom-jobs", "create", "--display-name=a", "--config=/dev/zero", "--backend=process")
    assert (ended.code, ended.out) == (1, "")
    assert "--config: cannot read /dev/zero: it is a device." in ended.err


@pytest.mark.parametrize("kind", KINDS)
def test_a_pyproject_that_is_no_file(
    vtrain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    make, reason = KINDS[kind]
    make(tmp_path / "pyproject.toml")
    (tmp_path / "t.py").write_text("print(1)")
    monkeypatch.chdir(tmp_path)
    (line,) = vtrain("custom-jobs", "list").err.splitlines()[:1]
    assert line == f"ERROR: {tmp_path / 'pyproject.toml'} cannot be read: {reason}."
    monkeypatch.chdir("/")
    words = (
        "custom-jobs",
        "local-run",
        "--backend=process",
        f"--local-package-path={tmp_path}",
        "--script=t.py",
    )
    ended = vtrain(*words)
    assert (ended.code, ended.out) == (1, "")
    assert f"pyproject.toml in {tmp_path} cannot be read: {reason}." in ended.err


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x7fELF\0\xff\xfe", "is not TOML: it is not UTF-8 text."),
        (b"[tool.vtrain]\nbackend = " + b"[" * 20_000, "is nested too deeply."),
    ],
    ids=["binary", "deep"],
)
def test_a_pyproject_that_is_no_toml(
    vtrain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, reason: str
) -> None:
    (tmp_path / "pyproject.toml").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    ended = vtrain("custom-jobs", "list")
    assert (ended.code, ended.out) == (1, "")
    assert f"ERROR: {tmp_path / 'pyproject.toml'} {reason}" in ended.err


@pytest.mark.parametrize("name", ["folder", "pipe", "none/own.log", "file/own.log"])
def test_a_log_that_cannot_be_written_is_told_and_made_nowhere(
    vtrain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setenv("VTRAIN_LOG", str(tmp_path / name))
    ended = vtrain(*LIST, "--format=json")
    assert (ended.code, json.loads(ended.out)) == (0, [])
    assert f"WARNING: VTRAIN_LOG: cannot write to {tmp_path / name}: " in ended.err
    assert sorted(tmp_path.rglob("*")) == before
