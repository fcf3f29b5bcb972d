"""A job's log in pages: its last lines, or those after a cursor; of one replica, or with a text in them.

A backend reads logs forwards. The place near a log's end is remembered, so that only the first look at a long
log reads all of it.
"""

from __future__ import annotations

import threading
import time
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict, deque
from collections.abc import Iterator

import msgspec

from vtrain.backends.pager import log_pages
from vtrain.emulator.dashboard.reader import JobReader
from vtrain.errors import ConfigError, VtrainError
from vtrain.messages.log import LastStates, LogEntry, LogQuery, is_bar
from vtrain.runtime.log.journal_reader import without_escapes
from vtrain.times import from_nanoseconds

MOST_LINES = 500
"""Lines of one page."""
LONGEST_LINE = 2000
"""Characters of a line that a page shows."""
PAGE_BYTES = 1024 * 1024
"""Bytes that are read at once."""
FEW_BYTES = 8 * 1024
"""The same where every line is shown: each may be a single character."""
READ_SECONDS = 3.0
"""The longest that one request reads a log."""
LONGEST_CURSOR = 4 * 1024 * 1024
MOST_REMEMBERED = 200
_NANOSECONDS = 1_000_000_000


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line as it is shown; `left_out` counts the characters that are not.

    `kind` is a class of the style sheet.
    """

    time: str
    clock: str
    replica: str
    text: str
    kind: str = ""
    left_out: int = 0


class LogView(msgspec.Struct, frozen=True, kw_only=True):
    """Lines, and the cursor after them. With `more` the log goes on behind the cursor already.

    `unfinished` are lines that wait for their newline, such as progress bars, as they are now. `is_cut` says
    that there are lines before the first one. `trouble` is a sentence about a log that cannot be read in
    full.
    """

    lines: tuple[LogLine, ...]
    cursor: str
    unfinished: tuple[LogLine, ...] = ()
    more: bool = False
    is_cut: bool = False
    trouble: str = ""


class LogRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The lines that are asked for: of one replica, with a text. Without a cursor the last ones."""

    name: str
    replica: str = ""
    text: str = ""
    cursor: str = ""
    from_start: bool = False
    lines: int = MOST_LINES


def packed(cursor: str) -> str:
    """A cursor for an address: those of logs with many replicas are long."""
    return urlsafe_b64encode(zlib.compress(cursor.encode())).decode() if cursor else ""


def unpacked(text: str) -> str:
    """The cursor in an address. Raises ConfigError for an invalid one."""
    reader = zlib.decompressobj()
    try:
        cursor = reader.decompress(urlsafe_b64decode(text.encode()), LONGEST_CURSOR).decode() if text else ""
    except (ValueError, zlib.error):
        raise ConfigError("The address names no place in the log.") from None
    if text and not reader.eof:
        raise ConfigError("The address names no whole place in the log.")
    return cursor


