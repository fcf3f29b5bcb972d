"""Log entries on the console: as text, as documents, or untouched.

Text is `SEVERITY<TAB>time<TAB>replica<TAB>message`, a line each, as gcloud prints it. It is made from bytes:
an entry of many lines costs one `replace`, not one step per line.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from vtrain.messages.log import LastStates, LogEntry
from vtrain.output.colours import Piece, Role, has_colours
from vtrain.output.console import Console
from vtrain.output.terminal import colour_prefix, in_width
from vtrain.times import NANOSECONDS, from_nanoseconds

RESTARTING = "Restarting "
"""The beginning of the line of the job's log about a restart."""


def valid_utf8(payload: bytes) -> bytes:
    """The same bytes, with U+FFFD where they are not UTF-8."""
    try:
        payload.decode("utf-8")
    except UnicodeDecodeError:
        return payload.decode("utf-8", "replace").encode()
    return payload


def records(entry: LogEntry, *, multiline: bool = False) -> list[dict[str, Any]]:
    """The entry as documents for `--format`, one a line."""
    common: dict[str, Any] = {
        "timestamp": entry.timestamp or from_nanoseconds(entry.time),
        "severity": entry.severity,
        "task_name": entry.task_name,
    }
    if entry.trial_id:
        common["trial_id"] = entry.trial_id
    if entry.json_payload is not None:
        common["json"] = entry.json_payload
    messages = [entry.message] if multiline else entry.message.split("\n")
    return [common | {"message": message} for message in messages]


class LogSink(Protocol):
    """A display of log lines.

    One that `follows_open_lines` wants their beginnings too, and has the last of them in `frame`.
    """

    @property
    def follows_open_lines(self) -> bool: ...

    @property
    def frame(self) -> str: ...

    def show(self, entries: Sequence[LogEntry]) -> None:
        """Show these entries, in order."""

    def counts(self, entry: LogEntry) -> bool:
        """Whether anything of an entry is shown."""

    def close(self) -> None:
        """End the output; no more entries follow."""


class ChosenLines:
    """The lines with a word, or the last ones, on their way to another sink.

    Of the last ones it holds the entries, each of at most `MAX_ENTRY_BYTES`. A longer line is several pieces,
    which are looked at one by one.
    """

    def __init__(self, sink: LogSink, *, word: bytes, last: int | None) -> None:
        """An empty word is in every line; with None as the `last`, all lines are shown at once."""
        self._sink = sink
        self._word = word
        self._last = last
        self._held: deque[LogEntry] = deque()
        self._lines = 0

    @property
    def follows_open_lines(self) -> bool:
        """A line whose word may yet come is not shown before its end."""
        return self._sink.follows_open_lines and not self._word

    @property
    def frame(self) -> str:
        """The open line of the other sink."""
        return self._sink.frame

    def show(self, entries: Sequence[LogEntry]) -> None:
        """Pass on or hold what is wanted of these entries."""
        chosen = [*filter(None, map(self._with_word, entries))]
        if self._last is None:
            self._sink.show(chosen)
            return
        for entry in filter(self._sink.counts, chosen):
            self._held.append(entry)
            self._lines += _lines_of(entry)
            while self._held and self._lines - _lines_of(self._held[0]) >= self._last:
                self._lines -= _lines_of(self._held.popleft())

    def show_last(self) -> None:
        """Pass on the last lines, and from now on all."""
        if self._last is not None and self._held:
            spare = self._lines - self._last
            if spare > 0:
                rest = self._held[0].payload.split(b"\n", spare)[spare]
                self._held[0] = msgspec.structs.replace(self._held[0], payload=rest)
            self._sink.show(self._held)
        self._held.clear()
        self._last = None

    def counts(self, entry: LogEntry) -> bool:
        return self._sink.counts(entry)

    def close(self) -> None:
        self._sink.close()

    def _with_word(self, entry: LogEntry) -> LogEntry | None:
        """The lines of an entry that have the word; None for none."""
        if not self._word:
            return entry
        if self._word not in entry.payload:
            return None
        kept = entry.payload
        if entry.json_payload is None:
            kept = b"\n".join(line for line in kept.split(b"\n") if self._word in line)
        return msgspec.structs.replace(entry, payload=kept, partial=False)


def _lines_of(entry: LogEntry) -> int:
    return entry.payload.count(b"\n") + 1


