"""`vtrain logs`: what jobs have logged so far, or until they end; the last lines, or those with a word."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from vtrain.backends import LOCAL_PACE
from vtrain.backends.pager import log_pages
from vtrain.commands.conclusion import conclude
from vtrain.commands.session import Session, open_console, open_named
from vtrain.commands.watching import JobWatcher, Stay, interval, log_sink, stay, warn_of_task
from vtrain.core.following import Follow, looks
from vtrain.core.references import LAST
from vtrain.core.verdict import raise_verdict
from vtrain.errors import CommandError, ContactLostError, InterruptedByUser, NotFoundError, UsageError
from vtrain.flags.grammar import duration_seconds
from vtrain.flags.options import CommonFlags, FollowFlag, JobsFlag, LineFlags, PlaceFlags, StreamFlags
from vtrain.messages.log import LogEntry, LogPage, LogQuery
from vtrain.messages.names import ResourceKind
from vtrain.messages.states import has_ended, short
from vtrain.output.log_sinks import ChosenLines, LogSink
from vtrain.output.terminal import clock
from vtrain.times import NANOSECONDS

if TYPE_CHECKING:
    from vtrain.messages.resources import Job

SHOWN_AT_ONCE = 1000
"""Entries of several jobs that are written together."""
MOST_LINES = 1_000_000
"""The most that --tail takes: they are held in memory."""


class _Log(msgspec.Struct):
    """The log of one job: where it is read from, and what marks its lines beside those of others."""

    session: Session
    name: str
    query: LogQuery
    mark: str = ""
    job: Job | None = None

    def marked(self, entry: LogEntry) -> LogEntry:
        """The entry, with the job before the replica."""
        if not self.mark:
            return entry
        return msgspec.structs.replace(entry, task_name=f"{self.mark}/{entry.task_name}")


def logs(
    jobs: JobsFlag,
    follow: FollowFlag,
    lines: LineFlags,
    stream: StreamFlags,
    place: PlaceFlags,
    common: CommonFlags,
    *,
    kind: ResourceKind,
) -> None:
    """Print the logs of jobs as far as they go, or follow them to the jobs' ends."""
    last = _count(lines.tail)
    since = (
        time.time_ns() - round(duration_seconds(lines.since, "--since") * NANOSECONDS) if lines.since else 0
    )
    slowest = interval(stream.polling_interval)
    console = open_console(common)
    found = []
    for text in dict.fromkeys(jobs.jobs or [LAST]):
        session, name = open_named(common, place, text, kind, about_running=follow.follow, console=console)
        query = LogQuery(name=name, task_name=stream.task_name, since=max(since, 0))
        found.append(_Log(session, name, query))
        warn_of_task(session, name, stream.task_name)
    if len(found) > 1:
        from vtrain.output.compared import labels_of

        shown = [log.session.jobs.get(log.name) for log in found]
        for log, job, mark in zip(
            found, shown, labels_of([(job.name, job.display_name) for job in shown]), strict=True
        ):
            log.job, log.mark = job, mark
    sink = log_sink(found[0].session, stream)
    if lines.grep or last is not None:
        sink = ChosenLines(sink, word=lines.grep.encode(), last=last)
    if not follow.follow or last is not None:
        _show_so_far(found, sink, more_follows=follow.follow)
    if not follow.follow:
        return
    if len(found) > 1:
        _follow_all(found, sink, slowest)
        return
    order = Stay(
        console=console,
        backend=found[0].session.jobs,
        name=found[0].name,
        sink=sink,
        query=found[0].query,
        slowest_poll=slowest,
    )
    ended = stay(order)
    conclude(found[0].session, ended)
    raise_verdict(ended)


def _count(text: str) -> int | None:
    """The lines of --tail; None for all. Raises UsageError for anything but a number."""
    if text in ("", "all"):
        return None
    if not text.isascii() or not text.isdecimal() or int(text) > MOST_LINES:
        raise UsageError(f"--tail: expected a number up to {MOST_LINES}, or all, found {text!r}.")
    return int(text)


def _show_so_far(found: Sequence[_Log], sink: LogSink, *, more_follows: bool) -> None:
    """Show what there is now; of several jobs in the order of time, with a page of each in memory."""
    troubles: dict[str, None] = {}
    try:
        if len(found) == 1:
            for page in _pages(found[0], troubles):
                sink.show(page)
        else:
            entries = ((entry for page in _pages(log, troubles) for entry in page) for log in found)
            merged = heapq.merge(*entries, key=attrgetter("time"))
            while some := [*islice(merged, SHOWN_AT_ONCE)]:
                sink.show(some)
    finally:
        if isinstance(sink, ChosenLines):
            sink.show_last()
        if not more_follows:
            sink.close()
    for trouble in troubles:
        found[0].session.console.warn(trouble)


def _pages(log: _Log, troubles: dict[str, None]) -> Iterator[Sequence[LogEntry]]:
    """The pages of a log up to its present end, from which its query then goes on."""
    for page in log_pages(log.session.jobs.logs, log.query):
        if page.trouble:
            troubles[page.trouble] = None
        yield [*map(log.marked, page.entries)]
        log.query = msgspec.structs.replace(log.query, cursor=page.cursor)


class _OneOfSeveral(JobWatcher):
    """Shows the log of one job that is followed beside others; their states are one line."""

    def __init__(self, log: _Log, found: Sequence[_Log], sink: LogSink) -> None:
        super().__init__(log.session.console, None)
        self._log, self._found, self._sink = log, found, sink

    def saw_page(self, page: LogPage) -> None:
        self.cursor = page.cursor
        self._sink.show([*map(self._log.marked, page.entries)])

    def saw_job(self, job: Job, elapsed: float) -> None:
        self._log.job = job
        states = Counter(short(log.job.state) for log in self._found if log.job is not None)
        counted = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        self.console.show_state(f"{clock(elapsed)}  {counted}")


def _follow_all(found: Sequence[_Log], sink: LogSink, slowest: float | None) -> None:
    """Follow several jobs in turn; the first one that failed decides the exit code."""
    console = found[0].session.console
    going = {}
    for log in found:
        pace = slowest or getattr(log.session.jobs, "pace", LOCAL_PACE).slowest
        order = Follow(
            backend=log.session.jobs, name=log.name, query=log.query, slowest_poll=pace / len(found)
        )
        going[log.name] = looks(order, _OneOfSeveral(log, found, sink))
    lost = 0
    try:
        while going:
            for log in found:
                if log.name not in going:
                    continue
                try:
                    next(going[log.name])
                except StopIteration:
                    del going[log.name]
                    assert log.job is not None
                    conclude(log.session, log.job)
                except (NotFoundError, ContactLostError) as error:
                    del going[log.name]
                    console.error(error)
                    lost = error.exit_code
    except KeyboardInterrupt as interrupt:
        raise InterruptedByUser("Detached; the jobs go on.") from interrupt
    finally:
        sink.close()
        console.close()
    for log in found:
        if log.job is not None and has_ended(log.job.state):
            raise_verdict(log.job)
    if lost:
        raise CommandError("", lost)
