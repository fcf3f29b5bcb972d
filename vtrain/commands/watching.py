"""`wait` and `stream-logs`: following a job until it ends, and what Ctrl-C does meanwhile."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import msgspec

from vtrain.backends import HostBackend, JobBackend
from vtrain.commands.conclusion import conclude, how_to_go_on
from vtrain.commands.session import Session, open_console, open_named, resource_document
from vtrain.core.following import SILENCE, Follow, follow
from vtrain.core.references import LAST, command_about, job_id, shown_name
from vtrain.core.verdict import raise_verdict
from vtrain.errors import (
    ConfigError,
    InterruptedByUser,
    OutputError,
    TerminatedBySignal,
    UsageError,
    VtrainError,
)
from vtrain.flags.grammar import count_or_unlimited, duration_seconds
from vtrain.flags.options import (
    CommonFlags,
    InterruptFlag,
    JobsFlag,
    JobsToAwaitFlag,
    NameFlag,
    PlaceFlags,
    StreamFlags,
    TimeoutFlag,
)
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.log import LogPage, LogQuery
from vtrain.messages.names import LOCAL_PROJECT, ResourceKind, parse_name
from vtrain.messages.states import has_ended, short
from vtrain.output.console import Console
from vtrain.output.log_sinks import LogSink, RecordSink, TextSink
from vtrain.output.terminal import clock, on_one_line
from vtrain.output.writing import in_haste
from vtrain.runtime.folder import CLOUD_LOGGING, SERVICE
from vtrain.runtime.replica.vertex_view import replica_ids

if TYPE_CHECKING:
    from vtrain.commands.top import UsageLine
    from vtrain.commands.tuning_trials import TrialWatch
    from vtrain.messages.resources import Job


DETACH, CANCEL = "detach", "cancel"
ROOM_HINT = "  With --memory=1g a job asks for less; with VTRAIN_MEMORY=none memory is not counted."
"""A hint for the user of a job that waits on this machine."""
SPINNER_COLUMNS = 2
"""Columns of the status line before its text."""


class JobWatcher:
    """Shows the log through a sink, and the state as a line. `job` is what was seen last of it.

    With `backend` the line tells what the job uses, where it runs on this machine.
    """

    def __init__(
        self,
        console: Console,
        sink: LogSink | None,
        at_each_look: Callable[[], None] | None = None,
        backend: JobBackend | None = None,
    ) -> None:
        self.console = console
        self.sink = sink
        self._at_each_look = at_each_look
        self.job: Job | None = None
        self.cursor = ""
        self._has_told_queued = False
        self._backend = backend
        self._usage: UsageLine | None = None
        self._trials: TrialWatch | None = None

    def saw_page(self, page: LogPage) -> None:
        self.cursor = page.cursor  # first: after an interrupt no line is shown twice
        if self.sink is not None:
            self.sink.show(page.entries)

    def saw_job(self, job: Job, elapsed: float) -> None:
        self.job = job
        if self._at_each_look is not None:
            self._at_each_look()
        if short(job.state) == "QUEUED" and not self._has_told_queued:
            self._has_told_queued = True
            self.console.progress(f"{shown_name(job.name)} is QUEUED, until there is room for it.")
            full = parse_name(job.name)
            if full is not None and full.project == LOCAL_PROJECT:
                self.console.progress(ROOM_HINT)
        preparing = self.console.activity if short(job.state) == "PENDING" else ""
        what = preparing or (self.sink.frame if self.sink else "") or job.display_name
        beginning = f"{short(job.state)}  {clock(elapsed)}  "
        if isinstance(job, HyperparameterTuningJob):
            more = what == job.display_name
            self._show_trials(job, f"{beginning}{on_one_line(what)}", more=more)
            return
        used = self._used(job) if short(job.state) == "RUNNING" and self.console.has_status_line else ""
        text = f"{beginning}{used}{on_one_line(what)}"
        if used and what != job.display_name and len(text) + SPINNER_COLUMNS > get_terminal_size().columns:
            text = f"{beginning}{on_one_line(what)}"  # a bar that is cut tells nothing
        self.console.show_state(text)

    def _show_trials(self, job: HyperparameterTuningJob, text: str, *, more: bool) -> None:
        if self._trials is None:
            from vtrain.commands.tuning_trials import TrialWatch

            self._trials = TrialWatch(self.console)
        self._trials.show(job, text, more=more)

    def _used(self, job: Job) -> str:
        """The use of the job and two spaces; empty if this machine cannot measure it."""
        if self._usage is None and isinstance(self._backend, HostBackend):
            from vtrain.commands.top import UsageLine

            self._usage = UsageLine(self._backend, job.name)
        text = self._usage.text() if self._usage is not None else ""
        return f"{text}  " if text else ""

    def cannot_ask(self, error: VtrainError) -> None:
        self.console.warn(f"{error.message} Asking again.")

    def cannot_read(self, trouble: str) -> None:
        self.console.warn(trouble)

    def heard_nothing(self, job: Job, elapsed: float) -> None:
        if self._trials is not None and self._trials.has_told(SILENCE):
            return
        if not self.console.has_status_line:
            self.console.progress(
                f"After {clock(elapsed)} {short(job.state)}, no line for a while: {job.name}"
            )


class Stay(msgspec.Struct, frozen=True, kw_only=True):
    """An order to wait for a job.

    `at_each_look` is called whenever its state is seen, `how_to_go_on` about a job that was stopped.
    """

    console: Console
    backend: JobBackend
    name: str
    sink: LogSink | None = None
    query: LogQuery | None = None
    timeout: float | None = None
    on_interrupt: str = DETACH
    slowest_poll: float | None = None
    at_each_look: Callable[[], None] | None = None
    how_to_go_on: Callable[[Job], str] | None = None


def stay(order: Stay) -> Job:
    """The ended job. Ctrl-C, SIGTERM and SIGHUP detach from it or cancel it, as `on_interrupt` says."""
    watcher = JobWatcher(order.console, order.sink, order.at_each_look, order.backend)
    try:
        return _follow(order, watcher)
    except (KeyboardInterrupt, TerminatedBySignal) as interrupt:
        error = _interrupted(order, watcher, interrupt)
        with suppress(OutputError):
            order.console.end_line()
        raise error from interrupt
    except OutputError:
        if order.on_interrupt == CANCEL:
            order.backend.cancel(order.name)
        raise
    finally:
        try:
            with suppress(OutputError) if in_haste() else nullcontext():
                if order.sink is not None:
                    order.sink.close()
        finally:
            order.console.close()


def _interrupted(
    order: Stay, watcher: JobWatcher, interrupt: KeyboardInterrupt | TerminatedBySignal
) -> VtrainError:
    """Leave the job or cancel it, and return the error that ends the command."""
    reason: VtrainError = (
        interrupt if isinstance(interrupt, TerminatedBySignal) else InterruptedByUser("Interrupted.")
    )
    if watcher.job is not None and has_ended(watcher.job.state):
        ended = f"The job has ended: {short(watcher.job.state)}."
        return type(reason)(ended, hint=_look_again(order.name))
    if order.on_interrupt == DETACH:
        return type(reason)("Detached; the job goes on.", hint=come_back(order.name))
    return _cancel(order, watcher, reason)


def come_back(name: str) -> str:
    """The commands with which to come back to a job and to cancel it."""
    return f"$ {command_about(name, 'stream-logs')}\n$ {command_about(name, 'cancel')}"


def _look_again(name: str) -> str:
    return f"$ {command_about(name, 'describe')}"


def _follow(order: Stay, watcher: JobWatcher) -> Job:
    query = order.query
    if query is not None and order.sink is not None and order.sink.follows_open_lines:
        query = msgspec.structs.replace(query, partial=True, by_end=True)
    follow_order = Follow(
        backend=order.backend,
        name=order.name,
        query=query,
        timeout=order.timeout,
        slowest_poll=order.slowest_poll,
    )
    return follow(follow_order, watcher)


def _cancel(order: Stay, watcher: JobWatcher, reason: VtrainError) -> VtrainError:
    """Stop the job and see it end; a second signal kills it or, where nothing can, leaves it to itself.

    The trainer's last lines are shown: the checkpoint that it saves, say.
    """
    kill = getattr(order.backend, "kill", None)
    try:  # from the start: the second signal may come at once
        order.backend.cancel(order.name)  # first: after a hangup there is nobody to write to
        again = "kills it" if kill else "does not wait for that"
        with suppress(OutputError):  # nobody reads it
            order.console.status(f"Stopping the job; once more {again}.")
        job = _see_end(order, watcher, timeout=None)
    except (KeyboardInterrupt, TerminatedBySignal):
        if kill is None:
            return type(reason)("The job was asked to stop.", hint=_look_again(order.name))
        kill(order.name)
        job = _see_end(order, watcher, timeout=10.0)
    return type(reason)("Stopped.", hint=order.how_to_go_on(job) if order.how_to_go_on else "")


def _see_end(order: Stay, watcher: JobWatcher, *, timeout: float | None) -> Job:
    """Follow the job from the last line shown to its end; without its log once stdout is closed."""
    query = order.query
    if query is not None and watcher.cursor:
        query = msgspec.structs.replace(query, cursor=watcher.cursor)
    rest = msgspec.structs.replace(order, timeout=timeout, query=query)
    try:
        return _follow(rest, watcher)
    except OutputError:
        unseen = msgspec.structs.replace(rest, query=None, sink=None)
        return _follow(unseen, JobWatcher(order.console, None))


def interrupt_action(flag: str, *, default: str) -> str:
    """The effect of Ctrl-C. It cancels on a CI runner without a terminal, where nobody would come back."""
    if flag not in ("", DETACH, CANCEL):
        raise UsageError(f"--on-interrupt: expected detach or cancel, found {flag!r}.")
    if not flag and os.environ.get("CI") == "true" and not sys.stderr.isatty():
        return CANCEL
    return flag or default


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """The wish to wait for a job, with its log or without; `timeout` is in seconds, None for no limit."""

    stream: bool = False
    timeout: float | None
    on_interrupt: str


def stay_to_the_end(session: Session, name: str, wait: Wait) -> None:
    """Follow a job to its end, print it, and let its state decide the exit code."""
    order = Stay(
        console=session.console,
        backend=session.jobs,
        name=name,
        sink=text_sink(session, stderr=True) if wait.stream else None,
        query=LogQuery(name=name) if wait.stream else None,
        timeout=wait.timeout,
        on_interrupt=wait.on_interrupt,
        how_to_go_on=partial(how_to_go_on, session),
    )
    job = stay(order)
    conclude(session, job)
    session.console.result(resource_document(job))
    raise_verdict(job)


def text_sink(session: Session, *, stderr: bool, multiline: bool = False) -> LogSink:
    """Shows a log as text: for people on a terminal, and elsewhere in gcloud's columns."""
    if not (sys.stderr if stderr else sys.stdout).isatty():
        return TextSink(session.console, stderr=stderr, multiline=multiline)
    from vtrain.output.terminal_log import TerminalSink

    return TerminalSink(session.console, stderr=stderr, local=session.is_local, multiline=multiline)


