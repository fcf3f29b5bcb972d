"""A NUL character, with which no process can be started and no file found: refused where it is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

LOCAL = ("custom-jobs", "create", "--backend=process", "--dry-run", "--display-name=a")
POOL = {
    "machineSpec": {"machineType": "n1-standard-4"},
    "pythonPackageSpec": {"pythonModule": "t.task", "packageUris": ["file:///t.tar.gz"]},
}


def pool(**fields: Any) -> str:
    """A config file's text, with these fields of the task."""
    return json.dumps({"workerPoolSpecs": [POOL | {"pythonPackageSpec": POOL["pythonPackageSpec"] | fields}]})


@pytest.mark.parametrize(
    "text",
    [
        pool(args=["--a", "b\0c"]),
        pool(env=[{"name": "A", "value": "b\0c"}]),
        pool(env=[{"name": "A\0", "value": "b"}]),
        pool(pythonModule="t.task\0"),
        pool(packageUris=["file:///t\0.tar.gz"]),
        json.dumps({"displayName": "a\0b", "jobSpec": {"workerPoolSpecs": [POOL]}}),
        json.dumps({"workerPoolSpecs": [{"containerSpec": {"imageUri": "a", "command": ["a\0b"]}}]}),
        json.dumps({"workerPoolSpecs": [{"containerSpec": {"imageUri": "a\0b"}}]}),
        'workerPoolSpecs:\n- localPackagePath: "a\\0b"\n',
        '"a\\0b": 1\n',
    ],
)
def test_in_a_config_file(vtrain: Any, tmp_path: Path, vtrain_home: Path, text: str) -> None:
    (tmp_path / "job.yaml").write_text(text)
    ended = vtrain(*LOCAL, f"--config={tmp_path / 'job.yaml'}")
    assert (ended.code, ended.out) == (1, "")
    assert f"ERROR: {tmp_path / 'job.yaml'}:" in ended.err
    assert "\\x00" in ended.err and "holds a NUL character." in ended.err
    assert not (vtrain_home / "jobs").exists()


@pytest.mark.parametrize("flag", ["args", "command", "env", "display-name", "local-package-path", "script"])
def test_in_a_flags_file(vtrain: Any, tmp_path: Path, flag: str) -> None:
    value = {"A": "b\0c"} if flag == "env" else "a\0b"
    (tmp_path / "flags.yaml").write_text(json.dumps({f"--{flag}": value}))
    ended = vtrain(*LOCAL, f"--flags-file={tmp_path / 'flags.yaml'}")
    assert (ended.code, ended.out) == (1, "")
    assert f"ERROR: {tmp_path / 'flags.yaml'}:1: " in ended.err and "holds a NUL character." in ended.err


def test_in_an_assignment(vtrain: Any, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(pool())
    ended = vtrain(
        *LOCAL,
        f"--config={tmp_path / 'job.yaml'}",
        '--set=workerPoolSpecs[0].pythonPackageSpec.args=["a\\0b"]',
    )
    assert ended.code in (1, 2) and "holds a NUL character." in ended.err


def test_in_a_word(vtrain: Any) -> None:
    ended = vtrain(*LOCAL, "--", "a\0b")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "ERROR: The word 'a\\x00b' of the command line holds a NUL character.\n"


@pytest.mark.parametrize("key", ["backend", "staging-bucket"])
def test_in_a_setting(vtrain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[tool.vtrain]\n{key} = "a\\u0000b"\n')
    monkeypatch.chdir(tmp_path)
    ended = vtrain("custom-jobs", "create", "--dry-run", "--display-name=a", "--worker-pool-spec=script=t.py")
    assert (ended.code, ended.out) == (1, "")
    assert f"{tmp_path / 'pyproject.toml'}:2: {key} of [tool.vtrain] holds a NUL character." in ended.err
