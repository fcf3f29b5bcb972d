"""A live line while an image is built."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from lib.docker_engines import remaining
from terminal.conftest import Start

from vtrain.containers.engine import Engine
from vtrain.containers.images import remove_image
from vtrain.errors import ImageError

pytestmark = [pytest.mark.docker, pytest.mark.pages]


@pytest.fixture
def build(place: Path, base_image: str, docker_engine: Engine) -> Iterator[tuple[str, ...]]:
    """The words that build an image whose second step says something, and then nothing for a while."""
    (place / "train.py").write_text("print('trained')\n")
    step = f": {uuid.uuid4().hex}; echo hello; sleep 2"
    text = f'FROM {base_image}\nRUN {step}\nCOPY . /app\nENTRYPOINT ["python3", "/app/train.py"]\n'
    (place / "Dockerfile").write_text(text)
    name = f"vtrain-test/live:{uuid.uuid4().hex}"
    yield ("package", "image", "--dockerfile=Dockerfile", f"--output-image-uri={name}")
    with suppress(ImageError):
        remove_image(docker_engine, name)
    assert not remaining(docker_engine, place.parent / ".vtrain")


def test_the_running_step_is_shown_with_the_time(start: Start, build: tuple[str, ...]) -> None:
    terminal = start(*build)
    terminal.wait_until(lambda: bool(re.search(r"0:0[1-9]  \[2/3\] hello", terminal.shown)))
    assert terminal.end() == 0
    rows = terminal.transcript.splitlines()
    assert any(row.startswith("[2/3] RUN") for row in rows)
    assert any(row.startswith("[2/3] done in ") for row in rows)
    assert rows[-1].startswith("vtrain-test/live:"), "the live line is gone"
    assert not any("hello" in row and "RUN" not in row for row in rows), "what a step says is not left over"


def test_details_are_lines_where_they_are_asked_for(start: Start, build: tuple[str, ...]) -> None:
    terminal = start(*build, "--verbosity=info")
    assert terminal.end() == 0
    assert "    hello\n" in terminal.transcript


def test_a_pipe_gets_every_line(place: Path, build: tuple[str, ...]) -> None:
    argv = [sys.executable, "-m", "vtrain", *build]
    done = subprocess.run(argv, cwd=place, capture_output=True, text=True, timeout=60, check=True)
    assert "    hello\n" in done.stderr and "\x1b" not in done.stderr


def test_an_interrupt_leaves_no_line_behind(start: Start, build: tuple[str, ...]) -> None:
    terminal = start(*build)
    terminal.wait_until(lambda: "[2/3] hello" in terminal.shown)
    terminal.press("\x03")
    assert terminal.end() == 130
    assert "0:0" not in terminal.transcript
    assert b"\x1b[?25h" in terminal.raw.rpartition(b"\x1b[?25l")[2], "the cursor is shown again"
