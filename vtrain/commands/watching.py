"""Staying with a job until it ends: what is shown meanwhile, and what Ctrl-C does."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import msgspec

from vtrain.backends import JobBackend
from vtrain.commands.kinds import CUSTOM_JOB, KINDS
from vtrain.commands.session import Session, resource_document
from vtrain.errors import (
    InterruptedByUser,
    OutputError,
    TerminatedBySignal,
    UsageError,
    VtrainError,
)
from vtrain.flags.grammar import duration_seconds
from vtrain.follow import Follow, follow
from vtrain.messages.log import LogPage, LogQuery
from vtrain.messages.names import parse_name
from vtrain.messages.states import has_ended, short
from vtrain.output.card import show_failure
from vtrain.output.console import Console
from vtrain.output.controls import on_one_line
from vtrain.output.sinks import LogSink, TextSink
from vtrain.verdict import raise_verdict

if TYPE_CHECKING:
    from vtrain.messages.resources import Job

DETACH, CANCEL = "detach", "cancel"


class JobWatcher:
    """Shows the log through a sink, and the state as a line. `job` is what was seen last of it."""

    def __init__(self, console: Console, sink: LogSink | None) -> None:
        self.console = console
        self.sink = sink
        self.job: Job | None = None
        self._has_told_queued = False

    def saw_page(self, page: LogPage) -> None:
        if self.sink is not None:
            self.sink.show(page.entries)

    def saw_job(self, job: Job, elapsed: float) -> None:
        self.job = job
        if short(job.state) == "QUEUED" and not self._has_told_queued:
            self._has_told_queued = True
            self.console.progress(f"{job.name} is QUEUED, until there is room for it.")
        self.console.show_state(f"{short(job.state)}  {clock(elapsed)}  {on_one_line(job.display_name)}")

    def cannot_ask(self, error: VtrainError) -> None:
        self.console.warn(f"{error.message} Asking again.")

    def cannot_read(self, trouble: str) -> None:
        self.console.warn(trouble)

    def heard_nothing(self, job: Job, elapsed: float) -> None:
        if not self.console.has_status_line:
            self.console.progress(f"{short(job.state)} for {clock(elapsed)}, no line for a while: {job.name}")


def clock(seconds: float) -> str:
    """`0:07`, `12:34`, `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Stay(msgspec.Struct, frozen=True, kw_only=True):
    """How to stay with a job."""

    console: Console
    backend: JobBackend
    name: str
    sink: LogSink | None = None
    query: LogQuery | None = None
    timeout: float | None = None
    on_interrupt: str = DETACH
    slowest_poll: float | None = None


def stay(order: Stay) -> Job:
    """The ended job. Ctrl-C, SIGTERM and SIGHUP detach from it or cancel it, as `on_interrupt` says."""
    watcher = JobWatcher(order.console, order.sink)
    try:
        return _follow(order, watcher)
    except (KeyboardInterrupt, TerminatedBySignal) as interrupt:
        reason: VtrainError = (
            interrupt if isinstance(interrupt, TerminatedBySignal) else InterruptedByUser("Interrupted.")
        )
        if watcher.job is not None and has_ended(watcher.job.state):
            ended = f"The job has ended: {short(watcher.job.state)}."
            raise type(reason)(ended, hint=_look_again(order.name)) from interrupt
        if order.on_interrupt == DETACH:
            raise type(reason)("Detached; the job goes on.", hint=come_back(order.name)) from interrupt
        raise _cancel(order, reason) from interrupt
    except OutputError:
        if order.on_interrupt == CANCEL:
            order.backend.cancel(order.name)
        raise
    finally:
        order.console.close()


def come_back(name: str) -> str:
    """The commands with which to come back to a job and to cancel it."""
    group = _group(name)
    return f"$ vtrain {group} stream-logs {name}\n$ vtrain {group} cancel {name}"


def _look_again(name: str) -> str:
    return f"$ vtrain {_group(name)} describe {name}"


def _group(name: str) -> str:
    full = parse_name(name)
    return KINDS[full.collection].group if full and full.collection in KINDS else CUSTOM_JOB.group


def _follow(order: Stay, watcher: JobWatcher) -> Job:
    follow_order = Follow(
        backend=order.backend,
        name=order.name,
        query=order.query,
        timeout=order.timeout,
        slowest_poll=order.slowest_poll,
    )
    try:
        return follow(follow_order, watcher)
    finally:
        if order.sink is not None:
            order.sink.close()


def _cancel(order: Stay, reason: VtrainError) -> VtrainError:
    """Stop the job and see it end; a second signal kills it or, where nothing can, leaves it to itself."""
    kill = getattr(order.backend, "kill", None)
    watcher = JobWatcher(order.console, None)
    try:  # from the start: the second signal may come at once
        order.backend.cancel(order.name)  # first: after a hangup there is nobody to write to
        again = "kills it" if kill else "does not wait for that"
        order.console.status(f"Stopping the job; once more {again}.")
        _follow(msgspec.structs.replace(order, timeout=None, query=None, sink=None), watcher)
    except (KeyboardInterrupt, TerminatedBySignal):
        if kill is None:
            return type(reason)("The job was asked to stop.", hint=_look_again(order.name))
        kill(order.name)
        _follow(msgspec.structs.replace(order, timeout=10.0, query=None, sink=None), watcher)
    return type(reason)("Stopped.")


def interrupt_action(flag: str, *, default: str) -> str:
    """What Ctrl-C does. On a CI runner without a terminal nobody comes back, so there it cancels."""
    if flag not in ("", DETACH, CANCEL):
        raise UsageError(f"--on-interrupt: expected detach or cancel, found {flag!r}.")
    if not flag and os.environ.get("CI") == "true" and not sys.stderr.isatty():
        return CANCEL
    return flag or default


def conclude(console: Console, job: Job, *, default: str = "") -> None:
    """Say how a job ended: the card of a failed one, the state, the job itself in `--format`."""
    show_failure(console, job)
    console.progress(f"{job.name}: {short(job.state)}")
    console.result(resource_document(job), default)


def stay_to_the_end(
    session: Session, name: str, *, stream: bool, timeout: float | None, on_interrupt: str
) -> None:
    """Follow a job to its end, print it, and let its state decide the exit code."""
    order = Stay(
        console=session.console,
        backend=session.backend,
        name=name,
        sink=TextSink(session.console, stderr=True) if stream else None,
        query=LogQuery(name=name) if stream else None,
        timeout=timeout,
        on_interrupt=on_interrupt,
    )
    job = stay(order)
    conclude(session.console, job)
    raise_verdict(job)


def wait_seconds(text: str) -> float | None:
    """The seconds of `--wait-timeout`; None waits for ever."""
    return duration_seconds(text, "--wait-timeout") if text else None
