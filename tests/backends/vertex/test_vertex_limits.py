"""A service that answers with nothing, without end, or with the same page again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from lib.dripping import BODY, FLOODS, answering
from lib.logging_service import LoggingService, serve_logs
from lib.vertex_jobs import CLUSTER, CUSTOM_JOB, PARENT, settings_at
from lib.vertex_service import VertexService
from lib.waiting import wait_until

from vtrain import http_limits
from vtrain.backends import Query, ServiceAccess
from vtrain.backends import pager as listing
from vtrain.backends.pager import pages
from vtrain.backends.vertex import api, cloud_log
from vtrain.backends.vertex.cloud_log import CloudLog, Timing
from vtrain.backends.vertex.vertex_backend import VertexBackend, open_vertex
from vtrain.errors import ServiceAwayError, ServiceError, UnusableAnswerError
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogPage, LogQuery

NAME = f"{PARENT}/customJobs/1"
NAMELESS = [
    b"",
    b"{}",
    b'{"name": ""}',
    b'{"name": null}',
    b'{"displayName": "train"}',
    b'{"name": {"a": 1}}',
]


@pytest.mark.parametrize("body", NAMELESS)
def test_an_empty_answer_to_a_create_is_no_job(
    vertex: VertexService, backend: VertexBackend, body: bytes
) -> None:
    vertex.answer(body, method="POST")
    with pytest.raises(UnusableAnswerError, match="no CustomJob") as error:
        backend.submit(backend.plan(CUSTOM_JOB))
    assert "is not known" in error.value.hint
    assert [call.split()[0] for call in vertex.calls()].count("POST") == 1


def test_a_job_that_an_empty_answer_hides_is_found(vertex: VertexService, backend: VertexBackend) -> None:
    plan = backend.plan(CUSTOM_JOB)
    made = backend.submit(plan)
    vertex.answer(b"{}", method="POST")
    assert backend.submit(plan).name == made.name  # it covers what was sent, and is as young


def test_an_empty_answer_about_a_job_is_no_job(vertex: VertexService, backend: VertexBackend) -> None:
    made = backend.submit(backend.plan(CUSTOM_JOB))
    for body in (b"", b"{}", b'{"name": ""}'):
        vertex.answer(body, method="GET")
        with pytest.raises(UnusableAnswerError, match="without the resource"):
            backend.get(made.name)
    vertex.answer(b"{}", method="POST")
    with pytest.raises(ServiceError):
        backend.create_resource("mine", CLUSTER, {})


def test_the_command_does_not_tell_of_a_job_without_a_name(
    vtrain: Any, vertex: VertexService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUDSDK_CORE_PROJECT", "demo")
    vertex.answer(b"{}", method="POST")
    pool = "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/p/i"
    ended = vtrain(
        "custom-jobs", "create", "--backend=vertex", "--region=us-central1", "--display-name=a", pool
    )
    assert ended.code == 1
    assert "submitted" not in ended.err and "is not known" in ended.err


def test_a_service_that_drips_is_given_up(
    tmp_path: Path, vertex: VertexService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "CALL_SECONDS", 0.2)
    monkeypatch.setattr(api, "CREATE_SECONDS", 0.2)
    with answering(*BODY) as address:
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", f"http://{address}/")
        backend = open_vertex(settings_at(tmp_path))
        with pytest.raises(ServiceAwayError):
            backend.get(NAME)
        with pytest.raises(ServiceAwayError) as error:
            backend.submit(backend.plan(CUSTOM_JOB))
    assert "is not known" in error.value.hint


def test_an_answer_that_is_too_large_is_refused(
    tmp_path: Path, vertex: VertexService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_limits, "LARGEST_ANSWER", 1 << 20)
    with answering(*FLOODS["chunks"], pause=0) as address:
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", f"http://{address}/")
        with pytest.raises(UnusableAnswerError, match="more than 1048576 bytes"):
            open_vertex(settings_at(tmp_path)).get(NAME)


def test_a_list_whose_pages_repeat_ends(vertex: VertexService, backend: VertexBackend) -> None:
    page = b'{"customJobs": [], "nextPageToken": "again"}'
    vertex.answer(page, times=100)
    with pytest.raises(ServiceError, match="repeats a page"):
        list(pages(backend.list, Query(project="demo", location="us-central1")))
    assert len(vertex.requests) == 2


def test_a_list_with_ever_new_pages_ends(
    vertex: VertexService, backend: VertexBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MOST_PAGES", 5)
    for number in range(100):
        vertex.answer(b'{"nextPageToken": "%d"}' % number)
    with pytest.raises(ServiceError, match="more than 5 pages"):
        list(pages(backend.list, Query(project="demo", location="us-central1")))
    assert len(vertex.requests) == 5


ENDED = CustomJob(name=NAME, state=states.SUCCEEDED, end_time="2026-01-03T10:00:00Z")


@pytest.fixture
def cloud_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoggingService]:
    quick = Timing(first_retry=0.01, longest_retry=0.01, end_patience=0.5)
    monkeypatch.setattr(cloud_log, "TIMING", quick)
    monkeypatch.setenv("CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "true")
    with serve_logs() as service:
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING", service.url)
        yield service


def read_to_the_end() -> list[str]:
    """What is told of the log of an ended job until it is settled."""
    log, pages = CloudLog(ServiceAccess(), "demo"), [LogPage(entries=(), cursor="")]

    def is_settled() -> bool:
        pages.append(log.read(LogQuery(name=NAME, cursor=pages[-1].cursor), ENDED))
        return pages[-1].settled

    wait_until(is_settled, "the log does not end", pause=0)
    return [page.trouble for page in pages if page.trouble]


@pytest.mark.parametrize("token", ["the-same", ""])
def test_a_log_whose_pages_repeat_ends(
    cloud_logging: LoggingService, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    """The same token for ever, and ever new ones."""
    monkeypatch.setattr(cloud_log, "MOST_PAGES", 5)
    numbers = count()
    page = lambda _: {"nextPageToken": token or f"token-{next(numbers)}"}  # noqa: E731
    monkeypatch.setattr(cloud_logging, "answer", page)
    assert any("repeats its pages" in text for text in read_to_the_end())


def test_a_log_that_drips_ends(cloud_logging: LoggingService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_log, "CALL_SECONDS", (0.1, 0.1))
    with answering(*BODY) as address:
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING", f"http://{address}/")
        told = read_to_the_end()
    assert "Cloud Logging does not answer" in told[0] and "stays silent" in told[-1]