def wait_seconds(text: str) -> float | None:
    """The seconds of `--wait-timeout`; None waits for ever."""
    return duration_seconds(text, "--wait-timeout") if text else None


def wait(
    job: NameFlag,
    waiting: TimeoutFlag,
    interrupt: InterruptFlag,
    place: PlaceFlags,
    common: CommonFlags,
    *,
    kind: ResourceKind,
) -> None:
    """Stay until a job ends."""
    wait_for_all(JobsFlag(jobs=[job.text]), JobsToAwaitFlag(), waiting, interrupt, place, common, kind=kind)


def wait_for_all(
    jobs: JobsFlag,
    every: JobsToAwaitFlag,
    waiting: TimeoutFlag,
    interrupt: InterruptFlag,
    place: PlaceFlags,
    common: CommonFlags,
    *,
    kind: ResourceKind,
) -> None:
    """Stay until all of these jobs have ended. Ctrl-C leaves them all, or cancels them all."""
    from vtrain.commands.jobs import ask_to_end, for_each, unended_jobs

    console = open_console(common)
    words = jobs.jobs or [LAST]
    if every.all and jobs.jobs:
        raise UsageError("wait takes names of jobs or --all.")
    if every.all:
        going = unended_jobs(console, place, common, kind, "wait")
        words = [job.name for job in reversed(going)]  # the oldest first
    on_interrupt = interrupt_action(interrupt.on_interrupt, default=DETACH)
    timeout = wait_seconds(waiting.wait_timeout)
    found = {
        text: open_named(common, place, text, kind, about_running=True, console=console) for text in words
    }
    until = time.monotonic() + (timeout or 0.0)

    def wait_for(word: str) -> None:
        if len(found) > 1:
            console.progress(f"Job {job_id(found[word][1])}:")
        rest = None if timeout is None else max(0.0, round(until - time.monotonic(), 1))
        stay_to_the_end(*found[word], Wait(timeout=rest, on_interrupt=on_interrupt))

    try:
        for_each(console, found, wait_for)
    except (InterruptedByUser, TerminatedBySignal):
        for session, name in found.values() if on_interrupt == CANCEL and len(found) > 1 else ():
            if not has_ended(session.jobs.get(name).state):
                ask_to_end(session, name)
        raise


