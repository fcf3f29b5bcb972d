"""Trainers that misbehave at full volume, while their supervisors are killed."""

from __future__ import annotations

import pytest
from aftermath import check_all
from lib import hostile_trainers as hostile
from lib.hostile_trainers import Trainer
from places import Place
from victims import kill_supervisor

from vtrain.messages import states

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

LINES = 1_000_000
BYTES = 200 * 1024 * 1024
ATTEMPTS_OF_A_CRASH = 4


def test_at_full_volume(place: Place) -> None:
    trainers = [
        *(hostile.many_lines(LINES), hostile.one_long_line(BYTES), hostile.grandchildren(5)),
        *(hostile.closed_output(1000), hostile.at_once(), hostile.crashing(100)),
    ]
    names = [place.submit(place.job(code=trainer.code)) for trainer in trainers]
    for name in place.chance.sample(names, 4):
        kill_supervisor(place, name)
    for name, trainer in zip(names, trainers, strict=True):
        check_end(place, name, trainer)
    check_all(place)


def check_end(place: Place, name: str, trainer: Trainer) -> None:
    """The verdict is the trainer's, and every attempt's output is there, byte for byte."""
    job = place.ended(name)
    assert job.state == (states.FAILED if trainer.exit_code else states.SUCCEEDED), job.error
    attempts = ATTEMPTS_OF_A_CRASH if trainer.exit_code == 139 else 1
    for attempt in range(attempts if trainer.stdout is not None else 0):
        hostile.check_stdout(place.backend, name, trainer, attempt=attempt)
        assert trainer.stdout is not None
        lines = sum(piece.count(b"\n") for piece in trainer.stdout())
        place.tally.add("lines expected", lines)
        place.tally.add("lines found", lines)
    place.tally.add("jobs")
    place.tally.add("restarts", attempts - 1)
