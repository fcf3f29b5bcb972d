"""Ctrl-C while a command stays with a job."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from lib.privileges import run_bound
from lib.stored_jobs import add_job

from vtrain.commands.watching import CANCEL, DETACH, JobWatcher, Stay, stay
from vtrain.errors import InterruptedByUser
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogPage, LogQuery
from vtrain.output.console import Console

NAME = "projects/demo/locations/us-central1/customJobs/1"


class InterruptedBackend:
    """Has one job in one state; Ctrl-C is pressed whenever its log is read, or once it was cancelled."""

    protocol_version = 1

    def __init__(self, state: str) -> None:
        self.state = state
        self.calls: list[str] = []

    def get(self, name: str) -> CustomJob:
        if self.calls:
            raise KeyboardInterrupt
        return CustomJob(name=name, state=self.state)

    def logs(self, query: LogQuery) -> LogPage:
        raise KeyboardInterrupt

    def cancel(self, name: str) -> None:
        self.calls.append("cancel")


class KillingBackend(InterruptedBackend):
    def kill(self, name: str) -> None:
        self.calls.clear()
        self.state = "JOB_STATE_CANCELLED"

    def logs(self, query: LogQuery) -> LogPage:
        if self.state == "JOB_STATE_RUNNING":
            raise KeyboardInterrupt
        return LogPage(entries=(), cursor="", settled=True)


def interrupted(backend: Any, on_interrupt: str) -> InterruptedByUser:
    order = Stay(
        console=Console(), backend=backend, name=NAME, query=LogQuery(name=NAME), on_interrupt=on_interrupt
    )
    with pytest.raises(InterruptedByUser) as ended:
        stay(order)
    return ended.value


@pytest.mark.parametrize("on_interrupt", [DETACH, CANCEL])
def test_a_job_that_has_ended_is_said_to_have_ended(on_interrupt: str) -> None:
    backend = InterruptedBackend("JOB_STATE_FAILED")
    ended = interrupted(backend, on_interrupt)
    assert (ended.message, backend.calls) == ("The job has ended: FAILED.", [])
    assert ended.hint == f"$ vtrain custom-jobs describe {NAME}"


def test_a_job_that_runs_goes_on() -> None:
    ended = interrupted(InterruptedBackend("JOB_STATE_RUNNING"), DETACH)
    assert ended.message == "Detached; the job goes on."


def test_without_a_kill_the_second_interrupt_does_not_wait(capfd: pytest.CaptureFixture[str]) -> None:
    backend = InterruptedBackend("JOB_STATE_RUNNING")
    ended = interrupted(backend, CANCEL)
    assert (ended.message, backend.calls) == ("The job was asked to stop.", ["cancel"])
    assert capfd.readouterr().err == "Stopping the job; once more does not wait for that.\n"


def test_the_second_interrupt_kills_where_that_can_be(capfd: pytest.CaptureFixture[str]) -> None:
    assert interrupted(KillingBackend("JOB_STATE_RUNNING"), CANCEL).message == "Stopped."
    assert capfd.readouterr().err == "Stopping the job; once more kills it.\n"


def test_a_second_interrupt_that_comes_at_once_kills_too(capfd: pytest.CaptureFixture[str]) -> None:
    """Before the command has said that it stops the job: the trainer has its SIGTERM by then."""

    class InterruptedAtOnce(KillingBackend):
        def cancel(self, name: str) -> None:
            super().cancel(name)
            raise KeyboardInterrupt

    backend = InterruptedAtOnce("JOB_STATE_RUNNING")
    interrupted(backend, CANCEL)
    assert backend.state == "JOB_STATE_CANCELLED"


def test_silence_names_the_time_of_the_wait_and_not_of_the_state(capfd: pytest.CaptureFixture[str]) -> None:
    JobWatcher(Console(), None).heard_nothing(CustomJob(name=NAME, state="JOB_STATE_RUNNING"), 71.0)
    assert capfd.readouterr().err == f"After 1:11 RUNNING, no line for a while: {NAME}\n"


def test_an_output_folder_that_cannot_be_read_hides_no_verdict(vtrain_home: Path) -> None:
    """A container may have made it for another user."""
    folder = vtrain_home / "buckets" / "bucket" / "out"
    folder.mkdir(parents=True)
    output = {"baseOutputDirectory": {"outputUriPrefix": "gs://bucket/out"}}
    name = add_job(vtrain_home, "1234567890123456789", "closed", fields={"jobSpec": output})
    folder.chmod(0o000)
    try:
        ended = run_bound([sys.executable, "-m", "vtrain", "custom-jobs", "wait", name])
    finally:
        folder.chmod(0o700)
    assert ended.returncode == 0, ended.stderr
    assert "SUCCEEDED  closed" in ended.stderr
