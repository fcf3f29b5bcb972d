from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from vtrain.backends import LOCAL_PACE, Pace, Page, Plan, Query
from vtrain.core import following as module
from vtrain.core.following import Follow, follow
from vtrain.errors import (
    ContactLostError,
    CredentialsError,
    HomeError,
    NotFoundError,
    ServiceAwayError,
    ServiceBusyError,
    ServiceError,
    StorageError,
    VtrainError,
    WaitTimeoutError,
)
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogEntry, LogPage, LogQuery
from vtrain.testing.memory import MemoryBackend
from vtrain.testing.script import Script, script_job

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


def test_a_job_that_is_deleted_meanwhile_has_no_known_end() -> None:
    with pytest.raises(ContactLostError, match=f"{NAME} was deleted while it was RUNNING"):
        followed(ScriptedBackend([states.RUNNING, NotFoundError("no such job")]))


def test_a_job_that_is_deleted_after_its_end_has_ended_so() -> None:
    backend = ScriptedBackend([states.SUCCEEDED, NotFoundError("no such job")], [["a", "b", "c"]])
    job, notes = followed(backend)
    assert (job.state, notes.lines) == (states.SUCCEEDED, ["a", "b"])
    assert notes.troubles == ["The job was deleted before its log was read to the end."]


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
    with pytest.raises(ContactLostError, match=f"^Contact to {NAME} is lost: {refusal.message}$"):
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


CURSORS = itertools.count()


def page(*lines: str, **fields: Any) -> LogPage:
    entries = tuple(entry(number, line) for number, line in enumerate(lines))
    return LogPage(**({"entries": entries, "cursor": f"c{next(CURSORS)}"} | fields))


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
    assert clock() - started == 2 + 300


def chatty_job(backend: MemoryBackend, steps: int = 100_000) -> str:
    """A job in memory that writes a line at each question for its state."""
    script = Script(tuple(("stdout", f"{number}\n") for number in range(steps)))
    return backend.submit(backend.plan(script_job(script))).name


class Chatty(MemoryBackend):
    """Each page says that there is more."""

    def logs(self, query: LogQuery) -> LogPage:
        return msgspec.structs.replace(super().logs(query), more=True)


@pytest.mark.parametrize("limit", [1, 1 << 20])
def test_a_timeout_passes_while_the_trainer_prints(clock: Callable[[], float], limit: int) -> None:
    backend, notes, started = MemoryBackend(), Notes(), clock()
    name = chatty_job(backend)
    order = Follow(backend=backend, name=name, query=LogQuery(name=name, limit=limit), timeout=2.0)
    with pytest.raises(WaitTimeoutError, match=f"^{name} has not ended after 2 s; it goes on.$"):
        follow(order, notes)
    assert clock() - started == pytest.approx(2.0)
    assert notes.lines == [str(number) for number in range(len(notes.lines))]
    assert len(notes.lines) >= 2.0 / LOCAL_PACE.fastest - 2