class LogReader:
    """Reads logs for pages, and remembers where they end."""

    def __init__(self, reader: JobReader) -> None:
        self._reader = reader
        self._near_end: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, request: LogRequest) -> LogView:
        """The lines. Raises NotFoundError for an unknown job, ConfigError for an invalid cursor."""
        is_forwards = request.cursor or request.from_start or request.text
        view = self._forwards(request) if is_forwards else self._tail(request)
        if view.more or request.text:
            return view
        cursor = unpacked(view.cursor)
        query = LogQuery(name=request.name, task_name=request.replica, cursor=cursor, partial=True)
        found = [entry for entry in self._reader.logs(query).entries if entry.partial]
        unfinished = tuple(line for entry in found for line in _lines(entry, ""))
        return msgspec.structs.replace(view, unfinished=unfinished)

    def text(self, name: str, replica: str) -> Iterator[bytes]:
        """The whole log as it is now, as text, a piece at a time; a line begins with its time and replica."""
        query = LogQuery(name=name, task_name=replica, limit=PAGE_BYTES)
        until, states = time.time_ns(), LastStates()
        try:
            for page in log_pages(self._reader.logs, query):
                for entry in page.entries:
                    head = f"{from_nanoseconds(entry.time)} {_label(entry)} ".encode()
                    shown = states.of(entry)
                    lines = () if shown is None else shown.split(b"\n")
                    yield b"".join(head + line + b"\n" for line in lines)
                if page.entries and page.entries[-1].time > until:  # a log that grows faster than it is read
                    return
        except VtrainError as error:  # the job is deleted, and the answer has begun
            yield f"{error.message}\n".encode()

    def _forwards(self, request: LogRequest) -> LogView:
        """Lines after the cursor, until there are enough, or it has taken long enough."""
        query = LogQuery(
            name=request.name,
            task_name=request.replica,
            cursor=unpacked(request.cursor),
            limit=PAGE_BYTES if request.text else FEW_BYTES,
        )
        found: list[LogLine] = []
        trouble = ""
        end = time.monotonic() + READ_SECONDS
        pages = log_pages(self._reader.logs, query)
        while True:
            page = next(pages)
            lines = [line for entry in page.entries for line in _lines(entry, request.text)]
            if len(lines) > request.lines and query.limit > FEW_BYTES:
                query = msgspec.structs.replace(query, limit=FEW_BYTES)
                pages = log_pages(self._reader.logs, query)
                continue
            found += lines
            trouble = trouble or page.trouble
            if not page.more or len(found) >= request.lines or time.monotonic() > end:
                return LogView(
                    lines=tuple(found), cursor=packed(page.cursor), more=page.more, trouble=trouble
                )
            query = msgspec.structs.replace(query, cursor=page.cursor)

    def _tail(self, request: LogRequest) -> LogView:
        """The last lines; where the end is too far away, those before the place that was reached."""
        key = (request.name, request.replica)
        query = LogQuery(
            name=request.name,
            task_name=request.replica,
            cursor=self._near_end.get(key, ""),
            limit=PAGE_BYTES,
        )
        is_cut = bool(query.cursor)
        last: deque[tuple[str, tuple[LogEntry, ...]]] = deque(maxlen=3)
        end = time.monotonic() + READ_SECONDS
        start = query.cursor
        for page in log_pages(self._reader.logs, query):
            is_cut = is_cut or len(last) == last.maxlen
            last.append((start, page.entries))
            start = page.cursor
            if time.monotonic() > end:
                break
        self._remember(key, last[0][0])
        entries = [entry for _, found in last for entry in found]
        lines: list[LogLine] = []
        while entries and len(lines) < request.lines:
            lines = [*_lines(entries.pop(), ""), *lines]
        return LogView(
            lines=tuple(lines[-request.lines :]),
            cursor=packed(page.cursor),
            more=page.more,
            is_cut=is_cut or bool(entries) or len(lines) > request.lines,
            trouble=page.trouble,
        )

    def _remember(self, key: tuple[str, str], cursor: str) -> None:
        with self._lock:
            self._near_end[key] = cursor
            self._near_end.move_to_end(key)
            if len(self._near_end) > MOST_REMEMBERED:
                self._near_end.popitem(last=False)


def _lines(entry: LogEntry, wanted: str) -> Iterator[LogLine]:
    """The lines of an entry that hold a text, in capitals or not."""
    clock = time.strftime("%H:%M:%S", time.localtime(entry.time // _NANOSECONDS))
    moment, label, usual = from_nanoseconds(entry.time), _label(entry), _kind(entry)
    sought = wanted.casefold()
    for text in without_escapes(entry.message).split("\n"):
        if not sought or sought in text.casefold():
            yield LogLine(
                time=moment,
                clock=clock,
                replica=label,
                text=text[:LONGEST_LINE],
                kind="" if usual == "loud" and is_bar(text) else usual,
                left_out=max(len(text) - LONGEST_LINE, 0),
            )


def _label(entry: LogEntry) -> str:
    """`worker0-0`, or `trial-3/worker0-0`."""
    replica = entry.task_name.replace("workerpool", "worker")
    trial = f"trial-{entry.trial_id}/" if entry.trial_id else ""
    return replica if replica.startswith(trial) else trial + replica


def _kind(entry: LogEntry) -> str:
    if entry.stream == "service" or entry.task_name == "service":
        return "service"
    return "loud" if entry.severity in ("ERROR", "CRITICAL", "ALERT", "EMERGENCY", "WARNING") else ""
