"""The steps of a build: told as lines while they run, remembered for the case that one fails."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable

LAST_LINES = 10
LINE_LIMIT = 64 * 1024
"""Bytes after which a line without an end is told in pieces."""
QUICK_SECONDS = 0.5
"""A step that took less needs no line to say that it is done."""
_MARGIN = "    "
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])|[\x00-\x08\x0b-\x1f\x7f]")


class Step:
    """One step: its name, and what it wrote last."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.begun = time.monotonic()
        self.last: deque[str] = deque(maxlen=LAST_LINES)
        self.rest = b""
        self.ended = False


class BuildSteps:
    """Tells each step once when it begins or is cached, its lines, and the time if it took some."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._steps: dict[str, Step] = {}
        self.failed: Step | None = None
        self.reason = ""

    def begin(self, key: str, name: str) -> None:
        """A step runs."""
        if key not in self._steps:
            self._steps[key] = Step(name)
            self._tell(name)

    def cached(self, key: str, name: str) -> None:
        """A step was done before."""
        if key not in self._steps:
            step = self._steps[key] = Step(name)
            step.ended = True
            self._tell(f"{name} (cached)")

    def write(self, key: str, text: bytes) -> None:
        """A piece of a step's output. Only whole lines are told."""
        step = self._steps.get(key)
        if step is None:
            return
        *lines, step.rest = (step.rest + text).split(b"\n")
        if len(step.rest) > LINE_LIMIT:
            lines, step.rest = [*lines, step.rest], b""
        for line in lines:
            self._line(step, line)

    def finish(self, key: str) -> None:
        """A step is done."""
        step = self._steps.get(key)
        if step is not None and not step.ended:
            self._close(step)
            seconds = time.monotonic() - step.begun
            if seconds >= QUICK_SECONDS:
                self._tell(f"{_number(step.name)}done in {seconds:.1f} s")

    def fail(self, key: str, name: str, reason: str) -> None:
        """A step failed; a later failure, such as that of a step cancelled for it, does not count."""
        step = self._steps.setdefault(key, Step(name))
        self._close(step)
        if self.failed is None and "context canceled" not in reason:
            self.failed, self.reason = step, reason

    def _close(self, step: Step) -> None:
        if step.rest:
            self._line(step, step.rest)
            step.rest = b""
        step.ended = True

    def _line(self, step: Step, line: bytes) -> None:
        """A progress bar writes over itself with returns; what it shows last counts."""
        last = line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]
        text = plain_text(last).rstrip()
        if text:
            step.last.append(text)
            self._tell(f"{_MARGIN}{text}")


def plain_text(text: str) -> str:
    """The text without colours and other control sequences."""
    return _ESCAPES.sub("", text)


def _number(name: str) -> str:
    """`[2/4] ` of `[2/4] RUN make`."""
    return name[: name.index("]") + 1] + " " if name.startswith("[") and "]" in name else ""
