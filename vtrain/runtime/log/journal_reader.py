"""Reads one task's log as entries, from a place in it on: its segments, one after the other.

Any file of a log may be damaged. Each byte of a segment is read once all the same, and reading ends. Lines
that are JSON objects become entries of their own, and lines too long for one entry become several.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from vtrain.messages.log import MAX_ENTRY_BYTES, LogEntry, LogQuery
from vtrain.runtime.log.segments import Block, JournalFiles, Segment, Spot
from vtrain.runtime.process.journal import MAX_ATTEMPT, RAW_SUFFIX, SERVICE_WORDS, STDERR, STDOUT, is_sound

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


_STREAMS = {STDOUT: "stdout", STDERR: "stderr", SERVICE_WORDS: "service"}
_SEVERITY = {STDOUT: "INFO", STDERR: "ERROR", SERVICE_WORDS: "INFO"}


class OpenLine(Spot):
    """A line that has begun, from its first byte on that is not out yet.

    `continued`: a part before that is out. `size` is how much was seen of the rest: what is too short to hand
    out need not be read for each block.
    """

    continued: bool = False
    size: int = 0


class JournalPlace(msgspec.Struct, array_like=True):
    """The position of a reader in one task's log. By the time of its begin a segment is known again."""

    segment: int = -1
    begun: int = 0
    record: int = 0
    offset: int = 0
    open_lines: dict[int, OpenLine] = {}


