"""The rules of restarts, and what a job remembers of them."""

from __future__ import annotations

import pytest

from vtrain.messages.custom_job import Scheduling
from vtrain.runtime.folder import ReplicaExit
from vtrain.runtime.recovery import (
    CRASH_EXIT_CODES,
    RESTARTS_PER_JOB,
    RESTARTS_PER_REPLICA,
    SPOT_RESTARTS,
    Action,
    Cause,
    Restart,
    action_after,
    attempt_of,
    cause_of,
)

NAMES = ("workerpool0-0", "workerpool1-0", "workerpool1-1")


def exit_of(code: int, **fields: object) -> ReplicaExit:
    return ReplicaExit(code=code, started=1.0, ended=2.0, **fields)  # type: ignore[arg-type]


def follow(cause: Cause, replica: str, scheduling: Scheduling | None = None) -> list[Action]:
    """What is done when the same happens to the same replica again and again, up to the end."""
    restarts: list[Restart] = []
    actions = []
    while True:
        action = action_after(cause, replica, restarts, scheduling)
        actions.append(action)
        if action is Action.FAIL:
            return actions
        restarts.append(
            Restart(
                time=0.0,
                cause=replica,
                replicas=(replica,) if action is Action.RESTART_REPLICA else NAMES,
                reason="",
                is_retry=action is Action.RETRY_JOB,
            )
        )


@pytest.mark.parametrize(
    ("end", "cause"),
    [
        (exit_of(0), Cause.DONE),
        (exit_of(1), Cause.PERMANENT),
        (exit_of(137, oom=True), Cause.PERMANENT),
        (exit_of(137), Cause.PERMANENT),
        (exit_of(255, interruption="the engine was stopped"), Cause.OUTSIDE),
        (exit_of(0, interruption="the engine was stopped"), Cause.OUTSIDE),
        (exit_of(139, signal=11), Cause.CRASH),
        (exit_of(126, message="Permission denied"), Cause.PERMANENT),
        *((exit_of(code), Cause.CRASH) for code in CRASH_EXIT_CODES),
    ],
)
def test_why_a_replica_ended(end: ReplicaExit, cause: Cause) -> None:
    assert cause_of(end) is cause


def test_a_preempted_replica_has_not_failed_whatever_its_code() -> None:
    assert {cause_of(exit_of(code), preempted=True) for code in (0, 1, 143)} == {Cause.PREEMPTED}


def test_an_error_of_the_trainer_is_permanent() -> None:
    assert follow(Cause.PERMANENT, NAMES[1]) == [Action.FAIL]


def test_a_crash_has_the_whole_job_tried_again() -> None:
    assert follow(Cause.CRASH, NAMES[1]) == [Action.RETRY_JOB] * RESTARTS_PER_JOB + [Action.FAIL]


def test_an_end_from_outside_restarts_the_replica_and_then_the_job() -> None:
    one_try = [Action.RESTART_REPLICA] * RESTARTS_PER_REPLICA
    assert follow(Cause.OUTSIDE, NAMES[1]) == (
        [*one_try, Action.RETRY_JOB] * RESTARTS_PER_JOB + one_try + [Action.FAIL]
    )


def test_spot_machines_are_given_back_more_often() -> None:
    actions = follow(Cause.PREEMPTED, NAMES[1], Scheduling(strategy="SPOT"))
    assert actions == [Action.RESTART_REPLICA] * SPOT_RESTARTS + [Action.FAIL]


def test_restart_job_on_worker_restart() -> None:
    actions = follow(Cause.OUTSIDE, NAMES[1], Scheduling(restart_job_on_worker_restart=True))
    assert actions[: RESTARTS_PER_REPLICA + 1] == [Action.RESTART_ALL] * RESTARTS_PER_REPLICA + [
        Action.RETRY_JOB
    ]


@pytest.mark.parametrize("cause", [Cause.CRASH, Cause.OUTSIDE, Cause.PREEMPTED])
def test_disabled_retries_allow_none(cause: Cause) -> None:
    scheduling = Scheduling(disable_retries=True, restart_job_on_worker_restart=True)
    assert follow(cause, NAMES[0], scheduling) == [Action.FAIL]


