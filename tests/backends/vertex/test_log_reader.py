from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

import msgspec
import pytest
from lib.logging_service import DROP, LoggingService, serve_logs
from lib.waiting import wait_until

pytest.importorskip("google.auth")

from vtrain.backends import ServiceAccess
from vtrain.backends.vertex import cloud_log as log_reader
from vtrain.backends.vertex.cloud_log import (
    REMEMBERED,
    CloudLog,
    ServiceEntry,
    Timing,
    nanoseconds,
    read_entry,
)
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogPage, LogQuery
from vtrain.messages.resources import Job
from vtrain.messages.training_pipeline import TrainingPipeline
from vtrain.times import from_nanoseconds

NAME = "projects/demo/locations/us-central1/customJobs/1"
QUICK = Timing(first_retry=0.05, longest_retry=0.1, quota_retry=0.1, end_patience=0.5)
RUNNING = CustomJob(name=NAME, state=states.RUNNING)
ENDED = CustomJob(name=NAME, state=states.SUCCEEDED, end_time="2026-01-03T10:00:00Z")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoggingService]:
    monkeypatch.setattr(log_reader, "TIMING", QUICK)
    monkeypatch.setenv("CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "true")
    with serve_logs() as service:
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING", service.url)
        yield service


class Reading:
    """One reader, page after page."""

    def __init__(self, project: str = "demo", **query: str) -> None:
        self.log = CloudLog(ServiceAccess(), project)
        self.query = LogQuery(**({"name": NAME} | query))  # type: ignore[arg-type]
        self.page = LogPage(entries=(), cursor="")

    def read(self, job: Job = RUNNING) -> list[str]:
        query = LogQuery(
            name=self.query.name,
            task_name=self.query.task_name,
            trial_id=self.query.trial_id,
            cursor=self.page.cursor,
        )
        self.page = self.log.read(query, job)
        return [entry.message for entry in self.page.entries]


def test_the_first_question_is_the_one_that_gcloud_asks(service: LoggingService) -> None:
    before = time.time()
    Reading(task_name="workerpool0-0").read()
    (body,) = service.bodies
    upper = re.sub(r'timestamp<"([^"]+)"', "", body["filter"])
    assert service.targets == ["/v2/entries:list?alt=json"]
    assert upper == (
        'resource.type="ml_job" AND resource.labels.job_id="1" AND '
        'resource.labels.task_name="workerpool0-0" AND timestamp>="1970-01-01T01:00:00.000000000Z" AND '
    )
    assert {key: body[key] for key in body if key != "filter"} == {
        "resourceNames": ["projects/demo"],
        "orderBy": "timestamp asc",
        "pageSize": 1000,
    }
    bound = nanoseconds(re.search(r'timestamp<"([^"]+)"', body["filter"])[1]) / 1e9  # type: ignore[index]
    assert before - 5.001 <= bound <= time.time() - 4.999


def test_names_are_quoted(service: LoggingService) -> None:
    Reading(task_name='a"b\\').read()
    assert r'resource.labels.task_name="a\"b\\"' in service.bodies[0]["filter"]


def test_a_trial_is_selected_by_its_label(service: LoggingService) -> None:
    service.write("mine", age=60, labels={"ml.googleapis.com/trial_id": "3"})
    service.write("other", age=60, labels={"ml.googleapis.com/trial_id": "4"})
    assert Reading(trial_id="3").read() == ["mine"]


def test_entries_come_once_in_order_of_time_then_id(service: LoggingService) -> None:
    service.repeats = service.shuffles = True
    for timestamp in ("10:01:05Z", "10:01:05.5Z", "10:01:04.123456789Z", "10:01:05.500Z"):
        service.write(timestamp, timestamp=f"2026-01-03T{timestamp}")
    reading = Reading()
    assert reading.read() == ["10:01:04.123456789Z", "10:01:05Z", "10:01:05.5Z", "10:01:05.500Z"]
    assert reading.read() == []


def test_late_entries_are_shown_and_young_ones_wait_for_their_turn(
    service: LoggingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reader, "TIMING", Timing(hold_back=600))
    service.write("a", age=630)
    service.write("young", age=1)
    reading = Reading()
    assert reading.read() == ["a"]
    service.write("late", age=640)
    assert reading.read() == ["late"]
    assert reading.read(ENDED) == ["young"]


def test_pages_are_asked_for_until_there_are_no_more(service: LoggingService) -> None:
    service.page_size = 2
    for number in range(5):
        service.write(str(number), age=60 - number)
    reading = Reading()
    seen = []
    for _ in range(3):
        seen += reading.read()
        more = reading.page.more
    assert seen == list("01234")
    assert not more
    assert [body.get("pageToken") for body in service.bodies] == [None, "2", "4"]
    assert len({body["filter"] for body in service.bodies}) == 1


def test_a_page_token_that_does_not_count_any_more_begins_a_new_look(service: LoggingService) -> None:
    service.page_size = 3
    service.forgets_tokens = True
    for number in range(5):
        service.write(str(number), age=200 - 40 * number)
    reading = Reading()
    assert [line for _ in range(6) for line in reading.read()] == list("01234")
    assert not reading.page.trouble


def test_more_entries_at_one_instant_than_are_remembered_come_once(service: LoggingService) -> None:
    lines = [str(number) for number in range(2 * REMEMBERED + 1500)]
    for line in lines:
        service.write(line, timestamp="2026-01-03T10:01:05Z")
    reading = Reading()
    assert [line for _ in range(6) for line in reading.read()] == lines
    assert len(reading.page.cursor) < 40_000


def test_the_end_is_reached_after_two_looks_without_entries(service: LoggingService) -> None:
    service.write("a", age=60)
    service.write("b")
    reading = Reading()
    pages = [(reading.read(ENDED), reading.page.settled) for _ in range(4)]
    assert pages == [(["a"], False), (["b"], False), ([], False), ([], True)]


@pytest.mark.parametrize("fault", [429, 500, 503, DROP])
def test_trouble_is_told_and_the_log_goes_on(
    service: LoggingService, monkeypatch: pytest.MonkeyPatch, fault: int
) -> None:
    patient = Timing(first_retry=600, longest_retry=600, quota_retry=600, end_patience=600)
    monkeypatch.setattr(log_reader, "TIMING", patient)
    now = time.time
    service.faults = [fault]
    service.write("a", age=60)
    reading = Reading()
    assert reading.read() == []
    assert reading.page.trouble and not reading.page.settled
    assert reading.read() == [] and len(service.bodies) == 1, "it is left alone for a while"
    monkeypatch.setattr(time, "time", lambda: now() + 601)
    assert reading.read() == ["a"]
    assert not reading.page.trouble


@pytest.mark.parametrize("fault", [429, 503])
def test_a_service_that_asks_for_a_pause_gets_it(service: LoggingService, fault: int) -> None:
    soon = datetime.now(timezone.utc) + timedelta(seconds=3600)
    for asked in ("3600", format_datetime(soon, usegmt=True)):
        reading = Reading()
        service.faults, service.retry_after = [fault], asked
        reading.read()
        count = len(service.bodies)
        time.sleep(2 * QUICK.longest_retry)
        assert reading.read() == []
        assert len(service.bodies) == count


@pytest.mark.parametrize("odd", [{"severity": 5}, {"insertId": 5}, {"jsonPayload": "odd"}])
def test_an_answer_that_is_no_log_is_trouble_of_the_log(service: LoggingService, odd: dict[str, Any]) -> None:
    service.write("a", age=60, **odd)
    reading = Reading()
    assert reading.read() == []
    assert "something else than a log" in reading.page.trouble
    assert not reading.page.settled


def test_a_log_that_may_not_be_read_is_given_up(service: LoggingService) -> None:
    service.faults = [403]
    reading = Reading()
    reading.read()
    assert "roles/logging.viewer" in reading.page.trouble and reading.page.settled
    reading.read()
    assert len(service.bodies) == 1 and not reading.page.trouble


def test_a_service_that_stays_silent_is_given_up_after_the_end(service: LoggingService) -> None:
    service.faults = [503] * 100
    reading = Reading()

    def is_settled() -> bool:
        if not (reading.page.cursor and reading.page.settled):
            assert reading.read(ENDED) == []
        return bool(reading.page.cursor and reading.page.settled)

    wait_until(is_settled)
    assert "last lines" in reading.page.trouble


def test_the_project_that_gcloud_is_set_to_is_asked_first_then_the_jobs_own(service: LoggingService) -> None:
    reading = Reading(project="core")
    service.faults = [403]
    reading.read(), reading.read()
    number = Reading(project="core", name=NAME.replace("demo", "123"))
    number.read(), number.read()
    Reading(project="").read()
    asked = [body["resourceNames"][0].removeprefix("projects/") for body in service.bodies]
    assert asked == ["core", "demo", "core", "core", "demo"]


def test_the_log_of_a_pipeline_is_that_of_its_job(service: LoggingService) -> None:
    service.write("a", age=60, job="77")
    pipeline = TrainingPipeline(training_task_metadata={"backingCustomJob": NAME[:-1] + "77"})
    assert Reading().read(pipeline) == ["a"]


@pytest.mark.parametrize(
    ("document", "severity", "task", "message"),
    [
        ({"textPayload": "hi"}, "DEFAULT", "unknown_task", "hi"),
        ({"jsonPayload": {"message": "hi", "n": 1}, "severity": "ERROR"}, "ERROR", "unknown_task", "hi"),
        ({"jsonPayload": {"message": {"a": 1}}}, "DEFAULT", "unknown_task", '{"a": 1}'),
        ({"jsonPayload": {"message": 5}}, "DEFAULT", "unknown_task", "5"),
        ({"jsonPayload": {"other": 5}}, "DEFAULT", "unknown_task", ""),
        ({"protoPayload": {}, "resource": {"labels": {"task_name": "t"}}}, "DEFAULT", "t", ""),
        ({"textPayload": "a\r\nb\u2028c\n"}, "DEFAULT", "unknown_task", "a\nb\nc"),
    ],
)
def test_an_entry(document: dict[str, object], severity: str, task: str, message: str) -> None:
    entry = read_entry(msgspec.convert(document, ServiceEntry))
    assert (entry.severity, entry.task_name, entry.message) == (severity, task, message)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000_000),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("1970-01-01T01:00:01.000000001+01:00", 1_000_000_001),
        ("yesterday", 0),
        ("2026-13-41T00:00:00Z", 0),
        ("0001-01-01T00:00:00Z", 0),
        ("9999-12-31T23:59:59Z", 2**63 - 1),
    ],
)
def test_instants(text: str, expected: int) -> None:
    assert nanoseconds(text) == expected
    assert nanoseconds(from_nanoseconds(expected, 9)) == expected
