"""The user's logins to registries: what Docker's configuration and its credential helpers may hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vtrain.containers.sdk import registry_login

pytest.importorskip("docker", reason="needs the extra docker")


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of Docker's configuration, in which programs are found too."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def helper(folder: Path, answer: str) -> None:
    """Make the credential helper `test`, which prints that."""
    program = folder / "docker-credential-test"
    program.write_text(f"#!/bin/sh\ncat > /dev/null\ncat <<'END'\n{answer}\nEND\n")
    program.chmod(0o755)
    (folder / "config.json").write_text('{"credsStore": "test"}')


@pytest.mark.child
def test_a_helper_logs_in(configured: Path, lines: list[str]) -> None:
    helper(configured, '{"ServerURL": "x", "Username": "ada", "Secret": "hunter2"}')
    assert registry_login("python:3.12", lines.append)["Username"] == "ada"
    assert lines == []


@pytest.mark.child
@pytest.mark.parametrize("answer", ["Please sign in.", "[]", "{}"])
def test_a_helper_that_prints_something_else(configured: Path, lines: list[str], answer: str) -> None:
    helper(configured, answer)
    assert registry_login("python:3.12", lines.append) == {}
    (line,) = lines
    assert line.startswith("Docker's credentials for python:3.12 cannot be read (")
    assert line.endswith("); trying without.")


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        '{"credHelpers": 5}',
        '{"auths": {"https://index.docker.io/v1/": {"auth": "YQ=="}}}',
        '{"auths": {"https://index.docker.io/v1/": {"auth": 5}}}',
    ],
)
def test_a_broken_configuration(configured: Path, lines: list[str], content: str) -> None:
    (configured / "config.json").write_text(content)
    assert registry_login("python:3.12", lines.append) == {}
    assert "cannot be read" in lines[0]
