"""Jobs that wait for room, while commands and supervisors are killed at any moment: none is forgotten."""

from __future__ import annotations

import time

import msgspec
import pytest
from aftermath import check, check_all, check_nothing_left
from lib.waiting import wait_until
from places import Place, on_machine
from victims import kill, supervisors

from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.names import TRAINING_PIPELINES
from vtrain.messages.training_pipeline import TrainingPipeline
from vtrain.messages.training_task import BACKING_JOB, with_task

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

JOBS = 8
KILLS = 30


def on_a_small_machine(job: CustomJob) -> CustomJob:
    return msgspec.structs.replace(job, job_spec=on_machine(job.job_spec, "n1-standard-4"))


@pytest.mark.parametrize(("memory", "most"), [("16g", 1), ("31g", 2)])
def test_killed_in_the_queue(
    process_place: Place, memory: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each job claims 15 GB, so that `most` of them run at once."""
    monkeypatch.setenv("VTRAIN_MEMORY", memory)
    place = process_place
    jobs = [on_a_small_machine(place.job({"lines": 10})) for _ in range(JOBS)]
    for job in jobs:
        if place.chance.random() < 0.6:
            place.submit(job)
            continue
        creation = place.command("custom-jobs", "create", job=job)
        time.sleep(place.chance.uniform(0.3, 3.0))
        creation.kill()
        creation.communicate()
        place.tally.kill("command", "create")
    names = [name for job in jobs if (name := place.named(job.display_name))]
    place.backend.cancel(cancelled := names[-1])
    kill_any(place, names)
    ended = [check(place, name, states.SUCCEEDED) for name in names[:-1]]
    check(place, cancelled, states.CANCELLED, states.SUCCEEDED)
    check_room(ended, most)
    check_all(place)


def test_pipelines_killed_in_the_queue(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task of each pipeline is submitted once, whenever the pipeline's supervisor dies."""
    monkeypatch.setenv("VTRAIN_MEMORY", "16g")
    names = []
    for number in range(JOBS // 2):
        job = on_a_small_machine(place.job({"lines": 10}))
        pipeline = with_task(TrainingPipeline(display_name=f"pipeline{number}"), job)
        names.append(place.backend.submit(place.backend.plan(pipeline)).name)
    kill_any(place, names)
    tasks = []
    for name in names:
        ended = place.backend.get(name)
        assert isinstance(ended, TrainingPipeline) and ended.training_task_metadata is not None
        assert ended.state == states.state_in(TRAINING_PIPELINES, states.SUCCEEDED), ended.error
        tasks.append(ended.training_task_metadata[BACKING_JOB])
    assert sorted(tasks) == sorted(job.name for job in place.jobs())
    assert {job.state for job in place.jobs()} == {states.SUCCEEDED}
    folders = {path.name for path in (place.home / "jobs").iterdir()}
    assert folders == {name.rpartition("/")[2] for name in (*names, *tasks)}
    place.tally.event("pipelines", len(names))
    check_nothing_left(place)


def kill_any(place: Place, names: list[str]) -> None:
    """Kill a supervisor at random, waiting or running, until all jobs have ended."""
    left = KILLS

    def over() -> bool:
        nonlocal left
        victims = sorted(supervisors(place.home))
        if left and victims and place.chance.random() < 0.8 and kill(place.chance.choice(victims)):
            left -= 1
            place.tally.kill("supervisor", "run")
        living = [name for name in names if not states.has_ended(place.backend.get(name).state)]
        return not living

    wait_until(over, pause=place.chance.uniform(0.02, 0.2))


def check_room(jobs: list[CustomJob], most: int) -> None:
    """Never more than `most` ran at once; where it is one, they ran in the order of their submission.

    Of two jobs with a lease the later one may be RUNNING first, when the other's supervisor is killed.
    """
    starts = [job.start_time for job in jobs]
    assert most > 1 or starts == sorted(starts)
    for start in starts:
        assert sum(job.start_time <= start < job.end_time for job in jobs) <= most
