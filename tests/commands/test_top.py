"""`vtrain top`: the figures of running replicas, as documents and on a terminal."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lib.local_jobs import ended, lines, submit
from lib.pseudo_terminal import CTRL_C, PseudoTerminal
from lib.waiting import wait_until

from vtrain.backends import BackendSettings
from vtrain.backends.local import LocalBackend
from vtrain.backends.registry import open_backend
from vtrain.messages.custom_job import EnvVar
from vtrain.testing.script import Script, script_job

GPUS = """#!/bin/sh
echo "0, GPU-aaaa, 87, 1024, 16384"
echo "1, GPU-bbbb, 5, 10, 16384"
echo "2, GPU-cccc, [N/A], [N/A], 16384"
"""


@pytest.fixture
def backend(vtrain_home: Path) -> LocalBackend:
    settings = BackendSettings(home=vtrain_home, project="local", region="us-central1")
    opened = open_backend("process", settings)
    assert isinstance(opened, LocalBackend)
    return opened


@pytest.fixture
def job(backend: LocalBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The id of a running job that sees the first of three GPUs."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(GPUS)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    waiting, env = Script().write("up\n").hang(), [EnvVar(name="CUDA_VISIBLE_DEVICES", value="GPU-aaaa")]
    name = submit(backend, script_job(waiting, env=env, display_name="digits"))
    wait_until(lambda: "up" in lines(backend, name))
    yield name.rpartition("/")[2]
    backend.kill(name)
    ended(backend, name)


def test_a_running_replica_is_measured(vtrain: Any, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = json.loads(vtrain("top", "digits", "--format=json").out)
    assert (found["job"], found["replica"], found["processes"]) == (job, "workerpool0-0", 1)
    assert 1_000_000 < found["memoryBytes"] < 1_000_000_000
    assert 0 <= found["cpuPercent"] < 100 * (os.cpu_count() or 1)
    assert (found["gpuPercent"], found["gpuMemory"]) == (87, "1 GB of 16 GB")
    table = vtrain("top").out.splitlines()
    assert [line.split()[0] for line in table] == ["JOB", job]
    assert "87%  1 GB of 16 GB" in table[1]

    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("vtrain.backends.process.running_process.LINUX", False)
        assert vtrain("top").err.endswith("use cannot be read here and now.\n")

    terminal = PseudoTerminal([sys.executable, "-m", "vtrain", "top", "--interval=0.2s"], columns=100)
    terminal.wait_for("Ctrl-C leaves.")
    terminal.read_for(0.7)
    terminal.press(CTRL_C)
    assert terminal.end() == 0
    assert terminal.transcript.count("workerpool0-0") == 1
    assert f"\n{job[:4]}" in terminal.transcript and job not in terminal.transcript

    followed = PseudoTerminal([sys.executable, "-m", "vtrain", "logs", job, "-f"], columns=100)
    followed.wait_until(
        lambda: re.search(r"RUNNING .*  cpu \d+%  mem [\d.]+ MB  gpu 87%  digits", followed.shown)
    )
    followed.press(CTRL_C)
    assert followed.end() == 130


def test_nothing_runs_and_a_job_that_has_ended(vtrain: Any, backend: LocalBackend) -> None:
    quiet = vtrain("top")
    assert (quiet.code, quiet.out) == (0, "")
    assert quiet.err.endswith("No job runs on this machine.\n")
    assert vtrain("top", "--format=json").out == "[]\n"
    name = submit(backend, script_job(Script()))
    ended(backend, name)
    refused = vtrain("top", name)
    assert refused.code == 1
    assert "has ended (SUCCEEDED): no replica of it runs." in refused.err
