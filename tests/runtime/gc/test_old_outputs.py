"""The output of ended jobs that named no folder for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from vtrain.runtime.default_output import BUCKET

NAME = "digits-1234567890123456789"


@pytest.fixture
def output(home) -> Path:
    """The output of a job that ended long ago."""
    folder = home.path / "buckets" / "local-runs" / NAME
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "weights").write_bytes(b"x" * 100)
    return home.age(folder)


def kept(home) -> list[str]:
    return [candidate.kept for candidate in home.found("output")]


def test_what_nobody_writes_to_goes(home, output: Path) -> None:
    home.job(1, "RUNNING", output=f"{BUCKET}/{NAME}-2")
    (candidate,) = home.found("output")
    assert (candidate.id, candidate.size, candidate.kept, candidate.discard()) == (NAME, 100, "", "")
    assert not output.exists()


@pytest.mark.parametrize("below", ["", "/", "/model", "/again/and/again"])
def test_what_a_living_job_writes_to_stays(home, output: Path, below: str) -> None:
    home.job(1, "RUNNING", output=f"{BUCKET}/{NAME}{below}")
    assert kept(home) == ["a job uses it"]
    assert output.exists()