class JournalReader:
    """One task's log, read from a place on; the place moves with it."""

    def __init__(
        self,
        base: str,
        segments: Sequence[int],
        place: JournalPlace,
        files: JournalFiles,
        query: LogQuery,
        *,
        trial_id: str = "",
        ended: bool,
        ended_attempt: int = -1,
    ) -> None:
        """`segments` were there a moment ago. With `ended`, nothing will be written any more.

        `ended_attempt`: up to it, all attempts of the replica had ended before this reader was made.
        """
        self.troubles: list[str] = []
        self._base = base
        self._trial_id = trial_id
        self._label = f"trial-{trial_id}/{Path(base).name}" if trial_id else Path(base).name
        self._numbers = list(segments)
        newest = max(self._numbers, default=-1)
        while Path(f"{base}.{newest + 1}{RAW_SUFFIX}").is_file():  # begun before an attempt ended
            newest += 1
            self._numbers.append(newest)
        self._later: list[int] = []
        self._place = place
        self._files = files
        self._query = query
        self._ended = ended
        self._ended_attempt = ended_attempt
        self._segment = Segment(files, base, place.segment)
        self._block: Block | None = None

    def find_place(self, entries: list[LogEntry]) -> None:
        """Go on from the place, though the segment there was removed or replaced since it was given."""
        place, segment = self._place, self._segment
        # A cursor may come from anywhere, such as the address of a page.
        place.record, place.offset = max(place.record, 0), min(max(place.offset, 0), segment.size)
        for line in place.open_lines.values():
            line.record, line.start = max(line.record, 0), max(line.start, 0)
        is_another = 0 < place.begun != segment.begun > 0
        is_gone = place.begun > 0 and not segment.is_there  # one that was never there is passed over
        if place.segment >= 0 and (is_another or is_gone):
            place.record = place.offset = 0
            self._end_lines(entries, is_damaged=True)
            place.segment, self._segment = -1, self._at(-1)
        is_lost = place.segment < 0 < place.begun  # then every segment that was begun later is new
        self._later = [
            number
            for number in self._numbers
            if number > place.segment and not (is_lost and self._at(number).begun <= place.begun)
        ]
        if not self._numbers and not is_lost:
            self._miss(0)
        place.begun = self._segment.begun or place.begun
        self._go_on(entries)

    @property
    def next_time(self) -> int | None:
        """The time of the next block; None where there is none now."""
        return None if self._block is None else self._block.time

    def read_piece(self, size: int, entries: list[LogEntry]) -> int:
        """Take at most `size` bytes of the next block apart into entries; how many it took."""
        block = self._block
        assert block is not None
        self._end_lines(entries, before=block.attempt)
        end = min(block.end, block.start + size)
        piece = self._segment.raw(block.start, end)
        last_newline = piece.rfind(b"\n")
        if end < block.end and last_newline >= 0:
            piece = piece[: last_newline + 1]
        # Of a file that was cut just now there is no more.
        self._place.offset = block.start + len(piece) if piece else block.end
        if not self._query.raw:
            self._take(block, piece, entries)
        elif piece:
            self._add(block, block.start, piece, entries, partial=True)
        self._go_on(entries)
        return len(piece) or 1

    def read_open_lines(self, entries: list[LogEntry]) -> None:
        """Hand out lines without an end: whole where no more of them can come, else in part if wanted."""
        for line in self._open_lines():
            if self._ended or line.attempt <= self._ended_attempt:
                self._end_line(line, entries)
            elif self._query.partial and line.size and (line.continued or not self._may_be_object(line)):
                self._hand_out(line, self._bytes_of(line, self._place.offset), entries)

    def _open_lines(self) -> list[OpenLine]:
        return [line for _, line in sorted(self._place.open_lines.items())]

    def _at(self, number: int) -> Segment:
        return self._segment if number == self._segment.number else Segment(self._files, self._base, number)

    def _note(self, trouble: str) -> None:
        if trouble not in self.troubles:
            self.troubles.append(trouble)

    def _miss(self, number: int) -> None:
        path = f"{self._base}.{number}{RAW_SUFFIX}"
        self._note(f"The log of {self._label} cannot be read: {path} is missing or is no file.")

    def _go_on(self, entries: list[LogEntry]) -> None:
        """Find the next block, in this segment or in a later one."""
        place = self._place
        while (block := self._next_block()) is None and self._later:
            segment = self._at(self._later[0])
            if not (segment.begun or segment.size or self._later[1:] or self._ended):
                break  # it is being begun just now
            del self._later[0]
            if segment.number > 0 and segment.number - 1 not in self._numbers:
                self._miss(segment.number - 1)
            if not segment.is_there:
                self._miss(segment.number)
            if segment.is_after_damage:
                self._end_lines(entries, is_damaged=True)
            place.segment, place.begun, place.record, place.offset = segment.number, segment.begun, 0, 0
            self._segment = segment
        self._block = block

    def _next_block(self) -> Block | None:
        """The rest of the block at the place; None where this segment has no more."""
        place, segment = self._place, self._segment
        while place.record < segment.records:
            time_ns, end, stream, attempt, *_ = record = segment.record(place.record)
            if not is_sound(record):
                self._note_damage()  # the next record covers what this one was about
            elif end > place.offset:
                if end > segment.size:
                    self._note(f"The log of {self._label} was cut: lines are missing.")
                if segment.size > place.offset:
                    start, end = place.offset, min(end, segment.size)
                    return Block(time_ns, segment.number, place.record, start, stream, attempt, end)
            place.record += 1
        has_writer = not (self._later or self._ended or 0 <= segment.attempt <= self._ended_attempt)
        if has_writer or segment.is_read_again or place.offset >= segment.size:
            return None
        if not segment.begun:
            self._note_damage()
        block = segment.rest()
        block.start = place.offset
        return block

    def _note_damage(self) -> None:
        self._note(
            f"The index of the log of {self._label} is damaged: times and streams of lines may be wrong."
        )

    def _end_lines(
        self, entries: list[LogEntry], before: int = MAX_ATTEMPT + 1, *, is_damaged: bool = False
    ) -> None:
        """End the lines that attempts before that one have left open; of a damaged log the ends are gone."""
        if is_damaged:
            self._note(f"The log of {self._label} was cut or replaced: lines may be missing.")
        for line in self._open_lines():
            if line.attempt < before:
                self._end_line(line, entries)

    def _end_line(self, line: OpenLine, entries: list[LogEntry]) -> None:
        text = self._bytes_of(line, self._place.offset)
        if text:
            self._add_line(line, text, entries)
        elif line.continued:  # all of it is out, and the next line may begin at this very place
            self._add(line, line.start, text, entries, mark="end")
        self._place.open_lines.pop(line.stream, None)

    def _may_be_object(self, line: OpenLine) -> bool:
        return line.stream == STDOUT and self._at(line.segment).raw(line.start, line.start + 1) == b"{"

    def _take(self, block: Block, piece: bytes, entries: list[LogEntry]) -> None:
        line = self._place.open_lines.get(block.stream)
        if line is not None:
            head, newline, rest = piece.partition(b"\n")
            line.size += len(head)
            if not newline and line.size < MAX_ENTRY_BYTES:
                return
            end = block.start + len(head)
            line.time = block.time if self._query.by_end else line.time
            text = self._bytes_of(line, end)
            if not newline:
                self._hand_out(line, text, entries)
                return
            del self._place.open_lines[block.stream]
            self._add_line(line, text, entries)
            block.start, piece = end + 1, rest
        whole, newline, beginning = piece.rpartition(b"\n")
        if newline:
            self._add_lines(block, whole, entries)
        if beginning:
            start, size = block.start + len(whole) + len(newline), len(beginning)
            line = OpenLine(
                block.time, block.segment, block.record, start, block.stream, block.attempt, size=size
            )
            self._place.open_lines[block.stream] = line
            if size >= MAX_ENTRY_BYTES:
                self._hand_out(line, beginning, entries)

    def _pieces_of(self, line: OpenLine, stop: int) -> Iterator[Block]:
        """The pieces of a stream from its open line on, up to the offset `stop` of this segment."""
        record, position = line.record, line.start
        for number in self._numbers:
            if not line.segment <= number <= self._segment.number:
                continue
            segment = self._at(number)
            limit = stop if segment is self._segment else segment.size
            while record < segment.records and position < limit:
                time_ns, end, stream, attempt, *_ = covering = segment.record(record)
                if is_sound(covering) and end > position:
                    end = min(end, limit)
                    if stream == line.stream:
                        yield Block(time_ns, number, record, position, stream, attempt, end)
                    position = end
                record += 1
            if line.stream == STDOUT and position < limit and not segment.is_read_again:
                rest = segment.rest()
                rest.start, rest.end = position, limit
                yield rest
            record = position = 0

    def _bytes_of(self, line: OpenLine, stop: int) -> bytes:
        """The bytes of an open line, up to the offset `stop` of this segment."""
        pieces = self._pieces_of(line, stop)
        return b"".join(self._at(piece.segment).raw(piece.start, piece.end) for piece in pieces)

    def _hand_out(self, line: OpenLine, text: bytes, entries: list[LogEntry]) -> None:
        """Hand the beginning of a line out, as much as is whole characters; the line goes on after it."""
        count = 0
        for start, part in parts(text, whole=False):
            self._add(line, line.start + start, part, entries, partial=True)
            count += len(part)
        line.size = len(text) - count
        for piece in self._pieces_of(line, self._place.offset) if count else ():
            if count <= piece.end - piece.start:
                line.time, line.segment, line.record = piece.time, piece.segment, piece.record
                line.start, line.continued = piece.start + count, True
                break
            count -= piece.end - piece.start

    def _add_line(self, line: OpenLine, text: bytes, entries: list[LogEntry]) -> None:
        if not line.continued and len(text) <= MAX_ENTRY_BYTES:
            self._add_lines(line, text, entries)
            return
        found = list(parts(text, whole=True))
        for number, (start, part) in enumerate(found, 1):
            self._add(line, line.start + start, part, entries, partial=number < len(found))

    def _add_lines(self, spot: Spot, text: bytes, entries: list[LogEntry]) -> None:
        if spot.stream == STDERR or not (text.startswith(b"{") or b"\n{" in text):
            self._add(spot, spot.start, text, entries)
            return
        for start, lines, payload in split_objects(text):
            self._add(spot, spot.start + start, lines, entries, payload=payload)

    def _add(
        self,
        spot: Spot,
        offset: int,
        text: bytes,
        entries: list[LogEntry],
        *,
        payload: dict[str, Any] | None = None,
        partial: bool = False,
        mark: str = "",
    ) -> None:
        if spot.time < self._query.since:
            return
        stream = _STREAMS.get(spot.stream, "stdout")
        severity = _SEVERITY.get(spot.stream, "INFO")
        if payload is not None:
            severity = severity_of(payload) or severity
            text = message_of(payload) or text
        entries.append(
            LogEntry(
                time=spot.time,
                insert_id=f"{self._label}/{stream}/{spot.segment}/{offset}{mark}",
                severity=severity,
                task_name=self._label,
                trial_id=self._trial_id,
                payload=text,
                attempt=spot.attempt,
                stream=stream,
                json_payload=payload,
                partial=partial,
            )
        )
