"""The progress of builds, pulls and pushes, reported in few lines."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from vtrain.messages.log import DETAIL_MARGIN

LAST_LINES = 400
LINE_LIMIT = 64 * 1024
"""Bytes after which a line without an end is reported in pieces."""
QUICK_SECONDS = 0.5
"""A step that took less needs no line to say that it is done."""
_MARGIN = DETAIL_MARGIN
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])|[\x00-\x08\x0b-\x1f\x7f]")


class BuildStep:
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
        self._steps: dict[str, BuildStep] = {}
        self.failed: BuildStep | None = None

    def begin(self, key: str, name: str) -> None:
        """Begin a step."""
        if key not in self._steps:
            self._steps[key] = BuildStep(name)
            self._tell(name)

    def cached(self, key: str, name: str) -> None:
        """Note a step that the cache has."""
        if key not in self._steps:
            step = self._steps[key] = BuildStep(name)
            step.ended = True
            self._tell(f"{name} (cached)")

    def write(self, key: str, text: bytes) -> None:
        """A piece of a step's output. Only whole lines are reported."""
        step = self._steps.get(key)
        if step is None:
            return
        *lines, step.rest = (step.rest + text).split(b"\n")
        if len(step.rest) > LINE_LIMIT:
            lines, step.rest = [*lines, step.rest], b""
        for line in lines:
            self._line(step, line)

    def finish(self, key: str) -> None:
        """End a step."""
        step = self._steps.get(key)
        if step is not None and not step.ended:
            self._close(step)
            seconds = time.monotonic() - step.begun
            if seconds >= QUICK_SECONDS:
                self._tell(f"{_number(step.name)}done in {seconds:.1f} s")

    def fail(self, key: str, name: str, reason: str) -> None:
        """A step failed; a later failure, such as that of a step cancelled for it, does not count."""
        step = self._steps.setdefault(key, BuildStep(name))
        self._close(step)
        if self.failed is None and "context canceled" not in reason:
            self.failed = step

    def _close(self, step: BuildStep) -> None:
        if step.rest:
            self._line(step, step.rest)
            step.rest = b""
        step.ended = True

    def _line(self, step: BuildStep, line: bytes) -> None:
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


_INTERNAL = ("[internal]", "copy /context", "importing cache", "exporting", "resolve image config", "load ")
"""Steps of BuildKit's own, by the first words of their names."""


class _Vertex(msgspec.Struct, frozen=True):
    """One step of a build, as far as it has come; the times are empty before it begins and ends."""

    digest: str
    name: str = ""
    cached: bool = False
    started: str = ""
    completed: str = ""
    error: str = ""


class _VertexLog(msgspec.Struct, frozen=True):
    """A piece of what a step wrote; it need not end with a line."""

    vertex: str
    data: bytes = b""


class _Progress(msgspec.Struct, frozen=True):
    """A document of `docker buildx build --progress=rawjson`."""

    vertexes: tuple[_Vertex, ...] = ()
    logs: tuple[_VertexLog, ...] = ()


def follow_buildx(output: Iterable[bytes], steps: BuildSteps) -> bytes:
    """Tell the steps what the lines of `--progress=rawjson` say; the other lines, the program's own words.

    A document is on one line, or indented between braces on lines of their own.
    """
    document, words = b"", b""
    for line in output:
        if not document and not line.startswith(b"{"):
            words += line
            continue
        document += line
        if line.startswith((b"{", b"}")) and line.rstrip().endswith(b"}"):
            try:
                _follow(msgspec.json.decode(document, type=_Progress), steps)
            except msgspec.DecodeError:
                words += document
            document = b""
    return words


def _follow(progress: _Progress, steps: BuildSteps) -> None:
    for vertex in progress.vertexes:
        if vertex.error:
            steps.fail(vertex.digest, vertex.name, vertex.error)
        if vertex.name.startswith(_INTERNAL):
            continue
        if vertex.cached:
            steps.cached(vertex.digest, vertex.name)
        elif vertex.started:
            steps.begin(vertex.digest, vertex.name)
    for log in progress.logs:
        steps.write(log.vertex, log.data)
    for vertex in progress.vertexes:
        if vertex.completed and not vertex.error and not vertex.cached:
            steps.finish(vertex.digest)


_STEP = re.compile(r"^STEP (?P<number>\d+/\d+) ?: (?P<name>.*)$", re.IGNORECASE)
_CACHED = re.compile(r"^ *-+> Using cache")
_NOISE = re.compile(
    r"^ *-+> |^Removing intermediate container |^Successfully (built|tagged) |^COMMIT\b|^[0-9a-f]{64}$"
)


class ClassicProgress:
    """Finds the steps in the text. A step is reported when it is known whether the cache has it."""

    def __init__(self, steps: BuildSteps) -> None:
        self._steps = steps
        self._key = ""
        self._name = ""
        self._waiting = False
        self._rest = ""

    def take(self, text: str) -> None:
        """A piece of the builder's text; its own words begin a piece."""
        if self._rest and (_STEP.match(plain_text(text)) or _NOISE.match(plain_text(text))):
            self._rest += "\n"
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._line(line)

    def end(self) -> None:
        """End the last step: the build has succeeded."""
        self._flush()
        self._steps.finish(self._key)

    def fail(self, reason: str) -> None:
        """End the step that runs: it failed."""
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
            self._bytes[layer] = (min(detail.get("current", 0), detail["total"]), detail["total"])
        elif layer in self._bytes and status not in ("Downloading", "Pushing"):
            self._bytes[layer] = (self._bytes[layer][1],) * 2
        now = self._clock()
        if now - self._told >= PAUSE_SECONDS:
            self._told = now
            done = sum(status.startswith(_DONE) for status in self._status.values())
            self._tell(f"{self._verb} {self._name}: {done} of {len(self._status)} layers{self._moved()}")

    def end(self, digest: str = "") -> None:
        """Tell that the pull or push succeeded."""
        there = sum(status.startswith(_THERE) for status in self._status.values())
        seconds = self._clock() - self._begun
        facts = [f"{seconds:.1f} s"]
        if self._status:
            facts.append(f"{there} of {len(self._status)} layers were there")
        what = f"{self._name}@{digest}" if digest else self._name
        self._tell(f"{self._verb.removesuffix('ing')}ed {what} ({', '.join(facts)})")

    def _moved(self) -> str:
        if not self._bytes:
            return ""
        current = sum(current for current, _ in self._bytes.values())
        total = sum(total for _, total in self._bytes.values())
        return f", {current / _MEGABYTE:.1f} of {total / _MEGABYTE:.1f} MB"
