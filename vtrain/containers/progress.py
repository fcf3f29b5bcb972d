"""Progress of a pull or a push in few lines, from the engine's thousands of messages."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PAUSE_SECONDS = 2.0
"""Between two lines while layers are moving."""
_DONE = ("Pull complete", "Already exists", "Pushed", "Layer already exists", "Mounted from")
_THERE = ("Already exists", "Layer already exists", "Mounted from")
_MEGABYTE = 1_000_000


class LayerProgress:
    """Tells that it begins, at most every two seconds how far it is, and its end."""

    def __init__(
        self,
        verb: str,
        name: str,
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`verb` is "Pulling" or "Pushing"."""
        self._clock = clock
        self._verb = verb
        self._name = name
        self._tell = tell
        self._begun = self._told = clock()
        self._status: dict[str, str] = {}
        self._bytes: dict[str, tuple[int, int]] = {}
        tell(f"{verb} {name}")

    def take(self, message: dict[str, Any]) -> None:
        """One message of the engine."""
        layer, status = message.get("id"), str(message.get("status", ""))
        if not layer or status.startswith("Pulling from"):
            return
        self._status[layer] = status
        detail = message.get("progressDetail") or {}
        if status in ("Downloading", "Pushing") and detail.get("total"):
            self._bytes[layer] = (min(detail["current"], detail["total"]), detail["total"])
        elif layer in self._bytes and status not in ("Downloading", "Pushing"):
            self._bytes[layer] = (self._bytes[layer][1],) * 2
        now = self._clock()
        if now - self._told >= PAUSE_SECONDS:
            self._told = now
            self._tell(f"{self._verb} {self._name}: {self._layers()}{self._moved()}")

    def end(self, digest: str = "") -> None:
        """It succeeded."""
        there = sum(status.startswith(_THERE) for status in self._status.values())
        seconds = self._clock() - self._begun
        facts = [f"{seconds:.1f} s"]
        if self._status:
            facts.append(f"{there} of {len(self._status)} layers were there")
        what = f"{self._name}@{digest}" if digest else self._name
        self._tell(f"{self._verb.removesuffix('ing')}ed {what} ({', '.join(facts)})")

    def _layers(self) -> str:
        done = sum(status.startswith(_DONE) for status in self._status.values())
        return f"{done} of {len(self._status)} layers"

    def _moved(self) -> str:
        if not self._bytes:
            return ""
        current = sum(current for current, _ in self._bytes.values())
        total = sum(total for _, total in self._bytes.values())
        return f", {current / _MEGABYTE:.1f} of {total / _MEGABYTE:.1f} MB"
