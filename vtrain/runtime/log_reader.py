"""Reads a job's logs: log entries from a cursor on, the journals of all replicas merged by time.

A cursor says per task which record comes next, how far into the raw file reading has come, and per stream
where a line began whose end has not come yet. So a page can be read by any process, at any time.
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
from vtrain.runtime.journal import INDEX_SUFFIX, RAW_SUFFIX, RECORD
from vtrain.runtime.journal_reader import JournalFiles, JournalReader, Place

ENTRY_BYTES = 64
"""How much an entry counts in a page's limit beside its text, so that a page of empty lines is small too."""
_LOST = "lost"


class ChildLogs(msgspec.Struct, frozen=True, kw_only=True):
    """The logs of a job that another one runs: of a trial, or of the task of a training pipeline.

    `key` tells them apart in a cursor. Of a trial the lines of the runtime itself are left out.
    """

    folder: Path
    key: str
    trial_id: str = ""


class _Source(msgspec.Struct, frozen=True):
    """The journal of a task, or of a task of a trial."""

    folder: Path
    task: str
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

    def is_read(self, place: Place) -> bool:
        """Whether nothing was written since that place, as far as sizes tell."""
        try:
            index = (self.folder / f"{self.task}{INDEX_SUFFIX}").stat().st_size // RECORD.size
            raw = (self.folder / f"{self.task}{RAW_SUFFIX}").stat().st_size
        except OSError:
            return False
        return (index, raw) == (place.record, place.offset) and not place.open_lines

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
    """The entries that the journals in `folder` hold from the query's cursor on.

    With `ended`, nothing will be written any more: the last line of a stream is whole even without a
    newline. The tasks of `children` are read too. `started` are replicas whose journals were begun: a trouble
    names one that is gone.
    Raises nothing for a folder without logs: there are no entries then.
    """
    places = _decode_cursor(query.cursor)
    # The log of the runtime itself is the first, and is opened first: a replica has ended before the line
    # that says so, and thus before its own log is looked at.
    sources = [_Source(folder, task) for task in _task_names(folder, started)]
    for child in children:
        tasks = [task for task in _task_names(child.folder) if not (child.trial_id and task == SERVICE)]
        sources += [_Source(child.folder, task, child.trial_id, child.key) for task in tasks]
    wanted = [
        source
        for source in sources
        if source.is_wanted(query) and not source.is_read(places.setdefault(source.key, Place()))
    ]
    with closing(JournalFiles()) as files:
        readers = [
            JournalReader(
                source.folder,
                source.task,
                places[source.key],
                files,
                query.since,
                raw=query.raw,
                by_end=query.by_end,
                trial_id=source.trial_id,
                ended_attempt=-1 if ended else source.ended_attempt(),
            )
            for source in wanted
        ]
        entries, more = _merged(readers, query, ended=ended)
    return LogPage(
        entries=tuple(entries),
        cursor=msgspec.json.encode(places).decode(),
        more=more,
        trouble=" ".join(trouble for reader in readers for trouble in reader.troubles),
    )


def _merged(readers: list[JournalReader], query: LogQuery, *, ended: bool) -> tuple[list[LogEntry], bool]:
    """The entries that fit into a page, in the order of their times, and whether some are left."""
    entries: list[LogEntry] = []
    for reader in readers:
        reader.find_place(entries)
    waiting: list[tuple[int, int]] = []

    def wait_or_end(i: int) -> None:
        """Let a reader wait for its turn; one that has nothing more ends its lines before others go on."""
        if readers[i].has_more(ended):
            heapq.heappush(waiting, (readers[i].next_time(), i))
        else:
            readers[i].read_open_lines(entries, partial=query.partial, ended=ended)

    for i in range(len(readers)):
        wait_or_end(i)
    budget = limit = max(query.limit, 1)
    while waiting and (budget > 0 or not entries):  # an empty page means: nothing more now
        _, i = heapq.heappop(waiting)
        size, count = budget if budget > 0 else limit, len(entries)
        budget -= readers[i].read_piece(min(size, MAX_ENTRY_BYTES), entries)
        budget -= ENTRY_BYTES * max(len(entries) - count - 1, 0)
        wait_or_end(i)
    return entries, bool(waiting)


def lost_log(query: LogQuery) -> LogPage:
    """The log of a job whose folder somebody removed: one line that says so, once."""
    if query.cursor == _LOST:
        return LogPage(entries=(), cursor=_LOST)
    text = b"The log is gone: the job's folder was removed."
    entry = LogEntry(time=time.time_ns(), insert_id=_LOST, severity="ERROR", task_name=SERVICE, payload=text)
    return LogPage(entries=(entry,), cursor=_LOST)


def read_tail(folder: Path, task: str, stream: int, size: int, attempt: int = 0) -> str:
    """About the last `size` bytes that an attempt of a replica wrote to one stream, as text."""
    pieces: list[bytes] = []
    held = 0
    with closing(JournalFiles()) as files:
        reader = JournalReader(folder, task, Place(), files)
        for block in reader.blocks_from_the_end():
            if (block.stream, block.attempt) == (stream, attempt) and held < size:
                start = max(block.start, block.end - (size - held))
                pieces.append(reader.raw(start, block.end))
                held += block.end - start
            if held >= size or block.attempt < attempt:
                break
    return b"".join(reversed(pieces)).decode("utf-8", "replace")


def _decode_cursor(cursor: str) -> dict[str, Place]:
    if cursor in ("", _LOST):  # the folder was made again
        return {}
    try:
        return msgspec.json.decode(cursor, type=dict[str, Place])
    except msgspec.DecodeError as error:
        raise ConfigError(f"{cursor[:80]!r} is not a place in a log: {error}.") from error


def _task_names(folder: Path, started: Iterable[str] = ()) -> list[str]:
    names = {path.stem for path in folder.glob("*") if path.suffix in (INDEX_SUFFIX, RAW_SUFFIX)}
    names.update(started)
    return sorted(names, key=lambda name: ([int(n) for n in re.findall(r"\d+", name)], name))
