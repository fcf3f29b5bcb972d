"""The terminal that `local-run` lends to a container."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.docker_engines import remaining
from lib.engine_relay import relay
from lib.local_jobs import kill_supervisor
from lib.pseudo_terminal import CTRL_C, CTRL_D
from terminal.conftest import Start, Trainer

from vtrain.containers.engine import Engine
from vtrain.runtime.folder import JobFolder

pytestmark = pytest.mark.docker
ATTACH = b"/attach?stream=1&stdout=1"
SEES = """
import shutil
size = shutil.get_terminal_size()
print([os.isatty(number) for number in range(3)], size.columns, size.lines, os.environ.get("TERM"))
"""


@pytest.fixture
def in_container(place: Path, base_image: str, docker_engine: Engine) -> Iterator[tuple[str, ...]]:
    """The words of a run in a container, of which nothing stays on the engine."""
    yield ("-q", "custom-jobs", "local-run", "--backend=docker", f"--executor-image-uri={base_image}")
    left = remaining(docker_engine, place.parent / ".vtrain")
    assert not left


@pytest.fixture
def hold(place: Path) -> str:
    """A file that a container sees; `trainer.release` is for processes."""
    (place / "shared").mkdir()
    return f"--mount=type=bind,source={place / 'shared'},target={place.parent}"


def log_of(place: Path) -> bytes:
    logs = place.parent.glob(".vtrain/jobs/*/logs/workerpool0-0.*.log")
    return b"".join(log.read_bytes() for log in sorted(logs))


def release(place: Path) -> None:
    (place / "shared" / "go").touch()


def test_a_trainer_sees_a_terminal_as_large_as_this_one(
    start: Start, trainer: Trainer, place: Path, in_container: tuple[str, ...]
) -> None:
    written = "\\x1b[32mgreen\\x1b[0m\\r\\n\\tcaf\\xe9\\n\\ndots"
    script = trainer(
        f"{SEES}sys.stdout.write('{written}')\nsys.stdout.flush()\n"
        "sys.stdout.buffer.write(b'\\xff\\r\\r\\n')\nsys.stdout.flush()\n"
        "sys.stderr.write('bar\\rbar 2\\nend')"
    )
    terminal = start(*in_container, f"--script={script}", columns=97, lines=33, env={"TERM": "xterm"})
    assert terminal.end() == 0
    assert "[True, True, True] 97 33 xterm" in terminal.transcript
    sees, rest = log_of(place).split(b"\n", 1)
    assert sees == b"[True, True, True] 97 33 xterm"
    assert rest == b"\x1b[32mgreen\x1b[0m\r\n\tcaf\xc3\xa9\n\ndots\xff\r\r\nbar\rbar 2\nend"


def test_one_stream_alone_stays_a_pipe(
    start: Start, trainer: Trainer, place: Path, in_container: tuple[str, ...]
) -> None:
    words = " ".join([sys.executable, "-m", "vtrain", *in_container, f"--script={trainer(SEES)}"])
    terminal = start(program=("sh", "-c", f"{words} > out"))
    assert terminal.end() == 0
    assert (place / "out").read_text().startswith("[False, False, False]")


def test_a_bar_moves_before_its_line_ends(
    start: Start, trainer: Trainer, place: Path, hold: str, in_container: tuple[str, ...]
) -> None:
    script = trainer("""
print("\\rbar 1", end="", file=sys.stderr, flush=True)
hold()
print("\\rbar 2", file=sys.stderr)
""")
    terminal = start(*in_container, hold, f"--script={script}")
    terminal.wait_for("bar 1")
    release(place)
    assert terminal.end() == 0
    assert terminal.transcript == "bar 2"
    assert log_of(place) == b"\rbar 1\rbar 2\n"


def test_a_window_that_changes_its_size_is_told_to_the_container(
    start: Start, trainer: Trainer, place: Path, hold: str, in_container: tuple[str, ...]
) -> None:
    script = trainer("""
import shutil, signal
signal.signal(signal.SIGWINCH, lambda *_: print("width", shutil.get_terminal_size().columns))
os.write(1, b"ready\\n")
hold()
""")
    terminal = start(*in_container, hold, f"--script={script}")
    terminal.wait_for("ready")
    terminal.resize(100, 30)
    terminal.wait_for("width 100")
    release(place)
    assert terminal.end() == 0


def test_a_breakpoint_works_in_a_container(
    start: Start, trainer: Trainer, in_container: tuple[str, ...]
) -> None:
    script = trainer("""
