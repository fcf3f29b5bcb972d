from __future__ import annotations

import threading
import time

import pytest

from vtrain.staging.thread_pool import ThreadPool


def nothing() -> None:
    """No terminal."""


def test_results_come_in_the_order_of_the_items() -> None:
    def slow_first(number: int) -> int:
        time.sleep(0.05 if number == 0 else 0)
        return number * 2

    assert ThreadPool(slow_first, 4, nothing).work_through(range(20)) == tuple(range(0, 40, 2))


def test_no_more_than_its_size_are_at_work() -> None:
    at_work, most, lock, together = 0, 0, threading.Lock(), threading.Barrier(3)

    def watched(_number: int) -> None:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        together.wait(60)
        time.sleep(0.01)
        with lock:
            at_work -= 1

    ThreadPool(watched, 3, nothing).work_through(range(12))
    assert most == 3


def test_the_first_failure_ends_the_work() -> None:
    done: list[int] = []

    def failing(number: int) -> None:
        if number == 1:
            raise ValueError("the second")
        done.append(number)

    with pytest.raises(ValueError, match="the second"):
        ThreadPool(failing, 1, nothing).work_through(range(1000))
    assert done[:1] == [0] and len(done) < 1000


def test_an_interrupted_command_does_not_wait_for_an_upload() -> None:
    release = threading.Event()

    def interrupted() -> None:
        raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        ThreadPool(lambda _number: release.wait(300), 2, interrupted).work_through(range(2))
    assert time.monotonic() - started < 120
    release.set()


def test_nothing_to_do() -> None:
    assert ThreadPool(str, 8, nothing).work_through([]) == ()
