"""The states of a job (`job_state.proto` and `pipeline_state.proto` of `google/cloud/aiplatform/v1`)."""

from __future__ import annotations

from vtrain.messages.names import TRAINING_PIPELINES

QUEUED = "JOB_STATE_QUEUED"
PENDING = "JOB_STATE_PENDING"
RUNNING = "JOB_STATE_RUNNING"
SUCCEEDED = "JOB_STATE_SUCCEEDED"
FAILED = "JOB_STATE_FAILED"
CANCELLING = "JOB_STATE_CANCELLING"
CANCELLED = "JOB_STATE_CANCELLED"
PAUSED = "JOB_STATE_PAUSED"
EXPIRED = "JOB_STATE_EXPIRED"
PARTIALLY_SUCCEEDED = "JOB_STATE_PARTIALLY_SUCCEEDED"
UPDATING = "JOB_STATE_UPDATING"

ENDED = frozenset({SUCCEEDED, FAILED, CANCELLED, EXPIRED, PARTIALLY_SUCCEEDED})
KNOWN = ENDED | {QUEUED, PENDING, RUNNING, CANCELLING, PAUSED, UPDATING}
"""All states of a job, without `JOB_STATE_UNSPECIFIED`."""
ENDED_TRIAL = ("SUCCEEDED", "INFEASIBLE")
"""The states of a trial that has ended: all that vtrain gives one."""
UNSUCCESSFUL = frozenset({FAILED, CANCELLING, CANCELLED, EXPIRED})
"""The states of a job that has not succeeded, and will not."""


def job_state(state: str) -> str:
    """The job state of a state; a training pipeline's begins with `PIPELINE_STATE_`."""
    return state.replace("PIPELINE_STATE_", "JOB_STATE_")


def state_in(collection: str, state: str) -> str:
    """The state of a job, as a resource of that collection tells it."""
    return state.replace("JOB_STATE_", "PIPELINE_STATE_") if collection == TRAINING_PIPELINES else state


def names_of(state: str) -> tuple[str, ...]:
    """All names of a state that the APIs use, for one with or without its prefix, in capitals or not."""
    full = f"JOB_STATE_{short(state.upper())}"
    return (state, full, state_in(TRAINING_PIPELINES, full)) if full in KNOWN else (state,)


def has_ended(state: str) -> bool:
    """Whether a job in this state will never change again."""
    return job_state(state) in ENDED


def short(state: str) -> str:
    """The state without its prefix: `RUNNING`."""
    return job_state(state).removeprefix("JOB_STATE_")
