"""Reads a job's logs: log entries from a cursor on, the journals of all replicas merged by time.

A cursor says per task which segment is being read, which record of it comes next, how far into the raw file
reading has come, and per stream where a line began whose end has not come yet. So a page can be read by any
process, at any time.
"""

from __future__ import annotations

import heapq
import re
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from vtrain.errors import ConfigError
from vtrain.messages.log import MAX_ENTRY_BYTES, LogEntry, LogPage, LogQuery
from vtrain.runtime.folder import SERVICE, JobFolder
from vtrain.runtime.log.journal_reader import JournalPlace, JournalReader
from vtrain.runtime.log.segments import JournalFiles, Segment, list_segments
from vtrain.runtime.process.journal import INDEX_SUFFIX, RAW_SUFFIX, RECORD

ENTRY_BYTES = 64
"""How much an entry counts in a page's limit beside its text, so that a page of empty lines is small too."""
MOST_BLOCKS = 20_000
"""Blocks that are looked at for the end of a stream."""
_LOST = "lost"


class ChildLogs(msgspec.Struct, frozen=True, kw_only=True):
    """The logs of a job that another one runs: of a trial, or of the task of a training pipeline.

    `key` tells them apart in a cursor. Of a trial the lines of the runtime itself are left out.
    """

    folder: Path
    key: str
    trial_id: str = ""


class _Source(msgspec.Struct, frozen=True):
    """The log of a task, or of a task of a trial, with the segments that are there."""

    folder: Path
    task: str
    segments: list[int]
    trial_id: str = ""
    owner: str = ""

    @property
    def key(self) -> str:
        """Its name in a cursor."""
        return f"{self.owner}/{self.task}" if self.owner else self.task

    def is_wanted(self, query: LogQuery) -> bool:
        """Whether the query selects it: by the task, `trial-3/workerpool0-0`, or `trial-3`."""
        trial = f"trial-{self.trial_id}" if self.trial_id else ""
        names = ("", self.task, trial, f"{trial}/{self.task}")
        return query.task_name in names and query.trial_id in ("", self.trial_id)

    def is_read(self, place: JournalPlace) -> bool:
        """Whether nothing was written since that place, as far as sizes tell."""
        if place.open_lines or self.segments[-1:] != [place.segment]:
            return False
        segment = f"{self.folder / self.task}.{place.segment}"
        try:
            sizes = [Path(segment + suffix).stat().st_size for suffix in (INDEX_SUFFIX, RAW_SUFFIX)]
        except OSError:
            return False
        return sizes == [place.record * RECORD.size, place.offset]

    def ended_attempt(self) -> int:
        """The last attempt of the replica that will write no more; -1 for none."""
        job = JobFolder(self.folder.parent)
        newest = job.newest_attempt(self.task)
        has_ended = (job.replica(self.task, newest).path / "exit.json").exists()
        return newest if has_ended else newest - 1


def read_logs(
    folder: Path,
    query: LogQuery,
    *,
    ended: bool,
    children: Sequence[ChildLogs] = (),
    started: Iterable[str] = (),
) -> LogPage:
    """The entries that the logs in `folder` hold from the query's cursor on.

    With `ended`, nothing will be written any more: the last line of a stream is whole even without a
    newline. The tasks of `children` are read too. `started` are replicas whose logs were begun: a trouble
    names one that is gone.
    Raises nothing for a folder without logs: there are no entries then.
    """
    places = _decode_cursor(query.cursor)
    # The log of the runtime itself is the first, and is opened first: a replica has ended before the line
    # that says so, and thus before its own log is looked at.
    sources = [_Source(folder, task, found) for task, found in _logs(folder, started)]
    for child in children:
        logs = [each for each in _logs(child.folder) if not (child.trial_id and each[0] == SERVICE)]
        sources += [_Source(child.folder, *each, child.trial_id, child.key) for each in logs]
    wanted = [
        source
        for source in sources
        if source.is_wanted(query) and not source.is_read(places.setdefault(source.key, JournalPlace()))
    ]
    with closing(JournalFiles()) as files:
        readers = [
            JournalReader(
                str(source.folder / source.task),
                source.segments,
                places[source.key],
                files,
                query,
                trial_id=source.trial_id,
                ended=ended,
                ended_attempt=-1 if ended else source.ended_attempt(),
            )
            for source in wanted
        ]
        entries, more = _merged(readers, query.limit)
    return LogPage(
        entries=tuple(entries),
        cursor=msgspec.json.encode(places).decode(),
        more=more,
        trouble=" ".join(trouble for reader in readers for trouble in reader.troubles),
    )


