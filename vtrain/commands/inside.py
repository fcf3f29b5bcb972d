"""Looking into a running job: a command or a shell in one of its replicas."""

from __future__ import annotations

import sys

from vtrain.backends import HostBackend, HostedJob, RunningReplica
from vtrain.backends.registry import running_replicas
from vtrain.commands.references import command_about, ended_log_command, shown_name
from vtrain.commands.session import Session, open_named
from vtrain.errors import CommandError, ConfigError, ConflictError, UnavailableError, UsageError
from vtrain.flags.options import CommonFlags, JobNameFlag, PlaceFlags, TaskFlag
from vtrain.messages.states import CANCELLING, has_ended, short


def execute(
    job: JobNameFlag,
    task: TaskFlag,
    place: PlaceFlags,
    common: CommonFlags,
    remainder: tuple[str, ...] | None,
) -> None:
    """Run a command in a replica, and end with its exit code."""
    if not remainder or not remainder[0]:
        raise UsageError(
            "exec needs a command.", hint=f"Put it after --: vtrain exec {job.text} -- nvidia-smi"
        )
    session, name = open_named(common, place, job.text, about_running=True)
    _run(find_replica(session, name, task.task_name), remainder)


def shell(job: JobNameFlag, task: TaskFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Open a shell in a replica, and end with its exit code."""
    session, name = open_named(common, place, job.text, about_running=True)
    replica = find_replica(session, name, task.task_name)
    if _has_terminal():
        session.console.progress(f"A shell in {replica.name}. It ends with `exit`; the job goes on.")
    _run(replica, replica.shell)


def find_replica(session: Session, name: str, task_name: str) -> RunningReplica:
    """The running replica of that name, by default the primary.

    Raises UnavailableError where the job runs elsewhere, ConflictError where it does not run now, ConfigError
    where it has no such replica.
    """
    hosted = find_hosted(session, name)
    replicas = running_replicas(hosted)
    if not replicas:
        raise not_running(hosted)
    found = next((replica for replica in replicas if task_name in ("", replica.name)), None)
    if found is None:
        running = ", ".join(replica.name for replica in replicas)
        raise ConfigError(f"No replica {task_name} of the job runs.", hint=f"Running: {running}.")
    return found


def find_hosted(session: Session, name: str) -> HostedJob:
    """The job, if it runs on this machine. Raises UnavailableError for any other."""
    if not isinstance(session.jobs, HostBackend):
        message = f"Jobs on {session.backend.name} do not run on this machine: vtrain cannot look into them."
        raise UnavailableError(message, hint=session.backend.no_entry_hint)
    return session.jobs.hosted(name)


def not_running(hosted: HostedJob) -> ConflictError:
    """The error for a job without a running replica."""
    name, state = hosted.job.name, short(hosted.job.state)
    job_id = shown_name(name).rpartition("/")[2]
    if has_ended(hosted.job.state):
        hint = f"Its log:\n$ {ended_log_command(name)}"
        return ConflictError(f"Job {job_id} has ended ({state}): no replica of it runs.", hint=hint)
    if hosted.job.state == CANCELLING:
        hint = f"Its log:\n$ {command_about(name, 'stream-logs')}"
        message = f"Job {job_id} is being cancelled: no replica of it runs any more."
        return ConflictError(message, hint=hint)
    return ConflictError(
        f"Job {job_id} is {state}: no replica of it runs yet.", hint="Try again in a moment."
    )


def _run(replica: RunningReplica, argv: tuple[str, ...]) -> None:
    """Run a command. Raises CommandError with its code, unless that is 0."""
    sys.stdout.flush()
    code = replica.execute(argv, terminal=_has_terminal())
    if code:
        raise CommandError("", code)


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()
