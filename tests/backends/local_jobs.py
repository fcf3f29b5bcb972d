"""What tests of local backends ask of a job, and of the supervisor behind it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from vtrain.backends.local import LocalBackend
from vtrain.engine.folder import JobFolder
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogQuery

PRIMARY = "workerpool0-0"
PATIENCE_SECONDS = 60.0


def submit(backend: LocalBackend, job: CustomJob) -> str:
    """Submit a job; its name."""
    return backend.submit(backend.plan(job)).name


def until(reached: Callable[[], bool]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not reached():
        assert time.monotonic() < deadline, "this took too long"
        time.sleep(0.01)


def ended(backend: LocalBackend, name: str) -> CustomJob:
    """The job, once it has ended."""
    until(lambda: states.has_ended(backend.get(name).state))
    return backend.get(name)


def lines(backend: LocalBackend, name: str, task: str = PRIMARY) -> list[str]:
    """All that a replica has written until now."""
    page = backend.logs(LogQuery(name=name, task_name=task, limit=2**26))
    return [line for entry in page.entries for line in entry.message.split("\n")]


def folder_of(home: Path, name: str) -> JobFolder:
    """The job's folder."""
    return JobFolder(home / "jobs" / name.rpartition("/")[2])


def supervisor_of(folder: JobFolder) -> int:
    """The process id of the job's supervisor; 0 when none lives."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = [*(entry / "cmdline").read_bytes().split(b"\0"), b""]
            except OSError:
                continue
            if command[1].endswith(b"/supervise.py") and str(folder.path).encode() in command:
                return int(entry.name)
    return 0


def info(job: CustomJob) -> dict[str, str]:
    """The details of a failed job's error, and its reason."""
    assert job.error is not None, job
    detail = job.error.details[0]
    return {"reason": detail["reason"], **detail["metadata"]}


def reason(job: CustomJob) -> str:
    """Why the job failed, in one word."""
    return info(job)["reason"]
