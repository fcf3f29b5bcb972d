"""Google's Python library, unchanged, against the emulator: a program for the cloud over gRPC, and REST."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from emulator_report import report_calls

import vtrain

pytestmark = [pytest.mark.sdk, pytest.mark.timeout(600)]
ROOT = Path(vtrain.__file__).parent.parent
PROGRAM = Path(__file__).with_name("sdk_program.py")


IMAGE = "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest"


def make_the_environment(environment: dict[str, str], folder: Path) -> None:
    """Run the trainer once, while there is a network: its packages are cached from then on."""
    shutil.copy(PROGRAM.with_name("sdk_trainer.py"), folder / "trainer.py")
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


def test_a_program_for_the_cloud_runs_without_a_change(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "buckets" / "stage").mkdir(parents=True)
    environment = os.environ | {"VTRAIN_HOME": str(home), "PYTHONPATH": str(ROOT)}
    make_the_environment(environment, tmp_path)
    argv = [sys.executable, "-m", "vtrain", "emulator", "exec", "--backend=process", "--"]
    command = [*argv, sys.executable, str(PROGRAM)]
    if os.geteuid() == 0 and shutil.which("unshare") and shutil.which("ip"):
        # A network of its own, which has nothing but loopback: no request can leave it.
        lines = 'ip link set lo up && exec "$@"'
        command = ["unshare", "--net", "sh", "-c", lines, "sh", *command]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.endswith("done\n")
    log = (home / "emulator" / "emulator.log").read_text()
    counted = re.search(r"google-cloud-aiplatform over gRPC (\d+)", log)
    assert counted is not None and int(counted[1]) > 20, log
    report_calls(log)
