"""What the chaos did: counted by the tests, carried to the end of the run with their reports."""

from __future__ import annotations

from collections import Counter

PROPERTY = "chaos"
"""The name under which a test's report carries its tally."""


class Tally:
    """Counts of one test on one backend."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.counts: Counter[str] = Counter()

    def kill(self, whom: str, when: str) -> None:
        """Somebody was killed; `when` is what the job was doing."""
        self.counts["kills"] += 1
        self.counts[f"kill/{whom}/{when}"] += 1

    def event(self, what: str, times: int = 1) -> None:
        """Anything else that was done to a job: an engine stopped, a disk full."""
        self.counts[f"event/{what}"] += times

    def add(self, what: str, times: int = 1) -> None:
        """Jobs, restarts, lines."""
        self.counts[what] += times

    def as_property(self) -> tuple[str, dict[str, object]]:
        """For the report of the test, as plain values: workers send it to where it is printed."""
        return PROPERTY, {"backend": self.backend, "counts": dict(self.counts)}
