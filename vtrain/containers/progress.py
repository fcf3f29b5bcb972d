"""The progress of builds, pulls and pushes, told in few lines."""

from __future__ import annotations

import base64
import binascii
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from vtrain.messages.log import DETAIL_MARGIN

LAST_LINES = 400
LINE_LIMIT = 64 * 1024
"""Bytes after which a line without an end is told in pieces."""
QUICK_SECONDS = 0.5
"""A step that took less needs no line to say that it is done."""
_MARGIN = DETAIL_MARGIN
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
        """Begin a step."""
        if key not in self._steps:
            self._steps[key] = Step(name)
            self._tell(name)

    def cached(self, key: str, name: str) -> None:
        """Note a step that the cache has."""
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
        """End a step."""
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


TRACE = "moby.buildkit.trace"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_INTERNAL = ("[internal]", "copy /context", "importing cache", "exporting", "resolve image config", "load ")
"""Steps of BuildKit's own, by the first words of their names."""


class Vertex(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a build, as far as it has come."""

    digest: str
    name: str = ""
    cached: bool = False
    started: bool = False
    completed: bool = False
    error: str = ""


class VertexLog(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of what a step wrote; it need not end with a line."""

    digest: str
    text: bytes


def read_trace(aux: str) -> tuple[tuple[Vertex, ...], tuple[VertexLog, ...]]:
    """Steps and log pieces of one trace message. Raises ValueError when it is not one."""
    vertexes, logs = [], []
    try:
        for number, value in _fields(base64.b64decode(aux, validate=True)):
            if number == 1 and isinstance(value, bytes):
                vertexes.append(_vertex(value))
            elif number == 3 and isinstance(value, bytes):
                logs.append(_log(value))
    except (IndexError, binascii.Error) as error:
        raise ValueError(f"not a trace of BuildKit: {error}") from error
    return tuple(vertexes), tuple(logs)


def follow_trace(aux: str, steps: BuildSteps) -> None:
    """Tell the steps what a trace message says. Raises ValueError when it is not one."""
    vertexes, logs = read_trace(aux)
    for vertex in vertexes:
        if vertex.error:
            steps.fail(vertex.digest, vertex.name, vertex.error)
        if vertex.name.startswith(_INTERNAL):
            continue
        if vertex.cached:
            steps.cached(vertex.digest, vertex.name)
        elif vertex.started:
            steps.begin(vertex.digest, vertex.name)
    for log in logs:
        steps.write(log.digest, log.text)
    for vertex in vertexes:
        if vertex.completed and not vertex.error and not vertex.cached:
            steps.finish(vertex.digest)


def _vertex(data: bytes) -> Vertex:
    fields = dict(_fields(data))
    return Vertex(
        digest=_text(fields.get(1)),
        name=_text(fields.get(3)),
        cached=bool(fields.get(4)),
        started=5 in fields,
        completed=6 in fields,
        error=_text(fields.get(7)),
    )


def _log(data: bytes) -> VertexLog:
    fields = dict(_fields(data))
    text = fields.get(4, b"")
    return VertexLog(digest=_text(fields.get(1)), text=text if isinstance(text, bytes) else b"")


def _text(value: int | bytes | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a protobuf message."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        if kind == _VARINT:
            number, place = _varint(data, place)
            yield key >> 3, number
            continue
        if kind == _BYTES:
            size, place = _varint(data, place)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"a field of kind {kind}")
        if place + size > len(data):
            raise ValueError("a field that is cut off")
        yield key >> 3, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


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
