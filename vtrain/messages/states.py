"""The states of a job (`google/cloud/aiplatform/v1/job_state.proto`)."""

from __future__ import annotations

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

ENDED = frozenset({SUCCEEDED, FAILED, CANCELLED, EXPIRED, PARTIALLY_SUCCEEDED})


def has_ended(state: str) -> bool:
    """Whether a job in this state will never change again."""
    return state in ENDED


def short(state: str) -> str:
    """The state as people say it: `RUNNING`."""
    return state.removeprefix("JOB_STATE_")
