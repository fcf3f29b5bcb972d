"""The three ways in which log lines are shown: as text, as documents, untouched."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, Protocol

from vtrain.messages.log import LogEntry
from vtrain.output.console import Console
from vtrain.output.log_lines import LineFormatter, Style, records


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
        terminal = (sys.stderr if stderr else sys.stdout).isatty() and "NO_COLOR" not in os.environ
        self.stderr = stderr
        self.formatter = LineFormatter(multiline=multiline, style=_colours() if terminal else None)

    def show(self, entries: Sequence[LogEntry]) -> None:
        if entries:
            self.console.write(b"".join(map(self.formatter.format, entries)), stderr=self.stderr)

    def close(self) -> None:
        ending = self.formatter.close()
        if ending:
            self.console.write(ending, stderr=self.stderr)


def _colours() -> Style:
    from vtrain.output.terminal import colour_prefix

    return colour_prefix


class RecordSink:
    """Each line as a document in `--format` on stdout, at once (JSON as an array)."""

    def __init__(self, console: Console, *, multiline: bool = False) -> None:
        self.console = console
        self.multiline = multiline
        self.streams_json = console.format is not None and console.format.name == "json"
        self.started = False

    def show(self, entries: Sequence[LogEntry]) -> None:
        documents = [record for entry in entries for record in records(entry, multiline=self.multiline)]
        if not self.streams_json:
            self.console.results(documents, "json")
            return
        for document in documents:
            self._write_json(document)

    def _write_json(self, document: dict[str, Any]) -> None:
        import json

        head = b",\n" if self.started else b"[\n"
        self.started = True
        text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False)
        self.console.write(
            head + "\n".join("  " + line for line in text.splitlines()).encode("utf-8", "replace")
        )

    def close(self) -> None:
        if self.streams_json:
            self.console.write(b"\n]\n" if self.started else b"[]\n")


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