name = input("name? ")
breakpoint()
print("and?")
print("rest:", sys.stdin.read())
""")
    terminal = start(*in_container, f"--script={script}", "--interactive", env={"TERM": "dumb"})
    terminal.wait_for("name? ")
    terminal.press("Ada\r")
    terminal.wait_for("(Pdb) ")
    terminal.press("pp name * 2\r")
    terminal.wait_for("'AdaAda'")
    terminal.press("continue\r")
    terminal.wait_for("\nand?")  # not in the line that pdb has shown
    terminal.press("äöü\r" + CTRL_D)
    terminal.wait_for("rest: äöü")
    assert terminal.end() == 0


@pytest.mark.parametrize(
    ("reads", "seen"),
    [
        ("breakpoint()", "Run it with `vtrain run … --interactive` in a terminal"),
        ("input('name? ')", "EOFError"),
        ("print(repr(sys.stdin.read() + sys.stdin.read()), file=sys.stderr); sys.exit(1)", "''"),
    ],
)
def test_without_a_keyboard_the_input_is_at_its_end(
    start: Start, trainer: Trainer, in_container: tuple[str, ...], reads: str, seen: str
) -> None:
    terminal = start(*in_container[1:], f"--script={trainer(reads)}", columns=120)
    assert terminal.end() == 1
    assert seen in terminal.transcript


def test_ctrl_c_is_for_vtrain_while_a_container_reads(
    start: Start, trainer: Trainer, in_container: tuple[str, ...]
) -> None:
    script = trainer("""
import signal
signal.signal(signal.SIGINT, lambda *_: print("SIGINT"))
signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"saved\\n"), os._exit(3)))
input("name? ")
""")
    terminal = start(*in_container, f"--script={script}", "-i")
    terminal.wait_for("name? ")
    terminal.press(CTRL_C)
    assert terminal.end() == 130
    assert "SIGINT" not in terminal.transcript
    assert "saved" in terminal.transcript


def test_a_way_to_the_engine_that_allows_no_terminal_gives_whole_lines(
    start: Start, trainer: Trainer, place: Path, in_container: tuple[str, ...], docker_engine: Engine
) -> None:
    script = trainer("print('\\rbar 1', end='', flush=True)\nprint('\\rbar 2')\nprint('done')\n")
    with relay(docker_engine.address.host.removeprefix("unix://"), limit=1, about=ATTACH) as port:
        host = {"DOCKER_HOST": f"tcp://127.0.0.1:{port}"}
        terminal = start(*in_container, f"--script={script}", env=host)
        assert terminal.end() == 0, terminal.transcript
    assert log_of(place) == b"\rbar 1\rbar 2\ndone\n"


@pytest.mark.parametrize("way", ["command", "supervisor"])
def test_a_container_outlives_what_is_killed(
    start: Start, trainer: Trainer, place: Path, hold: str, in_container: tuple[str, ...], way: str
) -> None:
    script = trainer("""
print("ready", end="\\r\\n", flush=True)
print("half", end="", flush=True)
hold()
print(" whole:", os.isatty(1))
""")
    terminal = start(*in_container, hold, f"--script={script}")
    terminal.wait_for("half")
    (job,) = place.parent.glob(".vtrain/jobs/[0-9]*")
    if way == "command":
        os.kill(terminal.process_id, signal.SIGKILL)
        terminal.hang_up()
    else:
        kill_supervisor(JobFolder(job))
    release(place)
    if way == "command":
        listed = start("custom-jobs", "wait", job.name)
        assert listed.end() == 0
    else:
        assert terminal.end() == 0
        assert terminal.transcript == "ready\nhalf whole: True"
    assert log_of(place) == b"ready\r\nhalf whole: True\n"


def test_a_connection_that_breaks_loses_nothing_and_repeats_nothing(
    start: Start, trainer: Trainer, place: Path, in_container: tuple[str, ...], docker_engine: Engine
) -> None:
    script = trainer("""
for number in range(3000):
    print(f"\\r{number} half", end="", flush=True)
    print(f" line {number} äöü")
print("the end", end="")
""")
    with relay(docker_engine.address.host.removeprefix("unix://"), limit=40_000, about=ATTACH) as port:
        host = {"DOCKER_HOST": f"tcp://127.0.0.1:{port}"}
        terminal = start(*in_container, f"--script={script}", env=host)
        assert terminal.end() == 0, terminal.transcript
    written = "".join(f"\r{number} half line {number} äöü\n" for number in range(3000)) + "the end"
    assert log_of(place).decode() == written
