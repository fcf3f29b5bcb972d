"""The three ways in which log lines are shown: as text, as documents, untouched."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from vtrain.messages.log import LogEntry
from vtrain.output.console import Console
from vtrain.output.controls import for_terminal
from vtrain.output.format import Format
from vtrain.output.log_lines import LineFormatter, Style, records
from vtrain.output.printers import render
from vtrain.output.projection import parse_format


class LogSink(Protocol):
    """One of the three ways in which log lines are shown."""

    def show(self, entries: Sequence[LogEntry]) -> None:
        """Show these entries, in order."""

    def close(self) -> None:
        """Nothing comes any more."""


class TextSink:
    """`SEVERITY<TAB>time<TAB>replica<TAB>message` on stdout or stderr, coloured on a terminal."""

    def __init__(self, console: Console, *, stderr: bool, multiline: bool = False) -> None:
        self.console = console
        terminal = (sys.stderr if stderr else sys.stdout).isatty()
        self.stderr = stderr
        self.formatter = LineFormatter(
            multiline=multiline,
            style=_colours() if terminal and "NO_COLOR" not in os.environ else None,
            clean=for_terminal if terminal else None,
        )

    def show(self, entries: Sequence[LogEntry]) -> None:
        if entries and (self.stderr or self.console.user_output):
            self.console.write(b"".join(map(self.formatter.format, entries)), stderr=self.stderr)

    def close(self) -> None:
        ending = self.formatter.close()
        if ending:
            self.console.write(ending, stderr=self.stderr)


def _colours() -> Style:
    from vtrain.output.terminal import colour_prefix

    return colour_prefix


_COLUMNS = 'value(severity,timestamp.date("%Y-%m-%d %H:%M:%S %z",tz=LOCAL),task_name,message)'
"""The columns of the log without `--format`: one that names them has their transforms and labels."""


class RecordSink:
    """Each line as a document in `--format` on stdout, at once (JSON as an array); a table at the end."""

    def __init__(self, console: Console, *, multiline: bool = False) -> None:
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
    """The format of what follows: a heading or a title stands only at the beginning."""
    attributes = {name: value for name, value in fmt.attributes.items() if name not in ("heading", "title")}
    return msgspec.structs.replace(fmt, attributes=attributes | {"no-heading": ""})


class PassThroughSink:
    """Raw entries: the trainer's stdout and stderr, untouched.

    What tools say that make its environment comes as words.
    """

    def __init__(self, console: Console) -> None:
        self.console = console

    def show(self, entries: Sequence[LogEntry]) -> None:
        for entry in entries:
            if entry.task_name != "service":
                self.console.write(entry.payload, stderr=entry.stream == "stderr")
            elif entry.stream == "stdout":
                self.console.progress(entry.message.rstrip("\n"))

    def close(self) -> None:
        """A last line without newline stays without one."""
