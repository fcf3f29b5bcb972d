"""A recorded run on a terminal: vtrain in a process of its own, typing as the record does."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from differential.capture import CaptureServer
from differential.runner import Case, Outcome, environment, write_files
from lib.waiting import wait_until

import vtrain

PATIENCE = 120.0
"""Seconds for each text to appear, and for the process to end."""
ROOT = str(Path(vtrain.__file__).parents[1])
_OURS = {
    "Please enter": "Number or name: ",
    "fake docker run: err": "a line of the trainer",
    "CRITICAL": "worker1-0",  # severities are told by colours
}
"""What is shown where gcloud, or its stand-in for docker, showed that."""


def play_on_terminal(case: Case, folder: Path, variables: Mapping[str, str]) -> Outcome:
    """Run vtrain with a case's command line, on a terminal; what it shows is the outcome's stderr."""
    write_files(case, folder)
    with CaptureServer(case.requests, case.responses) as server:
        env = dict(variables) | environment(case, server.url) | {"PYTHONPATH": ROOT}
        process, terminal = _fork(case, folder, env)
        try:
            shown = b""
            for awaited, typed in case.tty or ():
                shown += _read_until(terminal, _OURS.get(awaited, awaited).encode())
                os.write(terminal, typed.encode())
            shown += _read_until(terminal, None)
        finally:
            code = _end(process)
            os.close(terminal)
        return Outcome(
            exit_code=code,
            stdout="",
            stderr=shown.decode("utf-8", "replace"),
            requests=tuple(server.requests),
        )


def _fork(case: Case, folder: Path, env: Mapping[str, str]) -> tuple[int, int]:
    """The process, and the terminal's other end."""
    argv = [sys.executable, "-m", "vtrain", *case.argv]
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execve(sys.executable, argv, dict(env))
    return process, terminal


def _read_until(terminal: int, awaited: bytes | None) -> bytes:
    """What is shown up to that text, or to the end."""
    shown = b""
    while awaited is None or awaited not in shown:
        if not select.select([terminal], [], [], PATIENCE)[0]:
            break
        try:
            data = os.read(terminal, 65536)
        except OSError:  # Linux: the other side is closed
            break
        if not data:
            break
        shown += data
    return shown


def _end(process: int) -> int:
    """The exit code, as a shell tells it; a process that does not end is killed."""
    status = 0

    def has_ended() -> int:
        nonlocal status
        ended, status = os.waitpid(process, os.WNOHANG)
        return ended

    try:
        wait_until(has_ended, "vtrain did not end", patience=PATIENCE)
    except AssertionError:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        raise
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code
