"""Something that may be removed, and from when on it may."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

FRESH_SECONDS = 3600.0
"""What was made or used within this time stays: a command that has not submitted its job yet may need it."""


def _nothing() -> str:
    return ""


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """Something of vtrain's. `size` is in bytes; `created`, in RFC 3339, is when it was made or used last.

    `kind` is job, environment, package, image, runtime, container, network, process, cgroup or temporary.
    `kept` says why it stays; empty when it may go. `discard` removes it, and answers why it stays after all.
    """

    id: str
    name: str
    kind: str
    created: str
    size: int = 0
    kept: str = ""
    discard: Callable[[], str] = _nothing


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """Where to look, and how old things are that may go: `older_than` in seconds, `now` since the epoch.

    `all_homes`: of images, those count that another home made.
    """

    home: Path
    older_than: float
    now: float
    all_homes: bool = False

    @property
    def before(self) -> float:
        """What ended before this time may go."""
        return self.now - self.older_than

    @property
    def unused_since(self) -> float:
        """What was used last before this time may go."""
        return self.now - max(self.older_than, FRESH_SECONDS)

    def is_unused(self, moment: float) -> bool:
        """Whether what was used last at that time may go; a time to come is that of a clock set back."""
        return moment < self.unused_since or moment > self.now + FRESH_SECONDS

    def is_stale(self, moment: float) -> bool:
        """Whether what was written to last at that time may go, where nobody knows whose it is."""
        return abs(self.now - moment) >= FRESH_SECONDS


def instant(seconds: float) -> str:
    """Seconds since the epoch in RFC 3339."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
