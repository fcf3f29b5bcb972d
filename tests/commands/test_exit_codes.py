"""The documented exit codes, as numbers, of real commands."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from vtrain import errors

ROOT = Path(__file__).parents[2]
CLASSES = {
    "ClosedPipeError": 141,
    "ContactLostError": 12,
    "HungUp": 129,
    "InterruptedByUser": 130,
    "JobCancelledError": 11,
    "JobFailedError": 10,
    "LocalRunError": 125,
    "TerminatedBySignal": 143,
    "UsageError": 2,
    "WaitTimeoutError": 124,
}
"""Every other class ends with 1."""
JOBS = '''
from vtrain.backends import PROTOCOL_VERSION
from vtrain.errors import ServiceError
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogPage

STATES = {"1": "SUCCEEDED", "2": "FAILED", "3": "CANCELLED", "4": "EXPIRED", "5": "RUNNING", "6": "RUNNING"}


class Jobs:
    """Jobs that stay as they are; the sixth is lost from sight."""

    protocol_version = PROTOCOL_VERSION

    def __init__(self, settings):
        self.asked = 0

    def get(self, name):
        number = name.rpartition("/")[2]
        self.asked += 1
        if number == "6" and self.asked > 1:
            raise ServiceError("No.")
        return CustomJob(display_name="a", name=name, state=f"JOB_STATE_{STATES[number]}")

    def logs(self, query):
        return LogPage(entries=(), cursor="", more=False)
'''


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a command that has the backend `jobs`."""
    (tmp_path / "jobs_plugin.py").write_text(JOBS)
    info = tmp_path / "jobs_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jobs-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[vtrain.backends]\njobs = jobs_plugin:Jobs\n")
    return os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(tmp_path)))}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("--version", 0),
        ("custom-jobs wait 1 --backend=jobs", 0),
        ("custom-jobs describe 1 --backend=process", 1),
        ("custom-jobs list --no-such-flag", 2),
        ("no-such-command", 2),
        ("custom-jobs wait 2 --backend=jobs", 10),
        ("custom-jobs stream-logs 2 --backend=jobs", 10),
        ("custom-jobs wait 3 --backend=jobs", 11),
        ("custom-jobs wait 4 --backend=jobs", 11),
        ("custom-jobs wait 6 --backend=jobs", 12),
        ("custom-jobs wait 5 --backend=jobs --wait-timeout=0.1s", 124),
        ("custom-jobs local-run --backend=docker --executor-image-uri=python:3", 125),
    ],
)
def test_a_command_ends_with(line: str, code: int, environment: dict[str, str]) -> None:
    argv = [sys.executable, "-m", "vtrain", *line.split()]
    away = {"DOCKER_HOST": "unix:///nonexistent/docker.sock"}
    ended = subprocess.run(
        argv, env=environment | away, capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_a_command_with(number: int, code: int, environment: dict[str, str]) -> None:
    argv = [sys.executable, "-m", "vtrain", "custom-jobs", "wait", "5", "--backend=jobs"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "Backend: jobs (--backend)\n"
        process.send_signal(number)
        said = process.stderr.read()
    assert process.returncode == code, said
    assert "Traceback" not in said


def test_the_classes_and_the_page_have_these_codes() -> None:
    classes = {
        name: cls.exit_code
        for name, cls in vars(errors).items()
        if isinstance(cls, type) and issubclass(cls, errors.VtrainError) and cls.exit_code != 1
    }
    assert classes == CLASSES
    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text(encoding="utf-8")
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)]
    assert codes == [0, 1, 2, 10, 11, 12, 124, 125, 129, 130, 141, 143]
    assert {*CLASSES.values(), 0, 1} == set(codes)
