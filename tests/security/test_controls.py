"""What a terminal is not given: characters that move its cursor, change its title or reorder what is read."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vtrain as package
from vtrain.output.terminal import for_terminal, on_one_line, visible

TITLE = "\x1b]0;owned\x07"
EVIL = f"a{TITLE}\x1b[2J\r\x9b31m\u202eb\u2066"
SHOWN = "a\\x1b]0;owned\\x07\\x1b[2J\\x0d\\u009b31m\\u202eb\\u2066"
DANGEROUS = re.compile(
    "[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\x1b(?!\\[[0-9;:]*m)"
)
ROOT = str(Path(package.__file__).parents[1])
PATIENCE_SECONDS = 60.0


def test_words_show_what_they_hold() -> None:
    assert on_one_line(EVIL) == visible(EVIL) == SHOWN
    assert (visible("a\tb\nc\r\nd"), on_one_line("a\tb\nc")) == ("a\tb\nc\nd", "a\\x09b\\x0ac")
    assert visible("ü 日本 \u200d👩") == "ü 日本 \u200d👩"


@given(text=st.text())
def test_no_text_is_dangerous_afterwards(text: str) -> None:
    assert "\x1b" not in visible(text) and not DANGEROUS.search(visible(text))
    assert "\n" not in on_one_line(text) and not DANGEROUS.search(on_one_line(text))
    line = text.encode("utf-8", "replace")
    assert not DANGEROUS.search(for_terminal(line).decode())


def test_colours_of_a_trainer_stay_and_end_with_its_line() -> None:
    assert for_terminal(b"\x1b[1;31mred\x1b[0m ok") == b"\x1b[1;31mred\x1b[0m ok\x1b[0m"
    assert for_terminal(b"\x1b[31mred\x1b[2Jgone") == b"\x1b[31mred\\x1b[2Jgone\x1b[0m"
    assert for_terminal(b" 1%\r 2%\r\nplain\tx") == b" 1%\n 2%\nplain\tx"


def on_terminal(*argv: str, env: dict[str, str]) -> str:
    """What a command line of vtrain shows on a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "vtrain", *argv]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True
    )
    os.close(theirs)
    shown = b""
    try:
        while select.select([ours], [], [], PATIENCE_SECONDS)[0] and (block := _read(ours)):
            shown += block
    finally:
        os.close(ours)
        process.wait()
    return shown.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux's way to say that the other end is closed
        return b""


@pytest.fixture
def env() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return kept | {"PYTHONPATH": ROOT, "TERM": "xterm", "NO_COLOR": "1"}


def script(folder: Path, code: str) -> str:
    (folder / "t.py").write_text(code)
    return f"--local-package-path={folder / 't.py'}"


def test_a_display_name_is_shown_and_not_obeyed(vtrain: Any, tmp_path: Path, env: dict[str, str]) -> None:
    words = ("--backend=process", f"--display-name={EVIL}", script(tmp_path, "raise SystemExit(3)"))
    made = vtrain("custom-jobs", "create", "--wait", *words)
    assert made.code == 10 and "\x1b" not in made.err and SHOWN in made.err
    formats = ("table(displayName)", "json", "yaml", "value(displayName)", "csv(displayName)", "flattened")
    for form in formats:
        listed = on_terminal("custom-jobs", "list", "--backend=process", f"--format={form}", env=env)
        assert "owned" in listed and not DANGEROUS.search(listed), form
    assert EVIL in vtrain("custom-jobs", "list", "--backend=process", "--format=value(displayName)").out


def test_the_lines_of_a_trainer_are_shown_and_not_obeyed(
    vtrain: Any, tmp_path: Path, env: dict[str, str]
) -> None:
    evil = EVIL.replace("\r", "")
    code = f"import sys; sys.stdout.buffer.write({evil.encode()!r} + b'\\x1b[31mred\\n')"
    created = vtrain(
        *("custom-jobs", "create", "--backend=process", "--display-name=a", "--wait", "--format=value(name)"),
        script(tmp_path, code),
    )
    name = created.out.strip()
    shown = on_terminal("-q", "custom-jobs", "stream-logs", name, "--task-name=workerpool0-0", env=env)
    assert "owned" in shown and "\x1b[31mred\x1b[0m" in shown and not DANGEROUS.search(shown)
    piped = vtrain("custom-jobs", "stream-logs", name, "--task-name=workerpool0-0")
    assert evil in piped.out


def test_a_run_passes_through_what_its_trainer_writes(vtrain: Any, tmp_path: Path) -> None:
    code = f"import sys; sys.stdout.buffer.write({EVIL.encode()!r})"
    assert EVIL.encode() in vtrain("custom-jobs", "local-run", script(tmp_path, code)).out.encode()


def test_errors_show_what_they_name(vtrain: Any) -> None:
    ended = vtrain("custom-jobs", "describe", f"projects/local/locations/us-central1/customJobs/{EVIL}")
    assert ended.code == 1 and "\x1b" not in ended.err and "\u202e" not in ended.err


def test_a_name_that_looks_like_markup_is_a_name(tmp_path: Path, env: dict[str, str]) -> None:
    words = ("--backend=process", "--display-name=[/red][link=x]a[/]", "--wait")
    shown = on_terminal(
        "custom-jobs", "create", *words, script(tmp_path, "import time; time.sleep(1)"), env=env
    )
    assert "failed unexpectedly" not in shown and "SUCCEEDED" in shown
