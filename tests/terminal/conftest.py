"""vtrain on pseudo terminals, in a home whose path always has the same length."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import venv
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pytest
from lib.local_jobs import processes_of
from lib.pseudo_terminal import PseudoTerminal
from lib.waiting import wait_until_gone
from terminal.golden_frames import compare

from vtrain.backends import BackendSettings
from vtrain.backends.registry import open_backend
from vtrain.errors import VtrainError

SHORT_ID = 6
"""Digits of the beginning of an id that a terminal may show."""
PLAIN = {"NO_COLOR": "1", "TERM": "dumb"}
"""The variables of a terminal without colours."""
_COLOUR_VARIABLES = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "CLICOLOR", "COLORTERM", "COLUMNS", "LINES")


class Start(Protocol):
    """Starts `vtrain WORDS` on a terminal as wide as the test's frames; `program` is another program."""

    def __call__(
        self,
        *words: str,
        columns: int = 0,
        lines: int = 30,
        env: dict[str, str] | None = None,
        program: tuple[str, ...] = (),
        cwd: Path | None = None,
    ) -> PseudoTerminal: ...


class Golden(Protocol):
    """Compares all that a terminal has shown with `frames/NAME.COLUMNS.txt`."""

    def __call__(self, name: str, terminal: PseudoTerminal, *, colours: bool = False) -> None: ...


class Shows(Protocol):
    """Runs `vtrain WORDS`, which must end with `code` and show what `frames/NAME.COLUMNS.txt` has."""

    def __call__(self, name: str, *words: str, code: int = 0) -> None: ...


@pytest.fixture(params=[80, 120])
def columns(request: pytest.FixtureRequest) -> int:
    """The width of the terminals of a test that compares frames: each such test runs at both."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def place(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The commands' current folder, below HOME. The path is always as long, so that lines break alike."""
    top = Path(tempfile.mkdtemp(prefix="vt", dir="/tmp"))
    project = top / "project"
    project.mkdir()
    monkeypatch.setenv("HOME", str(top))
    monkeypatch.setenv("VTRAIN_HOME", str(top / ".vtrain"))
    venv.create(top / "env", symlinks=True)
    monkeypatch.setenv("VIRTUAL_ENV", str(top / "env"))  # the Python of trainers that declare nothing
    yield project
    shutil.rmtree(top, ignore_errors=True)


@pytest.fixture
def start(place: Path, request: pytest.FixtureRequest) -> Iterator[Start]:
    """Starts a command on a terminal; afterwards its jobs are cancelled and its window is closed."""
    started: list[PseudoTerminal] = []
    usual: int = request.getfixturevalue("columns") if "columns" in request.fixturenames else 80

    def run(
        *words: str,
        columns: int = 0,
        lines: int = 30,
        env: dict[str, str] | None = None,
        program: tuple[str, ...] = (),
        cwd: Path | None = None,
    ) -> PseudoTerminal:
        variables = {name: text for name, text in os.environ.items() if name not in _COLOUR_VARIABLES}
        variables |= {"TERM": "xterm-256color", "LANG": "C.UTF-8"} | (env or {})
        argv = program or (sys.executable, "-m", "vtrain", *words)
        terminal = PseudoTerminal(
            argv, columns=columns or usual, lines=lines, env=variables, cwd=cwd or place
        )
        started.append(terminal)
        return terminal

    yield run
    for terminal in started:
        terminal.close()
    _end_jobs(place.parent / ".vtrain")


@pytest.fixture
def golden(place: Path, columns: int) -> Golden:
    """Compares a transcript with its golden file."""
    jobs: set[str] = set()  # also those that are deleted meanwhile

    def check(name: str, terminal: PseudoTerminal, *, colours: bool = False) -> None:
        jobs.update(folder.name for folder in place.parent.glob(".vtrain/jobs/[0-9]*"))
        ids = {job[:length]: "<ID>" for job in jobs for length in range(SHORT_ID, len(job) + 1)}
        compare(name, terminal, colours=colours, places={str(place.parent): "~"} | ids)

    return check


@pytest.fixture
def shows(start: Start, golden: Golden, columns: int) -> Shows:
    """Records a command on a dark terminal of 80 columns, and on a plain one of 120."""

    def check(name: str, *words: str, code: int = 0) -> None:
        terminal = start(*words, env=PLAIN if columns == 120 else {})
        assert terminal.end() == code, terminal.transcript
        golden(name, terminal, colours=True)

    return check


class Trainer:
    """Writes scripts, in which `sys`, `time` and `os` are imported and `hold()` waits for `release`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._go = folder.parent / "go"

    def __call__(self, text: str, name: str = "train.py") -> str:
        """The name of a script of this text."""
        (self._folder / name).write_text(_HEAD.format(go=str(self._go)) + text)
        return name

    def release(self) -> None:
        """Let the scripts that `hold` go on."""
        self._go.touch()


_HEAD = """\
import os, sys, time
def hold():
    while not os.path.exists({go!r}):
        time.sleep(0.02)
"""


@pytest.fixture
def trainer(place: Path) -> Trainer:
    """Writes the scripts of a test."""
    return Trainer(place)


def _end_jobs(home: Path) -> None:
    """No supervisor and no trainer of a test outlives it."""
    backend = open_backend("process", BackendSettings(home=home, project="local", region="us-central1"))
    for folder in (home / "jobs").glob("[0-9]*"):
        with suppress(VtrainError):  # it has ended already
            backend.cancel(f"projects/local/locations/us-central1/customJobs/{folder.name}")
    wait_until_gone(lambda: processes_of(home))
