"""A job followed with its log, over HTTP: the state from one service, the lines from another."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from lib.logging_service import DROP, LoggingService, serve_logs
from lib.vertex_service import VertexService

from vtrain.backends import Pace
from vtrain.backends.vertex import cloud_log
from vtrain.backends.vertex.cloud_log import Timing
from vtrain.backends.vertex.vertex_backend import VertexBackend
from vtrain.core.following import Follow, follow
from vtrain.core.verdict import raise_verdict
from vtrain.errors import JobFailedError, VtrainError
from vtrain.messages.log import LogPage, LogQuery
from vtrain.messages.resources import Job

NAME = "projects/demo/locations/us-central1/customJobs/1"


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoggingService]:
    quick = Timing(hold_back=0.3, first_retry=0.05, longest_retry=0.1, quota_retry=0.1, end_patience=0.5)
    monkeypatch.setattr(cloud_log, "TIMING", quick)
    with serve_logs() as service:
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING", service.url)
        yield service


class Notes:
    """A watcher that writes down what it sees."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.troubles: list[str] = []

    def saw_page(self, page: LogPage) -> None:
        self.lines += [entry.message for entry in page.entries]

    def saw_job(self, job: Job, elapsed: float) -> None:
        pass

    def cannot_ask(self, error: VtrainError) -> None:
        self.troubles.append(error.message)

    def cannot_read(self, trouble: str) -> None:
        self.troubles.append(trouble)

    def heard_nothing(self, job: Job, elapsed: float) -> None:
        pass


def followed(backend: VertexBackend, notes: Notes) -> Job:
    order = Follow(backend=backend, name=NAME, query=LogQuery(name=NAME), slowest_poll=0.05, timeout=120)
    return follow(order, notes)


def put(vertex: VertexService, state: str, **fields: str) -> None:
    vertex.put(NAME, displayName="x", state=f"JOB_STATE_{state}", **fields)


def test_a_bad_log_loses_no_line_and_never_changes_the_verdict(
    logs: LoggingService, vertex: VertexService, backend: VertexBackend
) -> None:
    """It repeats, reorders, delays, refuses and hangs up while a job runs and fails."""
    put(vertex, "RUNNING")
    logs.repeats = logs.shuffles = True
    logs.faults = [200, 429, 200, 503, DROP]

    def train() -> None:
        for number in range(30):
            logs.write(str(number), delay=0.2 if number % 3 else 0.0)
            time.sleep(0.02)
            if number == 20:
                logs.faults += [429, 503]
        put(vertex, "FAILED")
        logs.write("the end", delay=0.1)

    notes = Notes()
    thread = threading.Thread(target=train)
    thread.start()
    job = followed(backend, notes)
    thread.join()
    assert notes.lines == [*map(str, range(30)), "the end"]
    assert len(notes.troubles) == len(set(notes.troubles)) == 3
    with pytest.raises(JobFailedError):
        raise_verdict(job)


@pytest.mark.parametrize("fault", [403, 429, 503, DROP])
def test_without_a_log_there_is_a_verdict(
    logs: LoggingService, vertex: VertexService, backend: VertexBackend, fault: int
) -> None:
    put(vertex, "SUCCEEDED")
    logs.faults = [fault] * 1000
    notes = Notes()
    job = followed(backend, notes)
    assert job.state == "JOB_STATE_SUCCEEDED"
    assert notes.troubles


def test_a_finished_job_takes_one_question_for_its_state_before_its_log(
    logs: LoggingService, vertex: VertexService, backend: VertexBackend
) -> None:
    put(vertex, "SUCCEEDED", endTime="2026-01-03T11:00:00Z")
    logs.write("a", age=600)
    notes = Notes()
    followed(backend, notes)
    assert notes.lines == ["a"]
    assert len(vertex.requests) == len(logs.bodies) == 3


def test_stream_logs_prints_what_gcloud_prints_and_ends_with_the_verdict(
    logs: LoggingService, vertex: VertexService, vtrain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VertexBackend, "pace", Pace(fastest=0.01, slowest=0.01))
    put(vertex, "CANCELLED", endTime="2026-01-03T11:00:00Z")
    logs.write("one\ntwo", timestamp="2026-01-03T10:01:00.123456789Z", severity="WARNING")
    logs.write(None, timestamp="2026-01-03T10:01:01Z", task="", jsonPayload={"message": "three", "n": 1})
    ended = vtrain("custom-jobs", "stream-logs", NAME)
    assert ended.code == 11
    columns = [line.split("\t") for line in ended.out.splitlines()]
    assert [[severity, task, text] for severity, _, task, text in columns] == [
        ["WARNING", "workerpool0-0", "one"],
        ["WARNING", "workerpool0-0", "two"],
        ["DEFAULT", "unknown_task", "three"],
    ]
    records = json.loads(vtrain("custom-jobs", "stream-logs", NAME, "--format=json").out)
    assert records[2] == {
        "message": "three",
        "severity": "DEFAULT",
        "task_name": "unknown_task",
        "timestamp": "2026-01-03T10:01:01Z",
    }
    assert records[0]["timestamp"] == "2026-01-03T10:01:00.123456789Z"