def interval(text: str) -> int | None:
    """The longest pause between two looks, in seconds; None leaves it to the backend.

    Raises UsageError for anything but a number, ConfigError for one without an end.
    """
    if text == "unlimited":
        raise ConfigError("--polling-interval: a log that is never looked at again has no end.")
    return count_or_unlimited(text, "--polling-interval") if text else None


def stream_logs(
    job: NameFlag, stream: StreamFlags, place: PlaceFlags, common: CommonFlags, *, kind: ResourceKind
) -> None:
    """Print a job's log, to its end."""
    session, name = open_named(common, place, job.text, kind, about_running=True)
    sink = log_sink(session, stream)
    slowest = interval(stream.polling_interval)
    warn_of_task(session, name, stream.task_name)
    order = Stay(
        console=session.console,
        backend=session.jobs,
        name=name,
        sink=sink,
        query=LogQuery(name=name, task_name=stream.task_name),
        slowest_poll=slowest,
    )
    ended = stay(order)
    conclude(session, ended)
    raise_verdict(ended)


def log_sink(session: Session, stream: StreamFlags) -> LogSink:
    """The sink that prints a log on stdout, as text or in `--format`."""
    if session.console.format is not None:
        return RecordSink(session.console, multiline=stream.allow_multiline_logs)
    return text_sink(session, stderr=False, multiline=stream.allow_multiline_logs)


def warn_of_task(session: Session, name: str, task: str) -> None:
    """Warn of a `--task-name` that a job of this machine does not have: its log would be silent."""
    job = session.jobs.get(name) if task and session.is_local else None
    if isinstance(job, CustomJob):  # other kinds have the tasks of jobs of their own
        names = [member.name for member in replica_ids(job.job_spec)]
        if task not in (*names, SERVICE, CLOUD_LOGGING):
            more = f" to {names[-1]}" if len(names) > 1 else ""
            session.console.warn(f"The job has no task {task}. It has {names[0]}{more}, and {SERVICE}.")
