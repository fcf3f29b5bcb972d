"""`local-run` as a process of its own, with a real trainer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lib.environment_packages import wheel
from lib.waiting import wait_until

pytestmark = pytest.mark.end_to_end

TRAINER = """
import json, signal, sys, time
what = sys.argv[1]
if what == "json":
    print(json.dumps({"message": "hi", "severity": "WARNING"}))
if what == "bytes":
    sys.stdout.buffer.write(bytes(range(256)) + b"no newline")
if what == "exit":
    sys.exit(int(sys.argv[2]))
if what == "lines":
    for number in range(100_000):
        print("line", number)
    time.sleep(60)
if what == "stubborn":
    signal.signal(signal.SIGTERM, lambda *_: open(sys.argv[2], "w").close())
    print("up", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "trainer" / "t.py"
    file.parent.mkdir()
    file.write_text(TRAINER)
    return file


@pytest.fixture
def command(script: Path) -> list[str]:
    words = [sys.executable, "-m", "vtrain", "-q", "custom-jobs", "local-run"]
    return [*words, f"--local-package-path={script}", "--"]


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def run(command: list[str], *words: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*command, *words], capture_output=True, timeout=120, check=False, **options)  # type: ignore[call-overload, no-any-return]


def start(command: list[str], word: str, started: list[subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([*command, word], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    started.append(process)
    return process


def wait_until_ended(command: list[str]) -> str:
    """The state of the newest job once it has ended."""
    listing = [*command[:4], "custom-jobs", "list", "--limit=1", "--format=value(state)"]

    def last_state() -> str:
        state = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.strip()
        return state if state.endswith(("SUCCEEDED", "FAILED", "CANCELLED")) else ""

    return wait_until(last_state)


def test_a_project_that_is_none_is_refused(command: list[str]) -> None:
    ended = run([*command[:-1], "--project=123", "--"], "json")
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert b"is not a project id" in ended.stderr


def test_a_json_line_passes_untouched(command: list[str]) -> None:
    assert run(command, "json").stdout == b'{"message": "hi", "severity": "WARNING"}\n'


def test_any_bytes_pass_untouched_and_no_newline_is_added(command: list[str]) -> None:
    assert run(command, "bytes").stdout == bytes(range(256)) + b"no newline"


@pytest.mark.parametrize("code", [0, 7])
def test_a_closed_stdout_does_not_change_the_exit_code(command: list[str], code: int) -> None:
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *command, "exit", str(code)]
    assert subprocess.run(shell, stderr=subprocess.DEVNULL, timeout=120, check=False).returncode == code


def test_a_word_that_is_not_utf8_is_refused_before_anything_happens(command: list[str]) -> None:
    ended = subprocess.run(
        [os.fsencode(word) for word in command] + [b"\xff"], capture_output=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert b"is not UTF-8" in ended.stderr
    assert not (Path(os.environ["VTRAIN_HOME"]) / "packages").exists()


def test_a_reader_that_goes_away_ends_the_job(
    command: list[str], started: list[subprocess.Popen[bytes]]
) -> None:
    process = start(command, "lines", started)
    assert process.stdout is not None and process.stdout.readline() == b"line 0\n"
    process.stdout.close()
    process.stdout = None
    assert process.wait(timeout=120) == 141
    assert wait_until_ended(command).endswith("CANCELLED")


def test_a_second_interrupt_kills_a_trainer_that_ignores_the_first(
    command: list[str],
    started: list[subprocess.Popen[bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VTRAIN_GRACE_SECONDS", "600")
    asked = tmp_path / "asked"
    process = start([*command, "stubborn"], str(asked), started)
    assert process.stdout is not None and process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGINT)
    wait_until(lambda: asked.exists() or process.poll() is not None)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 130
    assert wait_until_ended(command).endswith("CANCELLED")


def test_a_script_with_a_long_name_gives_the_run_a_name_that_fits(tmp_path: Path, vtrain) -> None:
    script = tmp_path / f"{'a' * 200}.py"
    script.write_text("print('here')")
    ended = vtrain("custom-jobs", "local-run", "--backend=process", f"--local-package-path={script}")
    assert (ended.code, ended.out) == (0, "here\n"), ended.err
    shown = vtrain("custom-jobs", "list", "--format=value(displayName)")
    assert shown.out == "a" * 128 + "\n"


def test_pips_relative_paths_count_from_the_folder_of_the_command(
    vtrain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("1.0", "2.0"):
        wheel(tmp_path / "wheels", "left", version)
    (tmp_path / "bounds.txt").write_text("left<2\n")
    (tmp_path / "code").mkdir()
    (tmp_path / "code/train.py").write_text("import left; print(left.VERSION)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "wheels")
    monkeypatch.setenv("PIP_CONSTRAINT", "bounds.txt")
    words = ("--backend=process", "--local-package-path=code", "--script=train.py", "--requirements=left")
    ended = vtrain("custom-jobs", "local-run", *words)
    assert (ended.code, ended.out) == (0, "1.0\n"), ended.err
