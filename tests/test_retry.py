from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from vtrain.retry import growing, retry, steady, wait_until


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(time, "sleep", clock.sleep)
    yield clock


def failing(*errors: Exception) -> Callable[[], str]:
    """A call that raises each error once, in order, and then answers."""
    left = list(errors)

    def call() -> str:
        if left:
            raise left.pop(0)
        return "answer"

    return call


def test_an_answer_ends_the_attempts(clock: Clock) -> None:
    assert retry(failing(), OSError, pauses=steady(1.0)) == "answer"
    assert clock.slept == []


def test_each_failure_is_followed_by_its_pause(clock: Clock) -> None:
    call = failing(OSError("1"), TimeoutError("2"), OSError("3"))
    assert retry(call, OSError, pauses=growing(0.5, 1.5)) == "answer"
    assert clock.slept == [0.5, 1.0, 1.5]


def test_the_last_error_is_raised_when_the_pauses_are_used_up(clock: Clock) -> None:
    with pytest.raises(OSError, match="3"):
        retry(failing(OSError("1"), OSError("2"), OSError("3"), OSError("4")), OSError, pauses=[0.1, 0.1])
    assert clock.slept == [0.1, 0.1]


def test_no_attempt_begins_after_the_deadline(clock: Clock) -> None:
    with pytest.raises(OSError, match="4"):
        retry(failing(*(OSError(str(n)) for n in range(9))), OSError, pauses=steady(1.0), seconds=3.5)
    assert clock.slept == [1.0, 1.0, 1.0, 0.5]


def test_no_pause_leads_past_the_deadline(clock: Clock) -> None:
    with pytest.raises(OSError, match="1"):
        retry(
            failing(*(OSError(str(n)) for n in range(9))),
            OSError,
            pauses=steady(1.0),
            seconds=10.0,
            before_pause=lambda _: 3600.0,
        )
    assert clock.slept == [10.0]


def test_other_errors_and_those_that_stay_are_raised_at_once(clock: Clock) -> None:
    with pytest.raises(ValueError, match="other"):
        retry(failing(ValueError("other")), OSError, pauses=steady(1.0))
    with pytest.raises(PermissionError):
        retry(
            failing(OSError("passes"), PermissionError("stays")),
            OSError,
            passes=lambda error: not isinstance(error, PermissionError),
            pauses=steady(1.0),
        )
    assert clock.slept == [1.0]


def test_the_service_may_ask_for_a_longer_pause_than_ours(clock: Clock) -> None:
    told: list[str] = []

    def asked(error: OSError) -> float:
        told.append(str(error))
        return 3.0

    assert retry(failing(OSError("1"), OSError("2")), OSError, pauses=[1.0, 5.0], before_pause=asked)
    assert told == ["1", "2"]
    assert clock.slept == [3.0, 5.0]


def test_the_caller_may_sleep_in_its_own_way(clock: Clock) -> None:
    slept: list[float] = []
    assert retry(failing(OSError()), OSError, pauses=steady(2.0), sleep=slept.append) == "answer"
    assert (slept, clock.slept) == ([2.0], [])


def test_pauses_grow_up_to_the_longest_with_jitter() -> None:
    assert list(growing(1.0, 5.0, times=5)) == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert list(islice(growing(1.0, 2.0), 4)) == [1.0, 2.0, 2.0, 2.0]
    found = list(growing(1.0, 1.0, times=200, jitter=0.3))
    assert all(0.7 <= pause <= 1.3 for pause in found)
    assert len(set(found)) > 100


def test_waiting_ends_with_the_condition_or_the_time(clock: Clock) -> None:
    assert wait_until(lambda: clock.now >= 1000.25, 1.0, 0.1)
    assert clock.now == pytest.approx(1000.3)
    assert not wait_until(lambda: False, 0.25, 0.1)
    assert clock.now == pytest.approx(1000.55)
    assert wait_until(lambda: True, 0.0)


def test_the_pause_between_two_questions_may_grow(clock: Clock) -> None:
    assert not wait_until(lambda: False, 2.0, 0.25, longest=1.0)
    assert clock.slept == [0.25, 0.5, 1.0, 0.25]
