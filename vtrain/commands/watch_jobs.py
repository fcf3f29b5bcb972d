"""`vtrain custom-jobs` that stay with a job: wait and stream-logs."""

from __future__ import annotations

from vtrain.commands.session import open_session
from vtrain.commands.watching import (
    DETACH,
    Stay,
    interrupt_action,
    stay,
    stay_to_the_end,
    wait_seconds,
)
from vtrain.flags.grammar import count_or_unlimited
from vtrain.flags.options import CommonFlags, InterruptFlag, JobNameFlag, PlaceFlags, StreamFlags, TimeoutFlag
from vtrain.messages.log import LogQuery
from vtrain.output.card import show_failure
from vtrain.output.sinks import RecordSink, TextSink
from vtrain.verdict import raise_verdict


def wait(
    job: JobNameFlag, waiting: TimeoutFlag, interrupt: InterruptFlag, place: PlaceFlags, common: CommonFlags
) -> None:
    """Stay until a custom job ends; its state decides the exit code."""
    session = open_session(common, place, name=job.custom_job)
    name = session.full_name(job.custom_job)
    on_interrupt = interrupt_action(interrupt.on_interrupt, default=DETACH)
    stay_to_the_end(
        session, name, stream=False, timeout=wait_seconds(waiting.wait_timeout), on_interrupt=on_interrupt
    )


def stream_logs(job: JobNameFlag, stream: StreamFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """Print a custom job's log, from its first line to its last; the job's state decides the exit code."""
    session = open_session(common, place, name=job.custom_job)
    name = session.full_name(job.custom_job)
    multiline = stream.allow_multiline_logs
    if session.console.format is not None:
        sink: TextSink | RecordSink = RecordSink(session.console, multiline=multiline)
    else:
        sink = TextSink(session.console, stderr=False, multiline=multiline)
    interval = count_or_unlimited(stream.polling_interval or "unlimited", "--polling-interval")
    order = Stay(
        console=session.console,
        backend=session.backend,
        name=name,
        sink=sink,
        query=LogQuery(name=name, task_name=stream.task_name),
        slowest_poll=min(float(interval), 0.15) if interval and session.is_local else interval,
    )
    ended = stay(order)
    show_failure(session.console, ended)
    raise_verdict(ended)
