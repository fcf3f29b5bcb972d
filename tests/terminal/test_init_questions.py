"""`vtrain init` on a terminal: four questions, and what is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.pseudo_terminal import CTRL_C, CTRL_D
from terminal.conftest import Golden, Start

from vtrain.pyproject import read_pyproject


@pytest.fixture
def project(place: Path) -> Path:
    (place / "trainer").mkdir()
    (place / "trainer" / "__init__.py").touch()
    (place / "trainer" / "task.py").write_text("import sklearn\n")
    (place / "train.py").write_text("print(1)\n")
    return place


def test_the_questions(start: Start, project: Path, golden: Golden) -> None:
    terminal = start("init", lines=40)
    terminal.wait_for("starts the trainer [train.py]:")
    terminal.press("trainer.tusk\n")
    terminal.wait_for("/project.\nModule or file that starts the trainer [train.py]:")
    terminal.press("trainer.task\n")
    terminal.wait_for("Vertex AI too? [y/N]:")
    terminal.press("y\n")
    terminal.wait_for("Image that it runs in")
    terminal.press("\n")
    terminal.wait_for("(empty: none yet):")
    terminal.press("my-bucket\n")
    assert terminal.end() == 0
    golden("init", terminal)
    job = read_pyproject(project / "pyproject.toml").settings.job
    assert job is not None
    assert (job.module, job.machine_type, job.bucket) == ("trainer.task", "n1-standard-4", "gs://my-bucket")
    assert job.image.endswith("/sklearn-cpu.1-6:latest")


def test_a_file_that_is_made_meanwhile_is_kept(start: Start, project: Path) -> None:
    """Another tool may set the project up while the questions wait for their answers."""
    terminal = start("init")
    terminal.wait_for("starts the trainer [train.py]:")
    (project / "pyproject.toml").write_text('[project]\nname = "digits"\n')
    terminal.press("\n")
    terminal.wait_for("Vertex AI too? [y/N]:")
    terminal.press("n\n")
    assert terminal.end() == 0
    text = (project / "pyproject.toml").read_text()
    assert text.startswith('[project]\nname = "digits"\n\n[tool.vtrain.job]\nscript = "train.py"\n')


@pytest.mark.parametrize(
    ("key", "code", "last"), [(CTRL_C, 130, "^CInterrupted."), (CTRL_D, 1, "\nERROR: Nothing was written.")]
)
def test_an_end_in_the_middle_writes_nothing(
    start: Start, project: Path, key: str, code: int, last: str
) -> None:
    terminal = start("init")
    terminal.wait_for("starts the trainer [train.py]:")
    terminal.press(key)
    assert terminal.end() == code
    assert terminal.transcript.endswith(last)
    assert not (project / "pyproject.toml").exists()
