"""Staying with a job until it ends: what is shown meanwhile, and what Ctrl-C does."""

from __future__ import annotations

import os
import sys

import msgspec

from vtrain.backends import JobBackend
from vtrain.commands.session import Session, job_document
from vtrain.errors import (
    InterruptedByUser,
    OutputError,
    StorageError,
    TerminatedBySignal,
    UsageError,
    VtrainError,
)
from vtrain.flags.grammar import duration_seconds
from vtrain.follow import Follow, follow
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogPage, LogQuery
from vtrain.messages.states import short
from vtrain.output.card import show_failure
from vtrain.output.console import Console
from vtrain.output.sinks import LogSink, TextSink
from vtrain.verdict import raise_verdict

DETACH, CANCEL = "detach", "cancel"


class JobWatcher:
    """Shows the log through a sink, and the state as a line."""

    def __init__(self, console: Console, sink: LogSink | None) -> None:
        self.console = console
        self.sink = sink

    def saw_page(self, page: LogPage) -> None:
        if self.sink is not None:
            self.sink.show(page.entries)

    def saw_job(self, job: CustomJob, elapsed: float) -> None:
        self.console.show_state(f"{short(job.state)}  {clock(elapsed)}  {job.display_name}")

    def cannot_ask(self, error: StorageError) -> None:
        self.console.warn(f"{error.message} Asking again.")

    def heard_nothing(self, job: CustomJob, elapsed: float) -> None:
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


def stay(order: Stay) -> CustomJob:
    """The ended job. Ctrl-C, SIGTERM and SIGHUP detach from it or cancel it, as `on_interrupt` says."""
    try:
        return _follow(order)
    except (KeyboardInterrupt, TerminatedBySignal) as interrupt:
        reason: VtrainError = (
            interrupt if isinstance(interrupt, TerminatedBySignal) else InterruptedByUser("Interrupted.")
        )
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
    return f"$ vtrain custom-jobs stream-logs {name}\n$ vtrain custom-jobs cancel {name}"


def _follow(order: Stay) -> CustomJob:
    follow_order = Follow(backend=order.backend, name=order.name, query=order.query, timeout=order.timeout)
    if order.slowest_poll is not None:
        follow_order = msgspec.structs.replace(follow_order, slowest_poll=order.slowest_poll)
    watcher = JobWatcher(order.console, order.sink)
    try:
        return follow(follow_order, watcher)
    finally:
        if order.sink is not None:
            order.sink.close()


def _cancel(order: Stay, reason: VtrainError) -> VtrainError:
    """Stop the job and see it end; a second signal kills it."""
    order.backend.cancel(order.name)  # first: after a hangup there is nobody to write to
    order.console.status("Stopping the job; once more kills it.")
    try:
        _follow(msgspec.structs.replace(order, timeout=None, query=None, sink=None))
    except (KeyboardInterrupt, TerminatedBySignal):
        kill = getattr(order.backend, "kill", order.backend.cancel)
        kill(order.name)
        _follow(msgspec.structs.replace(order, timeout=10.0, query=None, sink=None))
    return type(reason)("Stopped.")


def interrupt_action(flag: str, *, default: str) -> str:
    """What Ctrl-C does. On a CI runner without a terminal nobody comes back, so there it cancels."""
    if flag not in ("", DETACH, CANCEL):
        raise UsageError(f"--on-interrupt: expected detach or cancel, found {flag!r}.")
    if not flag and os.environ.get("CI") == "true" and not sys.stderr.isatty():
        return CANCEL
    return flag or default


def conclude(console: Console, job: CustomJob, *, default: str = "") -> None:
    """Say how a job ended: the card of a failed one, the state, the job itself in `--format`."""
    show_failure(console, job)
    console.progress(f"{job.name}: {short(job.state)}")
    console.result(job_document(job), default)


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
