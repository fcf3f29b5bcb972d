"""A job's log on a terminal: `14:22:11 worker1-0 │ text`, each line once it has its newline.

A line that has none yet, such as a bar that redraws itself, is for the status line. What the runtime says
about every job is left out, and so is its copy of the error that the end of the job shows.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence

import msgspec

from vtrain.messages.log import MAX_ENTRY_BYTES, LogEntry, is_bar, last_frame, last_states
from vtrain.output.colours import Role, has_colours, paint
from vtrain.output.console import Console
from vtrain.output.log_sinks import valid_utf8
from vtrain.output.terminal import SGR, colour_prefix, for_terminal, on_one_line
from vtrain.runtime.log.service_log import ALL_JOBS, JOB_FAILED
from vtrain.times import NANOSECONDS

SERVICE = "service"
NAME_WIDTH = 9  # of `worker0-0`, the most usual name
_MOST_SHOWN = 4096
"""Bytes of an open line for the status line: more than any terminal is wide."""
_ROLES = {
    "INFO": Role.DIM,
    "DEBUG": Role.DIM,
    "DEFAULT": Role.DIM,
    "NOTICE": Role.DIM,
    "WARNING": Role.WARNING,
}


class TerminalSink:
    """Shows the lines of a job's log on stdout or stderr, which is a terminal."""

    follows_open_lines = True
    frame: str

    def __init__(self, console: Console, *, stderr: bool, local: bool, multiline: bool = False) -> None:
        """`local`: the job is one of this machine, whose runtime says the same of every job."""
        self._console = console
        self._local = local
        self._stderr = stderr
        self._multiline = multiline
        self._has_colours = has_colours(sys.stderr if stderr else sys.stdout)
        self._open: dict[tuple[str, str], bytes] = {}
        self._complaints: dict[str, list[LogEntry]] = {}
        self._prefixes: dict[tuple[int, str, str], bytes] = {}
        self._width = NAME_WIDTH
        self.frame = ""

    def show(self, entries: Sequence[LogEntry]) -> None:
        """Write the lines that are whole; the last one that is open is the `frame` for the status line."""
        shown = b"".join(self._shown(entry) for entry in entries)
        if shown and (self._stderr or self._console.user_output):
            self._console.write(shown, stderr=self._stderr)

    def close(self) -> None:
        """Write what has no newline, and never will."""
        now = time.time_ns()
        lines = [self._line(now, "INFO", task, text) for (task, _), text in self._open.items() if text]
        complaints = [self._whole(entry) for held in self._complaints.values() for entry in held]
        self._open, self._complaints, self.frame = {}, {}, ""
        if lines or complaints:
            self._console.write(b"".join(lines + complaints), stderr=self._stderr)

    def counts(self, entry: LogEntry) -> bool:
        """Whether it is one of the trainer's, or tells something that not every job's log has."""
        if not self._is_own(entry) or entry.stream == "stderr":
            return True
        return entry.stream != "stdout" and not ALL_JOBS.issuperset(entry.message.split("\n"))

    def _is_own(self, entry: LogEntry) -> bool:
        """Whether the runtime says it itself, of the job or of one of several."""
        return self._local and entry.task_name.rpartition("/")[2] == SERVICE

    def _shown(self, entry: LogEntry) -> bytes:
        if not self._is_own(entry):
            return self._whole(entry)
        if entry.stream == "stderr":
            self._complaints.setdefault(entry.task_name, []).append(entry)
            return b""
        if entry.stream == "stdout":
            for line in entry.message.splitlines():
                self._console.tell(line)
            return b""
        return self._said(entry)

    def _said(self, entry: LogEntry) -> bytes:
        """A line of the runtime's own, and before it the complaints that the end of the job does not show."""
        lines = entry.message.split("\n")
        if JOB_FAILED in lines:
            self._complaints.pop(entry.task_name, None)
        before = self._complaints.pop(entry.task_name, [])
        kept = "\n".join(line for line in lines if line not in ALL_JOBS)
        own = self._whole(msgspec.structs.replace(entry, payload=kept.encode())) if kept else b""
        return b"".join(map(self._whole, before)) + own

    def _whole(self, entry: LogEntry) -> bytes:
        """The lines of an entry that have their newline, and those before which it ends."""
        stream = (entry.task_name, entry.stream)
        text = valid_utf8(entry.payload)
        held = self._open.pop(stream, b"")
        if entry.partial:
            text = last_frame(held + text)
            if len(text) < MAX_ENTRY_BYTES:
                self._open[stream] = text
                # The status line is drawn anew several times a second, and cut at the terminal's edge.
                shown = re.sub(SGR, b"", text[:_MOST_SHOWN]).decode("utf-8", "replace").rstrip("\r")
                self.frame = f"{short_task(entry.task_name)} {on_one_line(shown)}"
                return b""
        else:
            text = held + text
        self.frame = ""
        return self._line(entry.time, entry.severity, entry.task_name, text)

    def _line(self, moment: int, severity: str, task: str, text: bytes) -> bytes:
        text = last_states(text)
        if severity == "ERROR" and b"\n" not in text and is_bar(text.decode()):
            severity = "INFO"
        prefix = self._prefix(moment // NANOSECONDS, severity, task)
        text = for_terminal(text)
        return prefix + (text if self._multiline else text.replace(b"\n", b"\n" + prefix)) + b"\n"

    def _prefix(self, second: int, severity: str, task: str) -> bytes:
        key = (second, severity, task)
        if key not in self._prefixes:
            if len(self._prefixes) > 100:
                self._prefixes.clear()
            self._prefixes[key] = self._make_prefix(*key)
        return self._prefixes[key]

    def _make_prefix(self, second: int, severity: str, task: str) -> bytes:
        stamp = time.strftime("%H:%M:%S", time.localtime(second))
        name = short_task(task)
        if len(name) > self._width:  # `trial-3/worker0-0`
            self._width = len(name)
            self._prefixes.clear()
        name = name.ljust(self._width)
        if not self._has_colours:
            return f"{stamp} {name} │ ".encode()
        role = _ROLES.get(severity, Role.ERROR)
        own = paint(name, Role.DIM).encode() if task.endswith(SERVICE) else colour_prefix(task, name.encode())
        return f"{paint(stamp, Role.DIM)} ".encode() + own + f" {paint('│', role)} ".encode()


def short_task(task: str) -> str:
    """`worker1-0` for `workerpool1-0`."""
    owner, slash, name = task.rpartition("/")
    return on_one_line(f"{owner}{slash}{name.replace('workerpool', 'worker', 1)}")
