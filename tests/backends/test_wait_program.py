"""The program of a container that waits, on every Python of this machine that training images have."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from vtrain.backends.docker.waiting import WAIT_PROGRAM
from vtrain.retry import wait_until

VERSIONS = ("3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
Wait = Callable[[Path], subprocess.Popen[str]]


def find_python(version: str) -> str:
    """An interpreter of that version on PATH, or one that pyenv has there without its being chosen."""
    if version == ".".join(map(str, sys.version_info[:2])):
        return sys.executable
    name = f"python{version}"
    found = Path(shutil.which(name) or "/")
    others = found.parents[1].glob(f"versions/{version}.*/bin/{name}") if found.parent.name == "shims" else ()
    for python in (found, *others):
        with suppress(OSError):
            if subprocess.run([python, "-c", "pass"], capture_output=True).returncode == 0:
                return str(python)
    return ""


@pytest.fixture(params=VERSIONS)
def wait(request: pytest.FixtureRequest, tmp_path: Path) -> Wait:
    """Start the program as a container does, once it listens."""
    python = find_python(request.param)
    if not python:
        pytest.skip(f"no Python {request.param} is on this machine")

    def start(path: Path) -> subprocess.Popen[str]:
        argv = [python, "-I", "-S", "-c", WAIT_PROGRAM.read_text(), str(path)]
        env = {"PATH": "/usr/bin:/bin", "KEPT": "yes", "GIVEN": "no"}
        waiting = subprocess.Popen(
            argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path
        )
        assert wait_until(lambda: path.exists() or waiting.poll() is not None, 30)
        return waiting

    return start


def send(path: Path, text: bytes) -> bytes:
    """The answer to a request."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(30)
        link.connect(str(path))
        link.sendall(text)
        link.shutdown(socket.SHUT_WR)
        return link.recv(1)


def request(*argv: str, **env: str) -> bytes:
    return json.dumps({"argv": argv, "env": env}).encode()


def test_it_waits_and_becomes_the_program(wait: Wait, tmp_path: Path) -> None:
    path = tmp_path / "slot"
    with wait(path) as waiting:
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(3)  # longer than it looks for its socket once
        assert send(path, b'{"argv": ["ec') == b"", "half a request is none"
        assert send(path, request("sh", "-c", 'echo "$0 $KEPT $GIVEN"', "ä b", GIVEN="ö")) == b"+"
        assert waiting.communicate(timeout=30)[0] == "ä b yes ö\n"
        assert (waiting.returncode, path.exists()) == (0, False)


def test_it_ends_without_its_socket_and_says_what_it_cannot_run(wait: Wait, tmp_path: Path) -> None:
    lost, path = tmp_path / "lost", tmp_path / "slot"
    with wait(lost) as forsaken, wait(path) as waiting:
        lost.unlink()
        assert send(path, request("no-such-program")) == b"+"
        assert "exec no-such-program failed: No such file" in waiting.communicate(timeout=30)[0]
        assert waiting.returncode == 127
        assert forsaken.communicate(timeout=30)[0] == ""
        assert forsaken.returncode == 0
