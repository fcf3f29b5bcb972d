from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from vtrain import follow as module
from vtrain.backends import LOCAL_PACE, Pace, Page, Plan, Query
from vtrain.errors import (
    ContactLostError,
    CredentialsError,
    NotFoundError,
    ServiceAwayError,
    ServiceError,
    StorageError,
    VtrainError,
    WaitTimeoutError,
)
from vtrain.follow import Follow, follow
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogEntry, LogPage, LogQuery

NAME = "projects/local/locations/us-central1/customJobs/1"
Answer = str | Exception


class ScriptedBackend:
    """Answers each `get` with the next state of a script (the last one for ever); its log grows too.

    `lines[n]` are the lines that the log holds beyond the former ones once `get` was asked n + 1 times.
    """

    protocol_version = 1

    def __init__(self, script: Sequence[Answer], lines: Sequence[Sequence[str]] = ()) -> None:
        self.script = list(script)
        self.lines = lines
        self.asked = 0

    def get(self, name: str) -> CustomJob:
        answer = self.script[min(self.asked, len(self.script) - 1)]
        self.asked += 1
        if isinstance(answer, Exception):
            raise answer
        return CustomJob(name=name, state=answer)

    def logs(self, query: LogQuery) -> LogPage:
        there = [line for block in self.lines[: self.asked] for line in block]
        start = int(query.cursor or 0)
        entries = [entry(number, there[number]) for number in range(start, min(len(there), start + 2))]
        return LogPage(entries=tuple(entries), cursor=str(start + len(entries)))

    def plan(self, job: CustomJob) -> Plan:
        return Plan(job=job, backend="scripted")

    def submit(self, plan: Plan) -> CustomJob:
        return plan.job

    def list(self, query: Query) -> Page:
        return Page(jobs=())

    def cancel(self, name: str) -> None:
        raise AssertionError(f"nobody asked to cancel {name}")

    def delete(self, name: str) -> None:
        raise AssertionError(f"nobody asked to delete {name}")


def entry(number: int, line: str) -> LogEntry:
    return LogEntry(
        time=number, insert_id=str(number), severity="INFO", task_name="workerpool0-0", payload=line.encode()
    )


