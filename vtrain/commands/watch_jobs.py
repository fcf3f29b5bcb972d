"""The commands of each group that wait for a job: wait and stream-logs."""

from __future__ import annotations

from vtrain.backends.pager import log_pages
from vtrain.commands.conclusion import conclude
from vtrain.commands.kinds import ResourceKind
from vtrain.commands.session import Session, open_named
from vtrain.commands.watching import (
    DETACH,
    Stay,
    interrupt_action,
    stay,
    stay_to_the_end,
    text_sink,
    wait_seconds,
)
from vtrain.core.verdict import raise_verdict
from vtrain.errors import ConfigError
from vtrain.flags.grammar import count_or_unlimited
from vtrain.flags.options import (
    CommonFlags,
    FollowFlag,
    InterruptFlag,
    NameFlag,
    PlaceFlags,
    StreamFlags,
    TimeoutFlag,
)
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogQuery
from vtrain.output.log_sinks import LogSink, RecordSink
from vtrain.runtime.folder import SERVICE
from vtrain.runtime.replica.vertex_view import replica_ids


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
    session, name = open_named(common, place, job.text, kind, about_running=True)
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


def stream_logs(
    job: NameFlag, stream: StreamFlags, place: PlaceFlags, common: CommonFlags, *, kind: ResourceKind
) -> None:
    """Print a job's log, to its end."""
    session, name = open_named(common, place, job.text, kind, about_running=True)
    sink = _log_sink(session, stream)
    interval = _interval(stream.polling_interval)
    _warn_of_task(session, name, stream.task_name)
    order = Stay(
        console=session.console,
        backend=session.jobs,
        name=name,
        sink=sink,
        query=LogQuery(name=name, task_name=stream.task_name),
        slowest_poll=interval,
    )
    ended = stay(order)
    conclude(session, ended)
    raise_verdict(ended)


def _log_sink(session: Session, stream: StreamFlags) -> LogSink:
    """The sink that prints a log on stdout, as text or in `--format`."""
    if session.console.format is not None:
        return RecordSink(session.console, multiline=stream.allow_multiline_logs)
    return text_sink(session, stderr=False, multiline=stream.allow_multiline_logs)


def _warn_of_task(session: Session, name: str, task: str) -> None:
    """Warn of a `--task-name` that a job of this machine does not have: its log would be silent."""
    job = session.jobs.get(name) if task and session.is_local else None
    if isinstance(job, CustomJob):  # other kinds have the tasks of jobs of their own
        names = [member.name for member in replica_ids(job.job_spec)]
        if task not in (*names, SERVICE):
            more = f" to {names[-1]}" if len(names) > 1 else ""
            session.console.warn(f"The job has no task {task}. It has {names[0]}{more}, and {SERVICE}.")


def logs(
    job: NameFlag,
    follow: FollowFlag,
    stream: StreamFlags,
    place: PlaceFlags,
    common: CommonFlags,
    *,
    kind: ResourceKind,
) -> None:
    """Print a job's log as far as it goes, or follow it to its end."""
    if follow.follow:
        stream_logs(job, stream, place, common, kind=kind)
        return
    _interval(stream.polling_interval)
    session, name = open_named(common, place, job.text, kind)
    sink = _log_sink(session, stream)
    _warn_of_task(session, name, stream.task_name)
    query = LogQuery(name=name, task_name=stream.task_name)
    troubles: list[str] = []
    try:
        for page in log_pages(session.jobs.logs, query):
            sink.show(page.entries)
            if page.trouble and page.trouble not in troubles:
                troubles.append(page.trouble)
    finally:
        sink.close()
    for trouble in troubles:
        session.console.warn(trouble)
