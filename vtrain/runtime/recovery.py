"""The rules for the end of a replica: nothing, a restart of it or of the job, or the job's end. Pure.

Source: Vertex AI, "Understand the custom training service" (replicas, restarts, error handling), and the
API's `Scheduling` message. A comment says where neither settles a question.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import msgspec

from vtrain.messages.custom_job import Scheduling
from vtrain.runtime.folder import ReplicaExit

RESTARTS_PER_REPLICA = 5
"""How often a replica that something else ended is restarted, before the whole job is tried again."""
RESTARTS_PER_JOB = 3
"""How often the whole job is tried again, after crashes and after replicas that were restarted too often; and
how often its preparation is begun again that was killed."""
SPOT_RESTARTS = 6
"""How often a replica is restarted that lost its Spot machine; the job is not tried again then."""
CRASH_EXIT_CODES = (6, 134, 11, 139)
"""SIGABRT and SIGSEGV, as programs and as shells number them: possibly transient, the job is tried again."""
SPOT_STRATEGY = "SPOT"


class Cause(Enum):
    """The cause of a replica's end."""

    DONE = "done"
    PERMANENT = "permanent"
    """The trainer's own error, or no memory: it would happen again."""
    CRASH = "crash"
    OUTSIDE = "outside"
    """Something else ended it: its machine, an engine, a person."""
    PREEMPTED = "preempted"


class Action(Enum):
    """The action that follows."""

    FAIL = "fail"
    RESTART_REPLICA = "restart replica"
    RESTART_ALL = "restart all replicas"
    """Because one of them is restarted, and the job says `restartJobOnWorkerRestart`."""
    RETRY_JOB = "retry job"


class Restart(msgspec.Struct, frozen=True, kw_only=True):
    """One restart: `cause` is the replica whose end brought it about, `replicas` are those that begin again.

    `time` is in seconds since the epoch. `is_retry`: it counts among the tries of the whole job.
    """

    time: float
    cause: str
    replicas: tuple[str, ...]
    reason: str
    is_retry: bool = False


def cause_of(end: ReplicaExit, *, preempted: bool = False) -> Cause:
    """Why a replica ended."""
    if preempted:
        return Cause.PREEMPTED
    if end.interruption:
        return Cause.OUTSIDE
    if end.code == 0:
        return Cause.DONE
    if end.code in CRASH_EXIT_CODES and not end.message:
        return Cause.CRASH
    return Cause.PERMANENT


def action_after(
    cause: Cause, replica: str, restarts: Sequence[Restart], scheduling: Scheduling | None
) -> Action:
    """The action after a replica has ended for that cause; `restarts` are those of the job until now."""
    rules = scheduling or Scheduling()
    # `disableRetries` also forbids restarts after crashes; the API speaks of internal errors only.
    if cause is Cause.PERMANENT or rules.disable_retries:
        return Action.FAIL
    is_spot = cause is Cause.PREEMPTED and rules.strategy == SPOT_STRATEGY
    limit = SPOT_RESTARTS if is_spot else RESTARTS_PER_REPLICA
    if cause is not Cause.CRASH and _own_restarts(replica, restarts) < limit:
        return Action.RESTART_ALL if rules.restart_job_on_worker_restart else Action.RESTART_REPLICA
    if is_spot:
        return Action.FAIL
    tries = sum(restart.is_retry for restart in restarts)
    return Action.RETRY_JOB if tries < RESTARTS_PER_JOB else Action.FAIL


def attempt_of(replica: str, restarts: Sequence[Restart]) -> int:
    """The number of a replica's present attempt; the first is 0."""
    return sum(replica in restart.replicas for restart in restarts)


def _own_restarts(replica: str, restarts: Sequence[Restart]) -> int:
    """How often this replica was the one to be restarted, since the job was tried last."""
    count = 0
    for restart in restarts:
        if restart.is_retry:
            count = 0  # it has its restarts again: not documented
        elif restart.cause == replica:
            count += 1
    return count
