"""The end of a `create`: messages about the new job, and waiting until it ends if that was requested."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from vtrain.commands.kinds import ResourceKind
from vtrain.commands.references import command_about, shown_name
from vtrain.commands.session import Session, resource_document
from vtrain.commands.watching import DETACH, come_back, interrupt_action, stay_to_the_end, wait_seconds
from vtrain.errors import UsageError
from vtrain.flags.options import InterruptFlag, WaitFlags
from vtrain.output.colours import name

if TYPE_CHECKING:
    from vtrain.messages.resources import Job


class Staying(msgspec.Struct, frozen=True, kw_only=True):
    """The wish to wait for a new job, with its log or without; `timeout` is in seconds, None for no limit."""

    stays: bool
    stream: bool
    timeout: float | None
    on_interrupt: str


def read_staying(waiting: WaitFlags, interrupt: InterruptFlag) -> Staying:
    """Read the flags. Raises UsageError for a time to wait without --wait or --stream-logs."""
    on_interrupt = interrupt_action(interrupt.on_interrupt, default=DETACH)
    timeout = wait_seconds(waiting.wait_timeout)
    stays = waiting.stream_logs or waiting.wait
    if timeout is not None and not stays:
        raise UsageError("--wait-timeout goes with --wait or --stream-logs.")
    return Staying(stays=stays, stream=waiting.stream_logs, timeout=timeout, on_interrupt=on_interrupt)


def show_created(
    session: Session, kind: ResourceKind, job: Job, staying: Staying, *, new: bool = True
) -> None:
    """Say that the job is there, and print it: at once, or at its end, which then decides the exit code.

    A job that is not `new` was made by an earlier run with the same idempotency key.
    """
    log_command, _ = come_back(job.name).splitlines()
    done = "is submitted successfully" if new else "was submitted with this key before, and is taken as it is"
    session.console.status(f"{kind.noun} [", name(shown_name(job.name)), f"] {done}.")
    session.console.progress(f"\n$ {command_about(job.name, 'describe')}\n{log_command}\n")
    if not staying.stays:
        session.console.result(resource_document(job))
        return
    stay_to_the_end(
        session,
        job.name,
        stream=staying.stream,
        timeout=staying.timeout,
        on_interrupt=staying.on_interrupt,
    )
