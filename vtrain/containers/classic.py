"""The progress of the classic builder (and of Podman's): plain text in `stream` messages."""

from __future__ import annotations

import re

from vtrain.containers.steps import BuildSteps, plain_text

_STEP = re.compile(r"^STEP (?P<number>\d+/\d+) ?: (?P<name>.*)$", re.IGNORECASE)
_CACHED = re.compile(r"^ *-+> Using cache")
_NOISE = re.compile(
    r"^ *-+> |^Removing intermediate container |^Successfully (built|tagged) |^COMMIT\b|^[0-9a-f]{64}$"
)


class ClassicProgress:
    """Finds the steps in the text. A step is told when it is known whether the cache has it."""

    def __init__(self, steps: BuildSteps) -> None:
        self._steps = steps
        self._key = ""
        self._name = ""
        self._waiting = False
        self._rest = ""

    @property
    def idle(self) -> bool:
        """Whether no step has been named yet."""
        return not self._key

    def take(self, text: str) -> None:
        """A piece of the builder's text; its own words begin a piece."""
        if self._rest and (_STEP.match(plain_text(text)) or _NOISE.match(plain_text(text))):
            self._rest += "\n"
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._line(line)

    def end(self) -> None:
        """All was said, and the last step is done."""
        self._flush()
        self._steps.finish(self._key)

    def fail(self, reason: str) -> None:
        """All was said; the step that runs failed."""
        self._flush()
        self._steps.fail(self._key, self._name, reason)

    def _flush(self) -> None:
        if self._rest:
            self._line(self._rest)
            self._rest = ""
        self._begin()

    def _line(self, coloured: str) -> None:
        line = (
            plain_text(coloured.rpartition("\r")[2]) if not coloured.endswith("\r") else plain_text(coloured)
        )
        if found := _STEP.match(line):
            self._begin()
            self._steps.finish(self._key)
            self._key = found["number"]
            self._name = f"[{found['number']}] {found['name'].strip()}"
            self._waiting = True
        elif _CACHED.match(line):
            self._waiting = False
            self._steps.cached(self._key, self._name)
        elif line.startswith(" ---> Running in "):
            self._begin()
        elif line.strip() and not _NOISE.match(line):
            self._begin()
            self._steps.write(self._key, line.encode() + b"\n")

    def _begin(self) -> None:
        if self._waiting:
            self._waiting = False
            self._steps.begin(self._key, self._name)
