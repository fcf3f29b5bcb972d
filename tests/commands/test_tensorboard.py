"""`vtrain tensorboard`: what it is started with, by a stand-in that says so."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from lib.pseudo_terminal import CTRL_C, PseudoTerminal
from lib.vertex_service import VertexService

from vtrain.messages.codec import to_document
from vtrain.testing.script import Script, script_job

CREATE = ("custom-jobs", "create", "--config=-", "--wait", "--format=value(name.basename())")


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A TensorBoard that prints its flags."""
    program = tmp_path / "bin" / "tensorboard"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return program


def test_the_logs_of_one_job_and_of_all(vtrain: Any, board: Path, vtrain_home: Path) -> None:
    job = json.dumps(to_document(script_job(Script(), display_name="digits")))
    created = vtrain(*CREATE, "--backend=process", stdin=job)
    assert created.code == 0, created.err
    runs = vtrain_home / "buckets" / "local-runs"
    logs = runs / f"digits-{created.out.strip()}" / "logs"
    shown = vtrain("tensorboard", "digits", "--", "--port=7007")
    assert (shown.code, shown.out) == (0, f"--logdir={logs} --port=7007\n")
    assert f"WARNING: There are no logs for TensorBoard in {logs} yet." in shown.err
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "events.out.tfevents.1").touch()
    everything = vtrain("tensorboard")
    assert (everything.code, everything.out) == (0, f"--logdir={runs}\n")
    assert "WARNING" not in everything.err


def test_its_exit_code_is_ours_and_ctrl_c_ends_both(vtrain: Any, board: Path) -> None:
    board.write_text("#!/bin/sh\nexit 3\n")
    assert vtrain("tensorboard").code == 3
    board.write_text("#!/bin/sh\necho it is up\nexec sleep 600\n")
    terminal = PseudoTerminal([sys.executable, "-m", "vtrain", "tensorboard"], columns=100)
    terminal.wait_for("it is up")
    terminal.press(CTRL_C)
    assert terminal.end() == 0


def test_where_it_is_not_installed_the_command_that_installs_it_is_shown(
    vtrain: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    refused = vtrain("tensorboard")
    assert refused.code == 1
    command = rf"\$ {re.escape(sys.executable)} -m (uv )?pip install tensorboard\n"
    assert re.search(rf"ERROR: TensorBoard is not installed.\n  Install it:\n  {command}", refused.err)


def test_logs_on_vertex_are_read_from_the_bucket(vtrain: Any, vertex: VertexService, board: Path) -> None:
    output = {"baseOutputDirectory": {"outputUriPrefix": "gs://b/o"}}
    spec = output | {"workerPoolSpecs": [{"containerSpec": {"imageUri": "gcr.io/p/i"}}]}
    document = json.dumps({"displayName": "far", "jobSpec": spec})
    created = vtrain("custom-jobs", "create", "--config=-", "--format=value(name)", stdin=document)
    assert vtrain("tensorboard", created.out.strip()).out == "--logdir=gs://b/o/logs\n"
    refused = vtrain("tensorboard")
    assert refused.code == 1
    assert "Name the job: vtrain tensorboard JOB" in refused.err
