"""A service that falters: what is asked again, and that a job is created exactly once."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path
from threading import Thread

import msgspec
import pytest
from google.auth.exceptions import RefreshError
from lib.vertex_jobs import CLUSTER, CUSTOM_JOB, PARENT, TUNING_JOB, settings_at
from lib.vertex_service import VertexService

from vtrain.backends import Query
from vtrain.backends.vertex import api, retries
from vtrain.backends.vertex.retries import covers
from vtrain.backends.vertex.vertex_backend import VertexBackend, open_vertex
from vtrain.errors import (
    ConflictError,
    InterruptedByUser,
    ServiceAwayError,
    ServiceError,
    TerminatedBySignal,
    VtrainError,
)
from vtrain.http_session import BoundedAdapter

JOB = f"{PARENT}/customJobs/1"
CLUSTER_NAME = f"{PARENT}/persistentResources/c"
SAFE: dict[str, Callable[[VertexBackend], object]] = {
    "get": lambda backend: backend.get(JOB),
    "list": lambda backend: backend.list(Query(project="demo")),
    "cancel": lambda backend: backend.cancel(JOB),
    "delete": lambda backend: backend.delete(JOB),
}


@pytest.fixture
def job(vertex: VertexService) -> str:
    return str(vertex.put(JOB, state="JOB_STATE_FAILED", jobSpec={})["name"])


@pytest.mark.parametrize("verb", SAFE)
@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 0])
def test_safe_verbs_are_repeated(
    vertex: VertexService, backend: VertexBackend, job: str, verb: str, status: int
) -> None:
    if status:
        vertex.fail(status, times=4)
    else:
        vertex.drop(times=4)
    SAFE[verb](backend)
    assert len(vertex.requests) == retries.ATTEMPTS == 5


def test_a_refusal_is_not_repeated(vertex: VertexService, backend: VertexBackend, job: str) -> None:
    vertex.fail(400, "Bad thing.")
    with pytest.raises(ServiceError, match="INVALID_ARGUMENT: Bad thing"):
        backend.get(job)
    assert len(vertex.requests) == 1


def test_five_attempts_are_all(vertex: VertexService, backend: VertexBackend, job: str) -> None:
    vertex.fail(503, "Busy.", times=9)
    with pytest.raises(ServiceAwayError, match="UNAVAILABLE: Busy"):
        backend.get(job)
    assert len(vertex.requests) == 5


def test_a_connection_that_ends_within_tls_is_made_again(
    tmp_path: Path, vertex: VertexService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a proxy or a load balancer that is restarted ends it: nothing is wrong with its certificate."""
    taken = []

    def cut_off(server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection:
                    taken.append(connection.recv(4096))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=cut_off, args=(server,))
        thread.start()
        here = f"https://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", here)
        with pytest.raises(ServiceAwayError, match="closed the connection without an answer"):
            open_vertex(settings_at(tmp_path)).get(JOB)
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert len(taken) == retries.ATTEMPTS


def test_a_short_retry_after_is_waited_for_and_a_long_one_is_not(
    vertex: VertexService, backend: VertexBackend, job: str
) -> None:
    vertex.fail(429, headers={"Retry-After": "1"})
    started = time.monotonic()
    backend.get(job)
    assert time.monotonic() - started >= 1
    soon = {"Retry-After": format_datetime(datetime.now(timezone.utc) + timedelta(seconds=600), usegmt=True)}
    for headers in ({"Retry-After": "600"}, soon):
        vertex.fail(503, headers=headers)
        with pytest.raises(ServiceAwayError):
            backend.get(job)


def test_a_delete_whose_answer_was_lost(vertex: VertexService, backend: VertexBackend, job: str) -> None:
    vertex.drop("DELETE", handled=True)
    backend.delete(job)
    assert vertex.resources == {}


def test_a_delete_that_fails_in_the_end(vertex: VertexService, backend: VertexBackend) -> None:
    for error, words in ((b'{"message": "It is locked."}', "It is locked."), (b'"odd"', "odd")):
        name = PARENT.encode() + b"/operations/7"
        vertex.answer(b'{"name": "%s", "done": true, "error": %s}' % (name, error), method="DELETE")
        with pytest.raises(ServiceError, match=words):
            backend.delete(JOB)


@pytest.mark.parametrize("answer", [b"", b'{"odd": 1}', b'{"done": false}'])
def test_a_delete_whose_answer_is_no_operation(
    vertex: VertexService, backend: VertexBackend, answer: bytes
) -> None:
    vertex.answer(answer, method="DELETE")
    backend.delete(JOB)
    assert len(vertex.requests) == 1


def test_a_reboot_is_not_made_twice(vertex: VertexService, backend: VertexBackend) -> None:
    vertex.put(CLUSTER_NAME, state="RUNNING")
    vertex.drop("POST", handled=True)
    with pytest.raises(ServiceAwayError) as raised:
        backend.reboot_resource(CLUSTER_NAME)
    assert "not known" in raised.value.hint
    assert len(vertex.requests) == 1


