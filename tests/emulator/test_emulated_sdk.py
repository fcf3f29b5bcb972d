"""Google's Python library, unchanged, against the emulator: a program for the cloud over gRPC, and REST."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
from lib.emulator_report import report_calls
from lib.framework_index import SUM, framework_index

import vtrain

pytestmark = [pytest.mark.sdk, pytest.mark.timeout(600)]
ROOT = Path(vtrain.__file__).parent.parent
PROGRAMS = Path(__file__).parent


try:
    HAS_AIRFLOW = find_spec("airflow.providers.google") is not None
except ModuleNotFoundError:
    HAS_AIRFLOW = False
IMAGE = "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest"

ALONE = ("sh", "-c", 'exec unshare --net sh -c \'ip link set lo up && exec "$@"\' sh "$@"', "sh")
"""Runs a command in a network of its own, which has nothing but loopback: no request can leave it."""


def make_the_environment(environment: dict[str, str], folder: Path) -> None:
    """Run the trainer once, while there is a network: its packages are cached from then on."""
    shutil.copy(PROGRAMS / "sdk_trainer.py", folder / "trainer.py")
    argv = [sys.executable, "-m", "vtrain", "custom-jobs", "local-run", "--backend=process"]
    flags = [f"--executor-image-uri={IMAGE}", f"--local-package-path={folder}", "--script=trainer.py"]
    ended = subprocess.run(
        [*argv, *flags, "--aip-dirs=gs", "--quiet"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def run_against_the_emulator(
    folder: Path, program: str, *arguments: str, backend: str = "process", is_alone: bool = False
) -> str:
    """Run a program; its stdout. Keeps the emulator's counts.

    With `is_alone` it has no network but loopback, where this machine can do that.
    """
    home = folder / "home"
    (home / "buckets" / "stage").mkdir(parents=True, exist_ok=True)
    environment = os.environ | {
        "VTRAIN_HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "AIRFLOW_HOME": str(folder),
    }
    argv = [sys.executable, "-m", "vtrain", "emulator", "exec", f"--backend={backend}", "--"]
    command = [*argv, sys.executable, str(PROGRAMS / program), *arguments]
    if is_alone:
        make_the_environment(environment, folder)
    if is_alone and subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode == 0:
        command = [*ALONE, *command]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr.count("Refused") == (program == "sdk_https_program.py")
    report_calls(ended.stderr)
    return ended.stdout


def test_a_program_for_the_cloud_runs_without_a_change(tmp_path: Path) -> None:
    assert run_against_the_emulator(tmp_path, "sdk_program.py", is_alone=True).endswith("done\n")


def test_a_program_that_deploys_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(framework_index(tmp_path / "wheels")))
    files = tmp_path / "home" / "buckets" / "stage" / "model"
    files.mkdir(parents=True)
    (files / "model.pkl").write_bytes(SUM)
    (files / "input.jsonl").write_text("[1, 2]\n[3, 4]\n")
    assert run_against_the_emulator(tmp_path, "sdk_endpoint_program.py").endswith("done\n")


@pytest.mark.torch
@pytest.mark.network
@pytest.mark.skipif(find_spec("torch") is None, reason="no PyTorch beside vtrain: run nox -s torch")
def test_a_program_that_deploys_a_model_of_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bound := tmp_path / "bound.txt").write_text(f"torch=={version('torch')}\n")  # the server's is the same
    monkeypatch.setenv("PIP_CONSTRAINT", str(bound))
    assert run_against_the_emulator(tmp_path, "sdk_pytorch_program.py").endswith("done\n")


def test_a_program_over_rest(tmp_path: Path) -> None:
    assert run_against_the_emulator(tmp_path, "sdk_rest_program.py").endswith("done\n")


def test_a_program_that_knows_no_emulator(tmp_path: Path) -> None:
    assert run_against_the_emulator(tmp_path, "sdk_https_program.py", is_alone=True).endswith("done\n")


def test_a_program_whose_trainer_uses_the_library(tmp_path: Path) -> None:
    assert run_against_the_emulator(tmp_path, "sdk_inside_program.py", is_alone=True).endswith("done\n")


@pytest.mark.parametrize("transport", ["grpc", "rest"])
def test_a_program_that_logs_experiments(tmp_path: Path, transport: str) -> None:
    assert run_against_the_emulator(tmp_path, "sdk_experiment_program.py", transport).endswith("done\n")


@pytest.mark.docker
def test_a_program_whose_trainer_is_a_container(tmp_path: Path, base_image: str) -> None:
    told = run_against_the_emulator(tmp_path, "sdk_container_program.py", base_image, backend="docker")
    assert told.endswith("done\n")


@pytest.mark.skipif(not HAS_AIRFLOW, reason="apache-airflow-providers-google is not installed")
def test_an_operator_of_airflow(tmp_path: Path) -> None:
    assert run_against_the_emulator(tmp_path, "airflow_program.py", is_alone=True).endswith("done\n")
