"""The documented exit codes, as numbers, of real commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vtrain import errors
from vtrain.commands.reference import exit_codes

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
from vtrain.backends.interface import Backend
from vtrain.errors import ServiceError
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogPage

STATES = {"1": "SUCCEEDED", "2": "FAILED", "3": "CANCELLED", "4": "EXPIRED", "5": "RUNNING", "6": "RUNNING"}


class Described(Backend):
    name = "jobs"

    def open(self, settings):
        return Jobs()


class Jobs:
    """Jobs that stay as they are; the sixth is lost from sight."""

    protocol_version = PROTOCOL_VERSION

    def __init__(self):
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
    (info / "entry_points.txt").write_text("[vtrain.backends]\njobs = jobs_plugin:Described\n")
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


def test_the_classes_and_the_documentation_have_these_codes() -> None:
    classes = {
        name: cls.exit_code
        for name, cls in vars(errors).items()
        if isinstance(cls, type) and issubclass(cls, errors.VtrainError) and cls.exit_code != 1
    }
    assert classes == CLASSES
    codes = [int(code) for code, _meaning in exit_codes()]
    assert codes == [0, 1, 2, 10, 11, 12, 124, 125, 129, 130, 141, 143]
    assert {*CLASSES.values(), 0, 1} == set(codes)


FAULTS = (RuntimeError("odd"), OSError(5, "Input/output error", "x"), errors.DamagedError("Torn."))
LOCAL_RUN = ("custom-jobs", "local-run", "--backend=process")
WRONG_COMMANDS = (
    ("--script=none.py", 1),
    ("--script=t.py --display-name=", 1),
    ("--script=t.py --requirements=none.txt --local-package-path=none", 1),
    ("--script=t.py --env=A", 1),
    (f"--script=t.py --credentials={'k' * 5000}", 1),
    ("--script=t.py --backend=nobody", 1),
    ("--config=none.yaml", 1),
    ("--config=bad.yaml", 1),
    ("--script=t.py --python-module=a.b", 2),
    ("--script=t.py --no-such-flag", 2),
)


@pytest.fixture
def script(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`t.py` and `bad.yaml` in the current folder."""
    monkeypatch.delenv("A", raising=False)
    (cwd / "bad.yaml").write_text("a: [")
    (cwd / "t.py").write_text("print('trained')\n")


@pytest.mark.usefixtures("script")
def test_local_run_refuses_a_wrong_command_as_every_command_does(
    vtrain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words, code in WRONG_COMMANDS:
        ended = vtrain(*LOCAL_RUN, *words.split())
        assert (ended.code, ended.out) == (code, ""), (words, ended.err)
    monkeypatch.setenv("VTRAIN_GRACE_SECONDS", "soon")
    assert vtrain(*LOCAL_RUN, "--script=t.py").code == 1


@pytest.mark.usefixtures("script")
@pytest.mark.parametrize("step", ["prepare_for", "launch_prepared", "remarks_on"])
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_around_the_trainer_ends_local_run_with_125(
    vtrain: Any, monkeypatch: pytest.MonkeyPatch, step: str, fault: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise fault

    owner = "vtrain.runtime.working_folder" if step == "remarks_on" else "vtrain.commands.local_run"
    monkeypatch.setattr(f"{owner}.{step}", fail)
    ended = vtrain(*LOCAL_RUN, "--script=t.py")
    assert ended.code == 125, ended.err
    assert "ERROR: " in ended.err and "Traceback" not in ended.err