def _merged(readers: list[JournalReader], limit: int) -> tuple[list[LogEntry], bool]:
    """The entries that fit into a page, in the order of their times, and whether some are left."""
    entries: list[LogEntry] = []
    for reader in readers:
        reader.find_place(entries)
    waiting: list[tuple[int, int]] = []

    def wait_or_end(i: int) -> None:
        """Let a reader wait for its turn; one that has nothing more ends its lines before others go on."""
        moment = readers[i].next_time
        if moment is not None:
            heapq.heappush(waiting, (moment, i))
        else:
            readers[i].read_open_lines(entries)

    for i in range(len(readers)):
        wait_or_end(i)
    budget = limit = max(limit, 1)
    while waiting and (budget > 0 or not entries):  # an empty page means: nothing more now
        _, i = heapq.heappop(waiting)
        size, count = budget if budget > 0 else limit, len(entries)
        budget -= readers[i].read_piece(min(size, MAX_ENTRY_BYTES), entries)
        budget -= ENTRY_BYTES * max(len(entries) - count - 1, 0)
        wait_or_end(i)
    return entries, bool(waiting)


def lost_log(query: LogQuery) -> LogPage:
    """The log of a job whose folder of logs somebody removed: one line that says so, once."""
    if query.cursor == _LOST:
        return LogPage(entries=(), cursor=_LOST)
    text = b"The log is gone: its folder was removed."
    entry = LogEntry(time=time.time_ns(), insert_id=_LOST, severity="ERROR", task_name=SERVICE, payload=text)
    return LogPage(entries=(entry,), cursor=_LOST)


def read_tail(folder: Path, task: str, stream: int, size: int, attempt: int = 0) -> str:
    """About the last `size` bytes that an attempt of a replica wrote to one stream, as text.

    It is among the last `MOST_BLOCKS` of both streams: one that wrote little may have written it long ago.
    """
    pieces: list[bytes] = []
    left = MOST_BLOCKS
    with closing(JournalFiles()) as files:
        for number in reversed(list_segments(folder).get(task, [])):
            segment = Segment(files, str(folder / task), number)
            for block in segment.blocks_from_the_end():
                left -= 1
                if size <= 0 or left < 0 or block.attempt < attempt:
                    break
                if (block.stream, block.attempt) == (stream, attempt):
                    pieces.append(segment.raw(max(block.start, block.end - size), block.end))
                    size -= len(pieces[-1])
    return b"".join(reversed(pieces)).decode("utf-8", "replace")


def _decode_cursor(cursor: str) -> dict[str, JournalPlace]:
    if cursor in ("", _LOST):  # the folder was made again
        return {}
    try:
        return msgspec.json.decode(cursor, type=dict[str, JournalPlace])
    except msgspec.DecodeError as error:
        raise ConfigError(f"{cursor[:80]!r} is not a place in a log: {error}.") from error


def _logs(folder: Path, started: Iterable[str] = ()) -> list[tuple[str, list[int]]]:
    """The logs in a folder, that of the runtime first, and the numbers of their segments."""
    found: dict[str, list[int]] = {name: [] for name in started} | list_segments(folder)
    return sorted(found.items(), key=lambda log: ([int(n) for n in re.findall(r"\d+", log[0])], log[0]))
