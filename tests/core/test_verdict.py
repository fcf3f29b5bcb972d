from __future__ import annotations

from typing import Any

import pytest

from vtrain import errors
from vtrain.core.verdict import (
    DEBUG_INFO,
    ERROR_INFO,
    Failure,
    failure_of,
    raise_local_verdict,
    raise_verdict,
)
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.structs import Status

TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/t/task.py", line 3, in <module>',
    "ValueError: no",
]


def job(state: str, *details: dict[str, Any], message: str = "") -> CustomJob:
    error = Status(code=3, message=message, details=details) if details or message else None
    return CustomJob(name="projects/local/locations/us-central1/customJobs/1", state=state, error=error)


def failed(exit_code: str = "1", **metadata: str) -> CustomJob:
    info = {"@type": ERROR_INFO, "metadata": {"replica": "workerpool0-0", "exitCode": exit_code, **metadata}}
    return job(states.FAILED, info, {"@type": DEBUG_INFO, "stackEntries": TRACEBACK}, message="It failed.")


def code(verdict: Any, ended: CustomJob) -> int:
    try:
        verdict(ended)
    except errors.VtrainError as error:
        return error.exit_code
    return 0


@pytest.mark.parametrize(
    ("ended", "watched", "local"),
    [
        (job(states.SUCCEEDED), 0, 0),
        (job(states.PARTIALLY_SUCCEEDED), 0, 0),
        (failed("1"), 10, 1),
        (failed("7"), 10, 7),
        (failed("137"), 10, 137),
        (failed("-15"), 10, 143),
        (job(states.FAILED, message="The environment could not be made."), 10, 125),
        (job(states.CANCELLED, message="CANCELED"), 11, 11),
        (job(states.EXPIRED, message="The job ran into its timeout."), 11, 11),
    ],
)
def test_exit_codes(ended: CustomJob, watched: int, local: int) -> None:
    assert code(raise_verdict, ended) == watched
    assert code(raise_local_verdict, ended) == local


def test_one_jobs_exit_code_is_not_the_next_ones() -> None:
    assert code(raise_local_verdict, failed("7")) == 7
    assert errors.JobFailedError.exit_code == 10
    assert code(raise_verdict, failed("7")) == 10


def test_the_failure_is_what_the_job_says() -> None:
    failure = failure_of(failed("137", file="/t/task.py", line="3", log="/t/log", hint="Do less."))
    assert failure == Failure(
        replica="workerpool0-0",
        exit_code=137,
        message="It failed.",
        traceback=tuple(TRACEBACK),
        file="/t/task.py",
        line="3",
        log="/t/log",
        hint="Do less.",
    )
    assert "SIGKILL" in failure.meaning


def test_a_well_known_cause_gets_its_hint_here() -> None:
    info = {"@type": ERROR_INFO, "metadata": {"replica": "workerpool0-0", "exitCode": "1"}}
    trace = {"@type": DEBUG_INFO, "stackEntries": ["ModuleNotFoundError: No module named 'sklearn'"]}
    failure = failure_of(job(states.FAILED, info, trace))
    assert failure is not None and "scikit-learn" in failure.hint


def test_an_answer_without_details_is_still_a_failure() -> None:
    failure = failure_of(job(states.FAILED, message="INTERNAL"))
    assert failure is not None and (failure.exit_code, failure.meaning) == (None, "")
    assert failure_of(job(states.SUCCEEDED)) is None
    assert failure_of(job(states.CANCELLED, message="CANCELED")) is None


def test_the_end_of_a_job_is_told_by_its_summary_and_not_once_more() -> None:
    for state in (states.CANCELLED, states.EXPIRED):
        with pytest.raises(errors.JobCancelledError) as caught:
            raise_verdict(job(state, message="CANCELED"))
        assert (caught.value.message, caught.value.hint, caught.value.exit_code) == ("", "", 11)


def test_the_table_of_exit_codes() -> None:
    table = {
        cls.exit_code
        for cls in errors.__dict__.values()
        if isinstance(cls, type) and issubclass(cls, errors.VtrainError)
    }
    assert table == {1, 2, 10, 11, 12, 124, 125, 129, 130, 141, 143}
