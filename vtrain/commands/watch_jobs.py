"""What every group does that stays with a job: wait and stream-logs."""

from __future__ import annotations

from vtrain.commands.kinds import CUSTOM_JOB, WATCHED_JOB, ResourceKind
from vtrain.commands.session import open_session
from vtrain.commands.watching import (
    DETACH,
    Stay,
    interrupt_action,
    stay,
    stay_to_the_end,
    wait_seconds,
)
from vtrain.errors import ConfigError
from vtrain.flags.grammar import count_or_unlimited
from vtrain.flags.options import CommonFlags, InterruptFlag, JobNameFlag, PlaceFlags, StreamFlags, TimeoutFlag
from vtrain.messages.log import LogQuery
from vtrain.output.card import show_failure
from vtrain.output.sinks import RecordSink, TextSink
from vtrain.verdict import raise_verdict


def wait(
    job: JobNameFlag, waiting: TimeoutFlag, interrupt: InterruptFlag, place: PlaceFlags, common: CommonFlags
) -> None:
    """Stay until a custom job ends."""
    wait_for_job(CUSTOM_JOB, job.custom_job, waiting, interrupt, place, common)


def stream_logs(job: JobNameFlag, stream: StreamFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """Print a custom job's log, or a tuning job's."""
    stream_job(WATCHED_JOB, job.custom_job, stream, place, common)


# the same for every kind of job


def wait_for_job(
    kind: ResourceKind,
    text: str,
    waiting: TimeoutFlag,
    interrupt: InterruptFlag,
    place: PlaceFlags,
    common: CommonFlags,
) -> None:
    """Stay until the job that `text` names ends."""
    session = open_session(common, place, name=text, kind=kind)
    name = session.full_name(text, kind)
    on_interrupt = interrupt_action(interrupt.on_interrupt, default=DETACH)
    stay_to_the_end(
        session, name, stream=False, timeout=wait_seconds(waiting.wait_timeout), on_interrupt=on_interrupt
    )


def _interval(text: str) -> int | None:
    """The longest pause between two looks, in seconds; None leaves it to the backend.

    Raises UsageError for what is no number, ConfigError for one without an end.
    """
    if text == "unlimited":
        raise ConfigError("--polling-interval: a log that is never looked at again has no end.")
    return count_or_unlimited(text, "--polling-interval") if text else None


def stream_job(
    kind: ResourceKind, text: str, stream: StreamFlags, place: PlaceFlags, common: CommonFlags
) -> None:
    """Print the log of the job that `text` names, to its end."""
    session = open_session(common, place, name=text, kind=kind)
    name = session.full_name(text, kind)
    multiline = stream.allow_multiline_logs
    if session.console.format is not None:
        sink: TextSink | RecordSink = RecordSink(session.console, multiline=multiline)
    else:
        sink = TextSink(session.console, stderr=False, multiline=multiline)
    interval = _interval(stream.polling_interval)
    order = Stay(
        console=session.console,
        backend=session.backend,
        name=name,
        sink=sink,
        query=LogQuery(name=name, task_name=stream.task_name),
        slowest_poll=interval,
    )
    ended = stay(order)
    show_failure(session.console, ended)
    raise_verdict(ended)
