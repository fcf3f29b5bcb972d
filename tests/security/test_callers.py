"""Callers that hold locks, pipes and sockets while they submit a job: none of it outlasts the command."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.waiting import wait_until

import vtrain
from vtrain.messages.codec import to_document
from vtrain.messages.custom_job import CustomJob, CustomJobSpec, EnvVar, PythonPackageSpec, WorkerPoolSpec

ROOT = Path(vtrain.__file__).parents[1]
PATIENCE_SECONDS = 120.0
TRAINER = """
import os, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
names = []
for name in os.listdir("/dev/fd"):
    if int(name) > 2:
        try:
            names.append(os.readlink("/dev/fd/" + name))
        except OSError:
            pass
(folder / "seen").write_text("\\n".join(names))
(folder / "running").touch()
while not (folder / "go").exists():
    time.sleep(0.05)
"""
CALLER = """
( flock -n 9 || exit 9; "$@" 7>&8 ) 9>lock 8>pipe || exit
until test -e running; do sleep 0.05; done
flock -n lock echo the lock is free
"""


@pytest.fixture
def create(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The command line that submits a job which goes on until the test is over."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "holding.py").write_text(TRAINER)
    env = (EnvVar(name="PYTHONPATH", value=str(tmp_path)),)
    task = PythonPackageSpec(python_module="holding", args=(str(tmp_path),), env=env)
    spec = CustomJobSpec(worker_pool_specs=(WorkerPoolSpec(python_package_spec=task),))
    (tmp_path / "job.json").write_text(
        json.dumps(to_document(CustomJob(display_name="holding", job_spec=spec)))
    )
    words = ["-q", "custom-jobs", "create", "--backend=process", f"--config={tmp_path / 'job.json'}"]
    yield [sys.executable, "-m", "vtrain", *words]
    (tmp_path / "go").touch()
    argv = [sys.executable, "-m", "vtrain", "-q", "custom-jobs", "list", "--format=value(state)"]
    wait_until(lambda: b"SUCCEEDED" in subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)


def test_a_shell_that_holds_a_lock_and_a_pipe(create: list[str], tmp_path: Path) -> None:
    if shutil.which("flock") is None:
        pytest.skip("there is no flock(1) here")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    ended = subprocess.run(
        ["sh", "-c", CALLER, "sh", *create], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert (ended.returncode, ended.stdout.splitlines()[-1:]) == (0, ["the lock is free"]), ended.stderr
    assert os.read(reader, 1) == b"", "somebody still has the other end"
    os.close(reader)
    assert str(tmp_path) not in (tmp_path / "seen").read_text()


def test_a_program_that_hands_on_all_it_has(create: list[str], tmp_path: Path) -> None:
    """A lock, both ends of a pipe, and a socket that listens, at numbers that programs do not expect."""
    held = os.open(tmp_path / "held", os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
    reading, writing = os.pipe()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address, high = server.getsockname(), os.dup2(held, 250, inheritable=True)
        handed = [held, writing, server.fileno(), high]
        subprocess.run(create, pass_fds=handed, check=True, capture_output=True, timeout=300)
    for number in (held, high, writing):
        os.close(number)
    wait_until((tmp_path / "running").exists)
    with (tmp_path / "held").open() as again:
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert os.read(reading, 1) == b""
    os.close(reading)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, 5).close()
    assert (tmp_path / "seen").read_text().strip() in ("", "/dev/fd", "/proc/self/fd")
