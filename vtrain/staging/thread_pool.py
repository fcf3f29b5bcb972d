"""A pool of daemon threads that work through one list, and stop when the first item fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

TICK = 0.1
"""Seconds between two looks at how far the work is."""
GRACE = 2.0
"""Seconds for the threads to notice that the work is over."""


class ThreadPool(Generic[Item, Result]):
    """Calls one function for many items, `size` at a time."""

    # The threads are daemons, unlike those of concurrent.futures: a command that is interrupted does not wait
    # for an upload to end.

    def __init__(self, do: Callable[[Item], Result], size: int, tick: Callable[[], None]) -> None:
        self.do = do
        self.size = size
        self.tick = tick
        self.over = Event()
        self._todo: SimpleQueue[tuple[int, Item]] = SimpleQueue()
        self._done: SimpleQueue[tuple[int, Result | BaseException]] = SimpleQueue()

    def work_through(self, items: Sequence[Item]) -> tuple[Result, ...]:
        """The results in the order of the items. Raises what the first that failed has raised."""
        for pair in enumerate(items):
            self._todo.put(pair)
        threads = [Thread(target=self._work, daemon=True) for _ in range(min(self.size, len(items)))]
        for thread in threads:
            thread.start()
        try:
            results = self._collect(len(items))
        except Exception:
            self.over.set()
            _wait_for(threads)
            raise
        finally:
            self.over.set()
        _wait_for(threads)
        return tuple(results[number] for number in range(len(items)))

    def _work(self) -> None:
        while not self.over.is_set():
            try:
                number, item = self._todo.get_nowait()
            except Empty:
                return
            try:
                self._done.put((number, self.do(item)))
            except BaseException as error:  # it is raised where the results are collected
                self._done.put((number, error))

    def _collect(self, count: int) -> dict[int, Result]:
        results: dict[int, Result] = {}
        due = 0.0
        while len(results) < count:
            if time.monotonic() >= due:
                self.tick()
                due = time.monotonic() + TICK
            try:
                number, result = self._done.get(timeout=TICK)
            except Empty:
                continue
            if isinstance(result, BaseException):
                raise result
            results[number] = result
        return results


def _wait_for(threads: Sequence[Thread]) -> None:
    deadline = time.monotonic() + GRACE
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))
