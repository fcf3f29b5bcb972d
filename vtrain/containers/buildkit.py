"""The progress of BuildKit, as the engine sends it: `moby.buildkit.trace`, base64 of a protobuf message.

Source: StatusResponse of moby/buildkit, api/services/control/control.proto. Fields that we do not read
are passed over, so that newer engines may add some.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

import msgspec

from vtrain.containers.steps import BuildSteps

TRACE = "moby.buildkit.trace"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_INTERNAL = ("[internal]", "copy /context", "importing cache", "exporting", "resolve image config", "load ")
"""What BuildKit does on its own, by the beginning of its name."""


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