def test_every_call_has_a_deadline(
    vertex: VertexService, tmp_path: Path, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "CALL_SECONDS", 0.2)
    monkeypatch.setattr(retries, "ATTEMPTS", 1)
    vertex.delay(0.5)
    with pytest.raises(ServiceAwayError, match="in time"):
        open_vertex(settings_at(tmp_path)).get(job)


# a create, exactly once


@pytest.mark.parametrize("sent", [CUSTOM_JOB, TUNING_JOB], ids=["custom", "tuning"])
def test_503_twice_then_a_lost_answer(vertex: VertexService, backend: VertexBackend, sent: object) -> None:
    vertex.fail(503, method="POST", times=2)
    vertex.drop("POST", handled=True)
    made = backend.submit(backend.plan(sent))  # type: ignore[arg-type]
    assert list(vertex.resources) == [made.name]
    posts = [request for request in vertex.requests if request.method == "POST"]
    assert len(posts) == 3


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_an_error_after_the_job_was_created(
    vertex: VertexService, backend: VertexBackend, status: int
) -> None:
    vertex.answer(b"{}", status=status, method="POST", times=5, handled=True)
    made = backend.submit(backend.plan(CUSTOM_JOB))
    assert list(vertex.resources) == [made.name]


def test_an_answer_that_cannot_be_unpacked_is_a_lost_one(
    vertex: VertexService, backend: VertexBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    garbled = {"Content-Encoding": "gzip"}
    vertex.answer(b"{}", headers=garbled, method="POST", times=5, handled=True)
    made = backend.submit(backend.plan(CUSTOM_JOB))
    assert list(vertex.resources) == [made.name]
    monkeypatch.setattr(retries, "ATTEMPTS", 1)
    vertex.answer(b"odd", headers=garbled)
    with pytest.raises(ServiceAwayError, match="unpacked"):
        backend.get(made.name)


def test_a_token_service_that_cannot_answer_is_asked_again(
    vertex: VertexService, backend: VertexBackend, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    sends = BoundedAdapter.send
    troubles = [RefreshError("unavailable", retryable=True)]

    def send(self, *args, **options):  # type: ignore[no-untyped-def]
        if troubles:
            raise troubles.pop()
        return sends(self, *args, **options)

    monkeypatch.setattr(BoundedAdapter, "send", send)
    assert backend.get(job).name == job
    troubles += [RefreshError("unavailable", retryable=True) for _ in range(retries.ATTEMPTS)]
    with pytest.raises(ServiceAwayError, match="No token could be had: unavailable"):
        backend.get(job)


def test_the_last_attempt_is_looked_for_too(vertex: VertexService, backend: VertexBackend) -> None:
    vertex.fail(503, method="POST", times=4)
    vertex.drop("POST", handled=True)
    made = backend.submit(backend.plan(CUSTOM_JOB))
    assert list(vertex.resources) == [made.name]


def test_older_and_other_jobs_of_the_same_name_are_not_taken_for_ours(
    vertex: VertexService, backend: VertexBackend
) -> None:
    same = backend.submit(backend.plan(CUSTOM_JOB)).answer
    assert same is not None
    vertex.resources[str(same["name"])]["createTime"] = "2020-01-01T00:00:00.000000Z"
    vertex.put(f"{PARENT}/customJobs/2", displayName="train", jobSpec={"workerPoolSpecs": []})
    vertex.drop("POST")
    made = backend.submit(backend.plan(CUSTOM_JOB))
    assert made.name not in (same["name"], f"{PARENT}/customJobs/2")
    assert len(vertex.resources) == 3


def test_a_service_that_does_not_tell_its_clock(
    vertex: VertexService, backend: VertexBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vertex, "tells_time", False)
    vertex.drop("POST", handled=True)
    made = backend.submit(backend.plan(CUSTOM_JOB))
    assert list(vertex.resources) == [made.name]


def test_a_display_name_with_quotes_is_found(vertex: VertexService, backend: VertexBackend) -> None:
    vertex.drop("POST", handled=True)
    made = backend.submit(backend.plan(msgspec.structs.replace(CUSTOM_JOB, display_name='a "b" \\ c')))
    assert list(vertex.resources) == [made.name]


def test_a_rate_limit_is_repeated_and_a_quota_is_not(vertex: VertexService, backend: VertexBackend) -> None:
    vertex.fail(429, method="POST", times=2)
    backend.submit(backend.plan(CUSTOM_JOB))
    assert vertex.calls() == [f"POST /v1/{PARENT}/customJobs"] * 3
    vertex.fail(
        429,
        "The following quota metrics exceed quota limits: "
        "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus",
    )
    with pytest.raises(ServiceError) as raised:
        backend.submit(backend.plan(CUSTOM_JOB))
    assert "custom_model_training_nvidia_l4_gpus" in raised.value.hint
    assert len(vertex.requests) == 4


def test_an_unknown_outcome_is_said(vertex: VertexService, backend: VertexBackend) -> None:
    vertex.drop(times=100)
    with pytest.raises(ServiceAwayError) as raised:
        backend.submit(backend.plan(CUSTOM_JOB))
    assert "not known" in raised.value.hint


@pytest.mark.parametrize(
    ("interrupt", "expected"),
    [(KeyboardInterrupt(), InterruptedByUser), (TerminatedBySignal("Terminated."), TerminatedBySignal)],
)
def test_an_interrupted_create_may_have_been_carried_out(
    backend: VertexBackend,
    monkeypatch: pytest.MonkeyPatch,
    interrupt: BaseException,
    expected: type[VtrainError],
) -> None:
    def send(*args, **options):  # type: ignore[no-untyped-def]
        raise interrupt

    monkeypatch.setattr(BoundedAdapter, "send", send)
    with pytest.raises(expected) as raised:
        backend.submit(backend.plan(CUSTOM_JOB))
    assert "Whether the CustomJob was created is not known" in raised.value.hint
    with pytest.raises(type(interrupt)):
        backend.get(JOB)


def test_a_signal_ends_a_create_that_is_looked_for(
    vertex: VertexService, backend: VertexBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    sends, sent = BoundedAdapter.send, []

    def send(self, *args, **options):  # type: ignore[no-untyped-def]
        sent.append(args)
        if len(sent) > 3:
            raise TerminatedBySignal("Terminated.")
        return sends(self, *args, **options)

    monkeypatch.setattr(BoundedAdapter, "send", send)
    vertex.drop("POST", times=9)
    with pytest.raises(TerminatedBySignal):
        backend.submit(backend.plan(CUSTOM_JOB))
    assert len(sent) == 4


@pytest.mark.parametrize("polls", [0, 1], ids=["done", "under-way"])
def test_a_persistent_resource_whose_answer_was_lost(
    vertex: VertexService, backend: VertexBackend, polls: int
) -> None:
    vertex.polls_until_done = polls
    vertex.fail(503, method="POST")
    vertex.drop("POST", handled=True)
    operation = backend.create_resource("c", CLUSTER, {})
    assert operation.name.startswith(f"{CLUSTER_NAME}/operations/")
    assert list(vertex.resources) == [CLUSTER_NAME]


def test_a_persistent_resource_of_that_id_exists(vertex: VertexService, backend: VertexBackend) -> None:
    vertex.put(CLUSTER_NAME, state="RUNNING")
    with pytest.raises(ConflictError, match="ALREADY_EXISTS"):
        backend.create_resource("c", CLUSTER, {})


def test_nobody_listens(tmp_path: Path, vertex: VertexService, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", url + "/")
        backend = open_vertex(settings_at(tmp_path))
        for verb in (lambda: backend.get(JOB), lambda: backend.submit(backend.plan(CUSTOM_JOB))):
            with pytest.raises(VtrainError) as raised:
                verb()
            assert raised.value.message == f"The emulator at {url} has stopped."
            assert "vtrain emulator env --unset" in raised.value.hint


@pytest.mark.parametrize(
    ("sent", "found", "same"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": {"uri": "gs://b/x"}}, {"a": {"uri": "gs://b/x/"}}, True),
        ({"a": [{}]}, {"a": [{"diskSpec": {}}]}, True),
        ({"a": [{}, {}]}, {"a": [{}]}, False),
        ({"a": {}}, {}, True),
        ({"a": 1.0}, {"a": 1}, True),
        ({"a": True}, {}, False),
        ({"a": "x"}, {"a": "y"}, False),
    ],
)
def test_what_counts_as_the_same(sent: object, found: object, same: bool) -> None:
    assert covers(sent, found) is same


@pytest.mark.parametrize("verb", [*SAFE, "submit"])
def test_the_first_of_several_attempts_is_told_once(
    vertex: VertexService, job: str, tmp_path: Path, verb: str
) -> None:
    told: list[str] = []
    backend = open_vertex(msgspec.structs.replace(settings_at(tmp_path), tell=told.append))
    vertex.fail(503, "Busy.", times=3)
    if verb == "submit":
        backend.submit(backend.plan(CUSTOM_JOB))
    else:
        SAFE[verb](backend)
    assert told == ["UNAVAILABLE: Busy. Trying again."]


def test_an_endpoint_that_nobody_listens_at_is_told(
    vertex: VertexService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", "http://127.0.0.1:1/")
    backend = open_vertex(msgspec.structs.replace(settings_at(tmp_path), tell=told.append))
    with pytest.raises(ServiceAwayError, match="has stopped"):
        backend.get(JOB)
    assert told == []