def test_the_restarts_of_one_replica_are_not_those_of_another() -> None:
    used = [
        Restart(time=0.0, cause=NAMES[1], replicas=(NAMES[1],), reason="")
        for _ in range(RESTARTS_PER_REPLICA)
    ]
    assert action_after(Cause.OUTSIDE, NAMES[1], used, None) is Action.RETRY_JOB
    assert action_after(Cause.OUTSIDE, NAMES[2], used, None) is Action.RESTART_REPLICA
    assert [attempt_of(name, used) for name in NAMES] == [0, RESTARTS_PER_REPLICA, 0]


def test_the_numbers_of_the_documentation() -> None:
    """Written out: a rule that is compared with its own constant cannot fail."""
    one_try = [Action.RESTART_REPLICA] * 5
    assert follow(Cause.OUTSIDE, NAMES[1]) == [*one_try, Action.RETRY_JOB] * 3 + one_try + [Action.FAIL]
    assert follow(Cause.PREEMPTED, NAMES[1]) == follow(Cause.OUTSIDE, NAMES[1])
    assert follow(Cause.CRASH, NAMES[1]) == [Action.RETRY_JOB] * 3 + [Action.FAIL]
    spot = Scheduling(strategy="SPOT")
    assert follow(Cause.PREEMPTED, NAMES[1], spot) == [Action.RESTART_REPLICA] * 6 + [Action.FAIL]
    assert follow(Cause.OUTSIDE, NAMES[1], spot) == follow(Cause.OUTSIDE, NAMES[1])
    assert follow(Cause.CRASH, NAMES[1], spot) == [Action.RETRY_JOB] * 3 + [Action.FAIL]
    assert [code for code in range(256) if cause_of(exit_of(code)) is Cause.CRASH] == [6, 11, 134, 139]


@pytest.mark.parametrize("code", [6, 11, 134, 139])
def test_a_program_that_could_not_begin_has_not_crashed(code: int) -> None:
    assert cause_of(exit_of(code, message="No such file or directory")) is Cause.PERMANENT
    assert cause_of(exit_of(code, interruption="the engine was stopped")) is Cause.OUTSIDE


def test_restarts_of_all_replicas_count_for_the_one_that_brought_them_about() -> None:
    whole = Scheduling(restart_job_on_worker_restart=True)
    used = [Restart(time=0.0, cause=NAMES[1], replicas=NAMES, reason="") for _ in range(5)]
    assert action_after(Cause.OUTSIDE, NAMES[1], used, whole) is Action.RETRY_JOB
    assert action_after(Cause.OUTSIDE, NAMES[2], used, whole) is Action.RESTART_ALL
    assert action_after(Cause.CRASH, NAMES[1], used, whole) is Action.RETRY_JOB
    assert [attempt_of(name, used) for name in NAMES] == [5, 5, 5]


def test_a_retry_counts_for_no_replica_and_gives_each_its_restarts_again() -> None:
    retry = Restart(time=0.0, cause=NAMES[1], replicas=NAMES, reason="", is_retry=True)
    one = Restart(time=0.0, cause=NAMES[1], replicas=(NAMES[1],), reason="")
    assert (
        action_after(Cause.OUTSIDE, NAMES[1], [*[one] * 5, retry, *[one] * 4], None) is Action.RESTART_REPLICA
    )
    assert action_after(Cause.OUTSIDE, NAMES[1], [*[one] * 5, retry, *[one] * 5], None) is Action.RETRY_JOB
    assert action_after(Cause.OUTSIDE, NAMES[1], [retry, retry, retry, *[one] * 5], None) is Action.FAIL
    assert action_after(Cause.CRASH, NAMES[1], [retry, retry, *[one] * 5], None) is Action.RETRY_JOB


def test_an_error_of_the_trainer_is_permanent_however_the_job_is_scheduled() -> None:
    for scheduling in (None, Scheduling(restart_job_on_worker_restart=True), Scheduling(strategy="SPOT")):
        assert action_after(Cause.PERMANENT, NAMES[0], [], scheduling) is Action.FAIL
