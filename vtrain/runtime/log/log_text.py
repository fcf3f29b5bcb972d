"""Takes the text of a log apart: lines that are JSON objects, lines too long for one entry."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from vtrain.messages.log import MAX_ENTRY_BYTES

_OTHER_NAMES = {"WARN": "WARNING", "FATAL": "CRITICAL"}


def parts(text: bytes, *, whole: bool) -> Iterator[tuple[int, bytes]]:
    """A line in parts of at most an entry's size that never cut a character.

    Without `whole` more will follow, and a character that has only begun is left for later.
    """
    start = 0
    while start < len(text) or (whole and start == 0):
        part = text[start : start + MAX_ENTRY_BYTES]
        if start + len(part) < len(text) or not whole:
            part = part[: _whole_characters(part)]
        if not part and not whole:
            return
        yield start, part
        start += max(len(part), 1)


def _whole_characters(part: bytes) -> int:
    """How many bytes of `part` remain without a UTF-8 character that is cut at its end."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(part[-4:])
    return len(part) - len(decoder.getstate()[0])


def split_objects(text: bytes) -> Iterator[tuple[int, bytes, dict[str, Any] | None]]:
    """Each line that is a JSON object alone, with the object; the lines between them together.

    The number is the offset in `text`.
    """
    offset = plain = 0
    for line in text.split(b"\n"):
        found = _read_object(line) if line.startswith(b"{") else None
        if found is not None:
            if offset > plain:
                yield plain, text[plain : offset - 1], None
            yield offset, line, found
            plain = offset + len(line) + 1
        offset += len(line) + 1
    if plain <= len(text):
        yield plain, text[plain:], None


def _read_object(line: bytes) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return found if isinstance(found, dict) else None


def without_escapes(text: str) -> str:
    """A text for a terminal as plain lines: without colours, of a redrawn line its last state."""
    plain = re.sub(r"\x1b\[[0-9;:?]{0,32}[ -/]{0,4}[@-~]", "", text)
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in plain.split("\n"))


def severity_of(payload: dict[str, Any]) -> str:
    """The severity that a JSON line names, in Cloud Logging's words; empty without one."""
    given = payload.get("severity", payload.get("levelname", ""))
    name = given.upper() if isinstance(given, str) else ""
    return _OTHER_NAMES.get(name, name)


def message_of(payload: dict[str, Any]) -> bytes:
    """The text of a JSON line; empty without one."""
    given = payload.get("message", "")
    return given.encode("utf-8", "replace") if isinstance(given, str) else b""
