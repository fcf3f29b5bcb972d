"""What a shell offers behind a TAB, asked as the installed scripts ask."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from vertex_service import VertexService

COMPLETE = """
source ~/.bash_completions/vtrain.sh
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_vtrain_completion {program} "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
SPEC = ("custom-jobs", "create", "--worker-pool-spec", "=")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory with the completion script installed, and a `vtrain` to call."""
    program = tmp_path / "vtrain"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m vtrain "$@"\n')
    program.chmod(0o755)
    ended = run(tmp_path, program, "--install-completion=bash")
    assert ended.returncode == 0, ended.stderr
    return tmp_path


def run(home: Path, *argv: str | Path) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parents[2])
    env = {name: value for name, value in os.environ.items() if name.startswith("CLOUDSDK_")} | {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "VTRAIN_HOME": f"{home}/.vtrain",
        "PYTHONPATH": root,
    }
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, cwd=home)


def offered(home: Path, *words: str) -> list[str]:
    """What bash would offer for the last of the words, which are split at `=` as bash does."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    script = COMPLETE.format(program=home / "vtrain")
    ended = run(home, bash, "--norc", "-c", script, "bash", "vtrain", *words)
    assert ended.stderr == ""
    return ended.stdout.split()


def offered_at_last(home: Path, *words: str) -> list[str]:
    """TAB again and again while nothing is offered: on a busy machine an answer may come too late."""
    deadline = time.monotonic() + 120
    while not (found := offered(home, *words)):
        assert time.monotonic() < deadline, "nothing was offered"
    return found


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("custom",), "custom-jobs"),
        (("custom-jobs", "stream"), "stream-logs"),
        (("beta", "ai", "custom-jobs", "descr"), "describe"),
        (("custom-jobs", "create", "--worker"), "--worker-pool-spec"),
        (("custom-jobs", "list", "--region", "us-cen"), "us-central1"),
        (("custom-jobs", "list", "--region", "=", "us-cen"), "us-central1"),
        ((*SPEC, "machine-t"), "machine-type="),
        ((*SPEC, "machine-type", "=", "a2-ultragpu-8"), "a2-ultragpu-8g"),
        ((*SPEC, "machine-type", "=", "x,accelerator-c"), "x,accelerator-count="),
    ],
)
def test_bash_offers(home: Path, words: tuple[str, ...], expected: str) -> None:
    assert offered(home, *words) == [expected]


def test_names_of_jobs_are_offered(home: Path) -> None:
    (home / "task.py").write_text("print(1)\n")
    flags = ["--backend=process", "--display-name=a", "--python-module=task", f"--local-package-path={home}"]
    create = ("custom-jobs", "create", "--wait", "--format=value(name.basename())", *flags)
    ended = run(home, home / "vtrain", *create)
    assert ended.returncode == 0, ended.stderr
    job = ended.stdout.strip()
    assert offered_at_last(home, "custom-jobs", "describe", job[:5]) == [job]


@pytest.mark.parametrize(
    ("group", "collection"),
    [("custom-jobs", "customJobs"), ("hp-tuning-jobs", "hyperparameterTuningJobs")],
)
def test_names_of_jobs_of_a_service_are_offered(
    home: Path, vertex: VertexService, group: str, collection: str
) -> None:
    vertex.put(f"projects/demo/locations/us-central1/{collection}/4711")
    assert offered_at_last(home, group, "describe", "47") == ["4711"]


def test_an_unknown_shell_is_refused(home: Path) -> None:
    ended = run(home, home / "vtrain", "--show-completion=tcsh")
    assert ended.returncode == 2
    assert "bash|zsh|fish" in ended.stderr


def test_a_silent_service_offers_nothing_soon(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("google.cloud.aiplatform_v1.gapic_version", reason="needs the extra vertex")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        override = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", override)
        started = time.monotonic()
        flags = ("--backend", "vertex", "--project", "demo", "--region", "us-central1")
        assert offered(home, "custom-jobs", "describe", *flags, "1") == []
        assert time.monotonic() - started < 45