class TextSink:
    """`SEVERITY<TAB>time<TAB>replica<TAB>message` on stdout or stderr, where these are no terminal.

    Partial entries of one line are joined again.
    """

    follows_open_lines = False
    frame = ""

    def __init__(self, console: Console, *, stderr: bool, multiline: bool = False) -> None:
        """`multiline` keeps newlines inside a message."""
        self._console = console
        self._stderr = stderr
        self._multiline = multiline
        self._has_colours = has_colours(sys.stderr if stderr else sys.stdout)
        self._open: tuple[str, str] | None = None
        self._second = -1
        self._stamp = b""
        self._states = LastStates()

    def show(self, entries: Sequence[LogEntry]) -> None:
        if entries and (self._stderr or self._console.user_output):
            self._console.write(b"".join(map(self._lines, entries)), stderr=self._stderr)

    def counts(self, entry: LogEntry) -> bool:  # noqa: ARG002 - of the protocol
        return True

    def close(self) -> None:
        if self._open:
            self._open = None
            self._console.write(b"\n", stderr=self._stderr)

    def _lines(self, entry: LogEntry) -> bytes:
        """The entry's lines with their prefixes. A partial line is left open for its continuation."""
        payload = self._states.of(entry)
        if payload is None:
            return b""
        stream, prefix = (entry.task_name, entry.stream), self._prefix(entry)
        body = valid_utf8(payload)
        if not self._multiline:
            body = body.replace(b"\n", b"\n" + prefix)
        head = b"" if self._open == stream else b"\n" * bool(self._open) + prefix
        self._open = stream if entry.partial else None
        return head + body + (b"" if entry.partial else b"\n")

    def _prefix(self, entry: LogEntry) -> bytes:
        second = entry.time // NANOSECONDS
        if second != self._second:
            # `2026-11-21 09:30:00 +0100`, as gcloud's stream-logs writes it
            stamp = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(second))
            self._second, self._stamp = second, stamp.encode()
        task = entry.task_name.encode()
        prefix = b"\t".join((entry.severity.encode(), self._stamp, task, b""))
        return colour_prefix(entry.task_name, prefix) if self._has_colours else prefix


_COLUMNS = 'value(severity,timestamp.date("%Y-%m-%d %H:%M:%S %z",tz=LOCAL),task_name,message)'
"""The columns of the log without `--format`. A user's format inherits their transforms and labels."""


class RecordSink:
    """Each line as a document in `--format` on stdout, at once (JSON as an array); a table at the end."""

    follows_open_lines = False
    frame = ""

    def __init__(self, console: Console, *, multiline: bool = False) -> None:
        from vtrain.output.language.format import parse_format

        self.console = console
        self.multiline = multiline
        self.format = parse_format(f"{_COLUMNS} {console.format_text or 'json'}")
        self.started = False
        self.waiting: list[Any] = []

    def show(self, entries: Sequence[LogEntry]) -> None:
        documents = [record for entry in entries for record in records(entry, multiline=self.multiline)]
        if self.format.name == "table":
            self.waiting += documents
        elif self.format.name == "json":
            for document in self.console.flattened(documents):
                self._write_json(document)
        elif documents:
            self.console.print_list(self.console.flattened(documents), self.format)
            # Later entries go without the heading and the title of the first ones.
            attributes = {
                name: value
                for name, value in self.format.attributes.items()
                if name not in ("heading", "title")
            }
            self.format = msgspec.structs.replace(self.format, attributes=attributes | {"no-heading": ""})

    def _write_json(self, document: Any) -> None:
        head = b",\n" if self.started else b"[\n"
        self.started = True
        from vtrain.output.language.printers import render

        text = self.console.printable(render(document, self.format))
        self.console.write(
            head + "\n".join("  " + line for line in text.splitlines()).encode("utf-8", "replace")
        )

    def counts(self, entry: LogEntry) -> bool:  # noqa: ARG002 - of the protocol
        return True

    def close(self) -> None:
        if self.waiting:
            self.console.print_list(self.console.flattened(self.waiting), self.format)
        elif self.format.name == "json":
            self.console.write(b"\n]\n" if self.started else b"[]\n")


class PassThroughSink:
    """The trainer's stdout and stderr, unchanged; on stderr what is being installed, and each restart."""

    follows_open_lines = False
    frame = ""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._complaint = ""

    def show(self, entries: Sequence[LogEntry]) -> None:
        for entry in entries:
            if entry.task_name != "service":
                self.console.write(entry.payload, stderr=entry.stream == "stderr")
            elif entry.stream == "stdout":
                for line in entry.message.splitlines():
                    self.console.tell(line)
            elif entry.stream == "stderr":
                self._complaint = entry.message.strip()
            else:
                self._tell_restart(entry.message.strip())

    def _tell_restart(self, said: str) -> None:
        """Say why a replica begins again, in one line."""
        if said.startswith(RESTARTING):
            self.console.status(Piece(in_width(f"{self._complaint} {said}".strip()), Role.WARNING))
        self._complaint = ""

    def counts(self, entry: LogEntry) -> bool:  # noqa: ARG002 - of the protocol
        return True

    def close(self) -> None:
        """Add nothing: a last line without newline keeps its form."""