def test_a_timeout_passes_between_pages_that_have_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such pages are asked for without a pause, so that only the reading takes time."""
    now, backend, notes = [0.0], Chatty(), Notes()
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(
        module.time, "sleep", lambda _: pytest.fail("a page that has more is asked for at once")
    )
    name = chatty_job(backend)

    def read(page: LogPage) -> None:
        now[0] += 1.0

    notes.saw_page = read  # type: ignore[method-assign]
    backend.get(name), backend.get(name)  # it has begun to write
    with pytest.raises(WaitTimeoutError):
        follow(Follow(backend=backend, name=name, query=LogQuery(name=name), timeout=5.0), notes)
    assert now[0] == 5.0


def test_a_page_is_asked_for_after_a_pause_unless_it_says_that_there_is_more() -> None:
    assert LogPage(entries=(), cursor="").more is False


def test_a_job_in_memory_is_followed_to_its_last_line(clock: Callable[[], float]) -> None:
    backend, notes = MemoryBackend(), Notes()
    name = chatty_job(backend, 50)
    job = follow(Follow(backend=backend, name=name, query=LogQuery(name=name), timeout=600.0), notes)
    assert job.state == states.SUCCEEDED
    assert notes.lines == [str(number) for number in range(50)]
    assert notes.silences == 0


def test_lines_put_the_mention_of_silence_off(clock: Callable[[], float]) -> None:
    started = clock()
    backend = RemoteBackend([states.RUNNING] * 4 + [states.SUCCEEDED], [page(), page("a"), page()])
    backend.pace = Pace(fastest=14.0, slowest=14.0)
    assert followed(backend)[1].silences == 0
    assert clock() - started == 56


def test_silence_is_mentioned_with_the_time_that_has_passed(clock: Callable[[], float]) -> None:
    told: list[tuple[str, float]] = []
    notes = Notes()
    notes.heard_nothing = lambda job, elapsed: told.append((job.state, elapsed))  # type: ignore[method-assign]
    backend = RemoteBackend([states.RUNNING], [page()])
    backend.pace = Pace(fastest=10.0, slowest=10.0)
    with pytest.raises(WaitTimeoutError):
        follow(Follow(backend=backend, name=NAME, timeout=65.0), notes)
    assert told == [(states.RUNNING, 30.0), (states.RUNNING, 60.0)]


def test_a_log_that_never_settles_is_given_up(clock: Callable[[], float]) -> None:
    started = clock()
    backend = RemoteBackend([states.RUNNING] * 4 + [states.FAILED], [page(settled=False)])
    backend.pace = Pace(fastest=2.0, slowest=2.0, patience=30.0)
    job, notes = followed(backend)
    assert job.state == states.FAILED
    assert clock() - started == 8 + 30
    assert notes.troubles == ["No line for 30 s after the job's end: the end of the log may be missing."]


def test_a_late_line_makes_an_unsettled_log_wait_anew(clock: Callable[[], float]) -> None:
    started = clock()
    silent = [page(settled=False) for _ in range(10)]
    backend = RemoteBackend([states.FAILED], [*silent, page("late"), page(settled=False)])
    backend.pace = Pace(fastest=2.0, slowest=2.0, patience=30.0)
    assert followed(backend)[1].lines == ["late"]
    assert clock() - started == 20 + 30


def test_a_log_that_repeats_itself_is_given_up_after_the_end(clock: Callable[[], float]) -> None:
    started = clock()
    same = page("again", more=True)
    _, notes = followed(RemoteBackend([states.SUCCEEDED], [page("a"), same]))
    assert notes.lines == ["a", "again"]
    assert notes.troubles == ["The log repeats itself; what it repeats is not shown."]
    assert clock() - started == 2


def test_a_log_that_repeats_itself_is_shown_once_while_the_job_runs(clock: Callable[[], float]) -> None:
    started = clock()
    answers = [*[states.RUNNING] * 5, states.SUCCEEDED]
    _, notes = followed(RemoteBackend(answers, [page("a"), page("again", more=True)]))
    assert notes.lines == ["a", "again"]
    assert notes.troubles == ["The log repeats itself; what it repeats is not shown."]
    assert clock() - started > 3, "it is asked at the usual pace"


def test_a_log_without_an_end_is_given_up_some_time_after_the_timeout(clock: Callable[[], float]) -> None:
    started = clock()
    backend = RemoteBackend([states.SUCCEEDED], [page(str(number)) for number in range(10_000)])
    backend.pace = Pace(fastest=1.0, slowest=1.0, patience=60.0)
    job, notes = followed(backend, timeout=100.0)
    assert job.state == states.SUCCEEDED
    assert clock() - started == 160
    assert notes.lines == [str(number) for number in range(161)]
    assert notes.troubles == ["The job has ended, and its log is not read through after 160 s."]


def test_a_log_is_read_through_when_no_timeout_was_given(clock: Callable[[], float]) -> None:
    backend = RemoteBackend([states.SUCCEEDED], [*(page(str(number)) for number in range(1000)), page()])
    assert len(followed(backend)[1].lines) == 1000


def test_a_timeout_passes_while_nobody_answers(clock: Callable[[], float]) -> None:
    started = clock()
    with pytest.raises(WaitTimeoutError, match=r"after 2\.5 s"):
        followed(ScriptedBackend([states.RUNNING, StorageError("locked")]), timeout=2.5)
    assert clock() - started == 2.5


def test_a_job_that_nobody_has_seen_is_not_said_to_go_on(clock: Callable[[], float]) -> None:
    started = clock()
    with pytest.raises(ContactLostError, match=f"^Contact to {NAME} is lost: locked$") as caught:
        followed(ScriptedBackend([StorageError("locked", hint="Try again.")]), timeout=2.5)
    assert (clock() - started, caught.value.hint) == (2.5, "Try again.")


def test_refusals_after_the_end_are_not_about_the_timeout(clock: Callable[[], float]) -> None:
    """The job has ended: that its log cannot be read for a moment is no reason to say that it goes on."""

    class Locked(ScriptedBackend):
        def logs(self, query: LogQuery) -> LogPage:
            if clock() < 1020.0:
                raise StorageError("locked")
            return super().logs(query)

    job, notes = followed(Locked([states.SUCCEEDED], [["a"]]), timeout=1.0)
    assert (job.state, notes.lines, notes.troubles) == (states.SUCCEEDED, ["a"], ["locked"])


def test_a_home_of_somebody_else_is_not_asked_again(clock: Callable[[], float]) -> None:
    started = clock()
    with pytest.raises(HomeError):
        followed(ScriptedBackend([HomeError("not yours")]))
    with pytest.raises(ContactLostError, match="not yours"):
        followed(ScriptedBackend([states.RUNNING, HomeError("not yours")]))
    assert clock() - started < 1


def test_questions_are_asked_again_each_second(clock: Callable[[], float]) -> None:
    times: list[float] = []

    class Away(ScriptedBackend):
        def get(self, name: str) -> CustomJob:
            times.append(clock())
            return super().get(name)

    followed(Away([states.RUNNING, *[ServiceBusyError("busy")] * 3, states.SUCCEEDED]), query=None)
    assert [after - before for before, after in itertools.pairwise(times)] == pytest.approx([0.015, 1, 1, 1])


def test_elapsed_time_is_told_with_the_state(clock: Callable[[], float]) -> None:
    told: list[float] = []
    notes = Notes()
    notes.saw_job = lambda job, elapsed: told.append(elapsed)  # type: ignore[method-assign]
    backend = RemoteBackend([states.RUNNING] * 3 + [states.SUCCEEDED], [page()])
    follow(Follow(backend=backend, name=NAME, query=LogQuery(name=NAME)), notes)
    assert told == [0, 2, 5, 9.5]


def test_slow_polls_change_neither_a_shorter_pause_nor_the_patience(clock: Callable[[], float]) -> None:
    backend = RemoteBackend([states.RUNNING] * 6 + [states.SUCCEEDED], [page()])
    followed(backend, slowest_poll=7.0)
    assert pauses(backend) == [2, 3, 4.5, 6.75, 7, 7]
    started = clock()
    with pytest.raises(ContactLostError):
        followed(RemoteBackend([states.RUNNING, ServiceAwayError("no")], [page()]), slowest_poll=7.0)
    assert 300 <= clock() - started < 310