class Notes:
    """A watcher that writes down what it sees."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.states: list[str] = []
        self.silences = 0
        self.troubles: list[str] = []

    def saw_page(self, page: LogPage) -> None:
        self.lines += [entry.message for entry in page.entries]

    def saw_job(self, job: CustomJob, elapsed: float) -> None:
        assert elapsed >= 0
        self.states.append(states.short(job.state))

    def cannot_ask(self, error: StorageError) -> None:
        self.troubles.append(error.message)

    def cannot_read(self, trouble: str) -> None:
        self.troubles.append(trouble)

    def heard_nothing(self, job: CustomJob, elapsed: float) -> None:
        self.silences += 1


def followed(backend: ScriptedBackend, **order: Any) -> tuple[CustomJob, Notes]:
    notes = Notes()
    query = LogQuery(name=NAME)
    return follow(Follow(**({"backend": backend, "name": NAME, "query": query} | order)), notes), notes


def test_stays_until_the_job_has_ended() -> None:
    job, notes = followed(ScriptedBackend([states.PENDING, states.RUNNING, states.SUCCEEDED]), query=None)
    assert job.state == states.SUCCEEDED
    assert notes.states == ["PENDING", "RUNNING", "SUCCEEDED"]
    assert notes.lines == []


@pytest.mark.parametrize("state", sorted(states.ENDED))
def test_every_end_is_an_end(state: str) -> None:
    assert followed(ScriptedBackend([states.RUNNING, state]))[0].state == state


def test_every_line_is_seen_once_and_in_order_to_the_last_before_the_end() -> None:
    blocks = [["a"], [], ["b", "c", "d", "e", "f"], ["g"]]
    script = [states.PENDING, states.RUNNING, states.RUNNING, states.SUCCEEDED]
    assert followed(ScriptedBackend(script, blocks))[1].lines == list("abcdefg")


def test_lines_written_between_question_and_end_are_not_lost() -> None:
    """The log grows after the state was read: only a page that is empty after the end is the last one."""
    blocks = [[], ["last", "words", "of", "the", "trainer"]]
    assert followed(ScriptedBackend([states.RUNNING, states.FAILED], blocks))[1].lines[-1] == "trainer"


def test_goes_on_from_a_cursor() -> None:
    backend = ScriptedBackend([states.SUCCEEDED], [["a", "b", "c"]])
    assert followed(backend, query=LogQuery(name=NAME, cursor="2"))[1].lines == ["c"]


def test_a_timeout_ends_the_waiting_and_not_the_job() -> None:
    with pytest.raises(WaitTimeoutError, match="goes on") as caught:
        followed(ScriptedBackend([states.RUNNING]), timeout=0.05)
    assert caught.value.exit_code == 124


def test_a_job_that_has_ended_already_beats_a_timeout_of_nothing() -> None:
    assert followed(ScriptedBackend([states.SUCCEEDED], [["a"]]), timeout=0.0)[1].lines == ["a"]


def test_an_unknown_job_is_said_at_once() -> None:
    with pytest.raises(NotFoundError):
        followed(ScriptedBackend([NotFoundError("no such job")]))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[], float]:
    """Time that passes by sleeping alone."""
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return lambda: now[0]


def test_a_storage_that_refuses_for_a_moment_is_asked_again(clock: Callable[[], float]) -> None:
    refusal = StorageError("database is locked")
    job, notes = followed(ScriptedBackend([states.RUNNING, *[refusal] * 5, states.SUCCEEDED]))
    assert job.state == states.SUCCEEDED
    assert notes.troubles == ["database is locked"]


def test_contact_is_lost_after_a_minute_of_refusals(clock: Callable[[], float]) -> None:
    started = clock()
    with pytest.raises(ContactLostError, match="disk I/O error"):
        followed(ScriptedBackend([states.RUNNING, StorageError("disk I/O error")]))
    assert 60 <= clock() - started < 70


@pytest.mark.parametrize("refusal", [CredentialsError("The token has run out."), ServiceError("No.")])
def test_a_refusal_in_between_does_not_tell_how_the_job_ends(
    clock: Callable[[], float], refusal: VtrainError
) -> None:
    with pytest.raises(ContactLostError, match=refusal.message):
        followed(ScriptedBackend([states.RUNNING, refusal, states.SUCCEEDED]))
    with pytest.raises(type(refusal), match=refusal.message):
        followed(ScriptedBackend([refusal]))


def test_a_quiet_job_is_mentioned_every_half_minute(clock: Callable[[], float]) -> None:
    started = clock()
    backend = ScriptedBackend([states.RUNNING])
    notes = Notes()
    with pytest.raises(WaitTimeoutError):
        follow(Follow(backend=backend, name=NAME, timeout=100.0), notes)
    assert notes.silences == 3
    assert clock() - started == pytest.approx(100, abs=1)
    assert backend.asked > 100 / LOCAL_PACE.slowest * 0.9


class RemoteBackend(ScriptedBackend):
    """One whose log trickles in: a list of pages, the last one for ever."""

    pace = Pace(fastest=2.0, slowest=15.0, patience=300.0)

    def __init__(self, script: Sequence[Answer], pages: Sequence[LogPage]) -> None:
        super().__init__(script)
        self.pages = list(pages)
        self.times: list[float] = []

    def logs(self, query: LogQuery) -> LogPage:
        self.times.append(module.time.monotonic())
        return self.pages.pop(0) if len(self.pages) > 1 else self.pages[0]


def page(*lines: str, **fields: Any) -> LogPage:
    entries = tuple(entry(number, line) for number, line in enumerate(lines))
    return LogPage(**({"entries": entries, "cursor": "c", "more": False} | fields))


def pauses(backend: RemoteBackend) -> list[float]:
    return [after - before for before, after in itertools.pairwise(backend.times)]


def test_the_backend_says_how_often_it_is_asked(clock: Callable[[], float]) -> None:
    backend = RemoteBackend([states.RUNNING] * 10 + [states.SUCCEEDED], [page()] * 8 + [page("a"), page()])
    followed(backend)
    assert pauses(backend) == [2, 3, 4.5, 6.75, 10.125, 15, 15, 15, 2, 3]


def test_no_pause_is_longer_than_the_user_wants(clock: Callable[[], float]) -> None:
    backend = RemoteBackend([states.RUNNING] * 10 + [states.SUCCEEDED], [page()])
    followed(backend, slowest_poll=1.0)
    assert pauses(backend) == [1.0] * 10


def test_a_page_that_has_more_is_followed_at_once(clock: Callable[[], float]) -> None:
    backend = RemoteBackend([states.SUCCEEDED], [page("a", more=True), page("b"), page()])
    assert followed(backend)[1].lines == ["a", "b"]
    assert pauses(backend) == [0, 2]


def test_an_empty_page_is_the_last_only_when_the_log_is_settled(clock: Callable[[], float]) -> None:
    backend = RemoteBackend([states.FAILED], [page(settled=False), page("a"), page(settled=False), page()])
    assert followed(backend, timeout=1.0)[1].lines == ["a"]
    assert pauses(backend) == [2, 2, 2]


def test_trouble_with_the_log_is_told_once_and_is_not_the_jobs(clock: Callable[[], float]) -> None:
    trouble = page(trouble="no log", settled=False)
    backend = RemoteBackend([states.RUNNING] * 3 + [states.SUCCEEDED], [trouble] * 5 + [page()])
    job, notes = followed(backend)
    assert job.state == states.SUCCEEDED
    assert notes.troubles == ["no log"]


def test_a_timeout_is_not_slept_over(clock: Callable[[], float]) -> None:
    started = clock()
    with pytest.raises(WaitTimeoutError):
        followed(RemoteBackend([states.RUNNING], [page()]), timeout=3.0)
    assert clock() - started == 3


def test_a_service_that_is_away_is_waited_for_as_long_as_the_backend_says(clock: Callable[[], float]) -> None:
    started = clock()
    with pytest.raises(ContactLostError):
        followed(RemoteBackend([states.RUNNING, ServiceAwayError("no answer")], [page()]))
    assert 300 <= clock() - started < 310
