"""`vtrain run` in a project on a terminal: its job, and what is wrong in pyproject.toml."""

from __future__ import annotations

from pathlib import Path

from terminal.conftest import Golden, Start, Trainer

JOB = '[tool.vtrain.job]\nscript = "train.py"\nargs = ["--epochs=3"]\nenv = { LEVEL = "debug" }\n'


def test_the_projects_job(start: Start, place: Path, trainer: Trainer, golden: Golden) -> None:
    trainer('print(sys.argv[1:], os.environ["LEVEL"])\n')
    (place / "pyproject.toml").write_text(JOB)
    terminal = start("run")
    assert terminal.end() == 0
    golden("project-run", terminal)


def test_a_key_that_is_wrong(start: Start, place: Path, trainer: Trainer, golden: Golden) -> None:
    trainer("print(1)\n")
    (place / "pyproject.toml").write_text(JOB + 'machine_type = "n1-standard-4"\n')
    terminal = start("run")
    assert terminal.end() == 1
    golden("project-wrong-key", terminal)
