"""The result of an ended job: its failure, and the exit code for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from vtrain.errors import JobCancelledError, JobFailedError, LocalRunError
from vtrain.failure import hint as hint_for
from vtrain.failure import meaning
from vtrain.messages import states
from vtrain.messages.codec import from_document, to_document
from vtrain.messages.secrets import is_made_here, masked_document
from vtrain.messages.structs import Status

if TYPE_CHECKING:
    from vtrain.messages.resources import Job

ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_EXPLAINED = ("OUT_OF_MEMORY", "START_FAILED", "REPLICA_INTERRUPTED")
DEBUG_INFO = "type.googleapis.com/google.rpc.DebugInfo"


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """The cause of a job's failure, read from the job's `error`.

    `exit_code` is that of the replica that failed first, None if it never ran. With `explained`, the message
    itself is the cause, and no quotation of the trainer's output.
    """

    replica: str = ""
    exit_code: int | None = None
    message: str = ""
    traceback: tuple[str, ...] = ()
    file: str = ""
    line: str = ""
    log: str = ""
    hint: str = ""
    explained: bool = False

    @property
    def meaning(self) -> str:
        """The meaning of the exit code, in words."""
        return meaning(self.exit_code) if self.exit_code is not None else ""

    def headline(self, *, is_alone: bool = False) -> str:
        """What failed, in one line; a job whose only replica this was needs no name of it."""
        if self.replica and self.exit_code is not None and not self.explained:
            how = f"exit code {self.exit_code}: {self.meaning}."
            return how if is_alone else f"{self.replica} failed first, with {how}"
        first = self.message.partition("\n")[0].rstrip()  # of a trial that failed, in the service's words
        return first.removesuffix(" Termination reason: Error.") or "the job failed."


def failure_of(job: Job) -> Failure | None:
    """The failure in a job's `error`, with secrets masked; None for a job that did not fail."""
    if job.error is None or states.job_state(job.state) != states.FAILED:
        return None
    error = job.error
    if is_made_here(job):  # the secrets of the job's variables may be in it
        error = from_document(Status, masked_document(to_document(job))["error"])
    detail = _detail(error, ERROR_INFO)
    info: dict[str, str] = detail.get("metadata", {})
    trace = tuple(_detail(error, DEBUG_INFO).get("stackEntries", ()))
    # The error may be a service's or a plug-in's: nothing in its details is certain.
    given = str(info.get("exitCode", ""))
    code = int(given) if re.fullmatch(r"-?[0-9]{1,9}", given) else None
    return Failure(
        replica=info.get("replica", ""),
        exit_code=code,
        message=error.message,
        traceback=trace,
        file=info.get("file", ""),
        line=info.get("line", ""),
        log=info.get("log", ""),
        explained=detail.get("reason", "") in _EXPLAINED,
        hint=info.get("hint") or hint_for("\n".join(trace) or error.message, code),
    )


class ReplicaUse(msgspec.Struct, frozen=True, kw_only=True):
    """The exit codes of a local job's replica, its peak memory in bytes and its processor time in seconds."""

    name: str
    exit_codes: tuple[int, ...]
    peak_memory_bytes: int
    cpu_seconds: float


def replica_uses(job: Job) -> tuple[ReplicaUse, ...]:
    """The replicas of a job that ran on this machine; empty for any other job."""
    return tuple(_replica_use(record) for record in (job.answer or {}).get("replicas", ()))


def _replica_use(record: dict[str, Any]) -> ReplicaUse:
    attempts = record["attempts"]
    return ReplicaUse(
        name=record["name"],
        exit_codes=tuple(attempt["exitCode"] for attempt in attempts if "exitCode" in attempt),
        peak_memory_bytes=max((attempt.get("peakMemoryBytes", 0) for attempt in attempts), default=0),
        cpu_seconds=sum(attempt.get("cpuSeconds", 0.0) for attempt in attempts),
    )


def _detail(error: Status, kind: str) -> dict[str, Any]:
    return next((detail for detail in error.details if detail.get("@type") == kind), {})


def raise_verdict(job: Job, message: str = "") -> None:
    """Return for a job that succeeded, else raise an error with that message.

    On the command line it is empty: the summary says how the job ended, and the exit code counts.
    """
    state = states.job_state(job.state)
    if state in (states.SUCCEEDED, states.PARTIALLY_SUCCEEDED):
        return
    if state == states.FAILED:
        raise JobFailedError(message)
    raise JobCancelledError(message)


def raise_local_verdict(job: Job) -> None:
    """The same for `local-run`, whose exit code is that of the replica that failed first."""
    failure = failure_of(job)
    if failure is not None and failure.exit_code is not None:
        error = JobFailedError("")
        code = failure.exit_code
        error.exit_code = code if code > 0 else 128 - code  # type: ignore[misc]
        raise error
    if job.state == states.FAILED:
        raise LocalRunError("")
    raise_verdict(job)
