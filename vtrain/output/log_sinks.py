"""Log entries on the console: as text, as documents, or untouched.

Text is `SEVERITY<TAB>time<TAB>replica<TAB>message`, a line each, as gcloud prints it. It is made from bytes:
an entry of many lines costs one `replace`, not one step per line.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from vtrain.messages.log import LogEntry
from vtrain.output.colours import Piece, Role, has_colours
from vtrain.output.console import Console
from vtrain.output.terminal import colour_prefix, in_width
from vtrain.times import NANOSECONDS, from_nanoseconds

if TYPE_CHECKING:
    from vtrain.output.format import Format

RESTARTING = "Restarting "
"""The beginning of the line of the job's log about a restart."""
Style = Callable[[str, bytes], bytes]
"""Adds colour to a prefix, given the name of the task."""


class LineFormatter:
    """Turns entries into lines, and joins partial entries of one line again."""

    def __init__(self, *, multiline: bool = False, style: Style | None = None) -> None:
        """`multiline` keeps newlines inside a message; `style` colours a prefix by task name."""
        self._multiline = multiline
        self._style = style
        self._open: tuple[str, str] | None = None
        self._second = -1
        self._stamp = b""

    def format(self, entry: LogEntry) -> bytes:
        """The entry's lines with their prefixes. A partial line is left open for its continuation."""
        stream = (entry.task_name, entry.stream)
        prefix = self._prefix(entry)
        payload = valid_utf8(entry.payload)
        body = payload if self._multiline else payload.replace(b"\n", b"\n" + prefix)
        head = self._head(stream, prefix)
        self._open = stream if entry.partial else None
        return head + body + (b"" if entry.partial else b"\n")

    def close(self) -> bytes:
        """The newline of a line that is still open, or no bytes."""
        newline = b"\n" if self._open else b""
        self._open = None
        return newline

    def _head(self, stream: tuple[str, str], prefix: bytes) -> bytes:
        if self._open == stream:
            return b""
        return self.close() + prefix

    def _prefix(self, entry: LogEntry) -> bytes:
        second = entry.time // NANOSECONDS
        if second != self._second:
            self._second, self._stamp = second, local_time(entry.time).encode()
        task = entry.task_name.encode()
        prefix = b"\t".join((entry.severity.encode(), self._stamp, task, b""))
        return self._style(entry.task_name, prefix) if self._style else prefix


def local_time(nanoseconds: int) -> str:
    """`2026-11-21 09:30:00 +0100`: the local time, as gcloud's stream-logs writes it."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(nanoseconds // NANOSECONDS))


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

    follows_open_lines: bool
    frame: str

    def show(self, entries: Sequence[LogEntry]) -> None:
        """Show these entries, in order."""

    def close(self) -> None:
        """End the output; no more entries follow."""


class TextSink:
    """`SEVERITY<TAB>time<TAB>replica<TAB>message` on stdout or stderr, where these are no terminal."""

    follows_open_lines = False
    frame = ""

    def __init__(self, console: Console, *, stderr: bool, multiline: bool = False) -> None:
        self.console = console
        self.stderr = stderr
        self.formatter = LineFormatter(
            multiline=multiline,
            style=colour_prefix if has_colours(sys.stderr if stderr else sys.stdout) else None,
        )

    def show(self, entries: Sequence[LogEntry]) -> None:
        if entries and (self.stderr or self.console.user_output):
            self.console.write(b"".join(map(self.formatter.format, entries)), stderr=self.stderr)

    def close(self) -> None:
        if newline := self.formatter.close():
            self.console.write(newline, stderr=self.stderr)


_COLUMNS = 'value(severity,timestamp.date("%Y-%m-%d %H:%M:%S %z",tz=LOCAL),task_name,message)'
"""The columns of the log without `--format`. A user's format inherits their transforms and labels."""


class RecordSink:
    """Each line as a document in `--format` on stdout, at once (JSON as an array); a table at the end."""

    follows_open_lines = False
    frame = ""

    def __init__(self, console: Console, *, multiline: bool = False) -> None:
        from vtrain.output.projection import parse_format

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
            self.format = _continued(self.format)

    def _write_json(self, document: Any) -> None:
        head = b",\n" if self.started else b"[\n"
        self.started = True
        from vtrain.output.printers import render

        text = self.console.printable(render(document, self.format))
        self.console.write(
            head + "\n".join("  " + line for line in text.splitlines()).encode("utf-8", "replace")
        )

    def close(self) -> None:
        if self.waiting:
            self.console.print_list(self.console.flattened(self.waiting), self.format)
        elif self.format.name == "json":
            self.console.write(b"\n]\n" if self.started else b"[]\n")


def _continued(fmt: Format) -> Format:
    """The format of later entries, without the heading and the title of the first ones."""
    attributes = {name: value for name, value in fmt.attributes.items() if name not in ("heading", "title")}
    return msgspec.structs.replace(fmt, attributes=attributes | {"no-heading": ""})


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

    def close(self) -> None:
        """Add nothing: a last line without newline keeps its form."""
