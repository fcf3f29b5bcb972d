"""Commands in running replicas: where they run, with what, and how they end; both local backends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from docker_jobs import docker_job
from lib.local_jobs import PRIMARY, ended, folder_of, lines, submit
from lib.pseudo_terminal import PseudoTerminal
from lib.waiting import wait_until

from vtrain.backends import HostedJob
from vtrain.backends.local import LocalBackend
from vtrain.commands.inside import not_running
from vtrain.messages.custom_job import CustomJob, EnvVar
from vtrain.messages.states import CANCELLING
from vtrain.testing.script import Script, script_job

pytestmark = pytest.mark.end_to_end

WAITING = Script().write("up\n").hang()
Run = Callable[..., Any]


@contextmanager
def running(backend: LocalBackend, job: CustomJob) -> Iterator[str]:
    """The id of the job while it runs; afterwards it has ended."""
    name = submit(backend, job)
    wait_until(lambda: "up" in lines(backend, name))
    try:
        yield name.rpartition("/")[2]
    finally:
        backend.kill(name)
        ended(backend, name)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "vtrain", "-q", *words]


def test_a_command_runs_as_the_process_does_and_its_code_is_ours(
    vtrain: Run, process_backend: LocalBackend, home: Path
) -> None:
    with running(process_backend, script_job(WAITING, env=[EnvVar(name="MINE", value="42")])) as job:
        shown = vtrain("exec", job, "--", "sh", "-c", "pwd; echo $MINE $CLOUD_ML_JOB_ID; echo no >&2; exit 7")
        work = folder_of(home, job).replica(PRIMARY).work
        assert (shown.code, shown.out) == (7, f"{work}\n42 {job}\n")
        assert shown.err.endswith("no\n")
        assert vtrain("exec", job, "--", "sh", "-c", "kill -9 $$").code == 137
        missing = vtrain("exec", job, "--", "no-such-program")
        assert missing.code == 127
        assert missing.err.endswith("ERROR: no-such-program: not found in workerpool0-0.\n")
        (work / "closed").touch(0o600)
        assert vtrain("exec", job, "--", "./closed").code == 126


def test_stdin_reaches_a_shell_of_the_replica(process_backend: LocalBackend) -> None:
    with running(process_backend, script_job(WAITING)) as job:
        shell = subprocess.run(
            command("shell", job),
            input="echo $CLOUD_ML_JOB_ID\nexit 3\n",
            env=os.environ | {"SHELL": "/bin/sh"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert (shell.returncode, shell.stdout, shell.stderr) == (3, f"{job}\n", "")


def test_another_replica_is_entered_by_its_name(vtrain: Run, process_backend: LocalBackend) -> None:
    with running(process_backend, script_job(WAITING, WAITING)) as job:
        name = f"projects/local/locations/us-central1/customJobs/{job}"
        wait_until(lambda: "up" in lines(process_backend, name, "workerpool1-0"))
        second = vtrain("exec", job, "--task-name=workerpool1-0", "--", "sh", "-c", "echo $RANK")
        assert (second.code, second.out) == (0, "1\n")
        wrong = vtrain("exec", job, "--task-name=workerpool2-0", "--", "true")
        assert wrong.code == 1
        assert "No replica workerpool2-0 of the job runs." in wrong.err
        assert "Running: workerpool0-0, workerpool1-0." in wrong.err


def test_a_job_that_has_ended_is_not_entered(vtrain: Run, process_backend: LocalBackend) -> None:
    name = submit(process_backend, script_job(Script()))
    ended(process_backend, name)
    refused = vtrain("shell", name)
    job = name.rpartition("/")[2]
    assert refused.code == 1
    assert f"ERROR: Job {job} has ended (SUCCEEDED): no replica of it runs." in refused.err
    assert refused.err.endswith(f"$ vtrain logs {job}\n"), "nothing is followed that has ended"


def test_of_a_job_that_is_being_cancelled_nothing_is_promised() -> None:
    name = "projects/local/locations/us-central1/customJobs/123"
    job = msgspec.structs.replace(script_job(Script()), name=name, state=CANCELLING)
    refused = not_running(HostedJob(job=job, backend="process", replicas=()))
    assert str(refused) == "Job 123 is being cancelled: no replica of it runs any more."
    assert "again" not in refused.hint and "123" in refused.hint


@pytest.mark.parametrize("words", [(), ("--",), ("--", "")])
def test_exec_without_a_command_says_where_to_put_it(vtrain: Run, words: tuple[str, ...]) -> None:
    refused = vtrain("exec", "123", *words)
    assert refused.code == 2
    assert "Put it after --: vtrain exec 123 -- " in refused.err


def test_a_shell_has_the_terminal(process_backend: LocalBackend) -> None:
    with running(process_backend, script_job(WAITING)) as job:
        env = os.environ | {"SHELL": "/bin/sh", "TERM": "xterm", "PS1": "there> "}
        terminal = PseudoTerminal(command("shell", job), columns=77, lines=20, env=env)
        terminal.press("stty size; echo $TERM-$CLOUD_ML_JOB_ID\n")
        terminal.wait_for(f"xterm-{job}")
        terminal.press("sh -c 'echo busy $((1+1)); exec sleep 600'\n")
        terminal.wait_for("busy 2")
        terminal.press("\x03")
        terminal.press("echo still $((1+1))\n")
        terminal.wait_for("still 2")
        terminal.press("exit 4\n")
        assert terminal.end() == 4
    assert "20 77" in terminal.transcript


@pytest.mark.docker
def test_a_command_runs_in_the_container(vtrain: Run, docker_backend: LocalBackend, base_image: str) -> None:
    with running(docker_backend, docker_job(base_image, WAITING)) as job:
        shown = vtrain("exec", job, "--", "sh", "-c", "pwd; echo $CLOUD_ML_JOB_ID; echo err >&2; exit 7")
        assert (shown.code, shown.out) == (7, f"/usr/app\n{job}\n")
        assert shown.err.endswith("err\n")
        assert vtrain("exec", job, "--", "no-such-program").code in (126, 127)
        (figures,) = json.loads(vtrain("top", job, "--format=json").out)
        assert figures["memoryBytes"] > 1_000_000 and figures["processes"] >= 1
        big = bytes(range(256)) * 20_000
        copied = subprocess.run(command("exec", job, "--", "cat"), input=big, capture_output=True, check=True)
        assert copied.stdout == big


@pytest.mark.docker
def test_a_shell_in_a_container_has_a_terminal_of_our_size(
    docker_backend: LocalBackend, base_image: str
) -> None:
    with running(docker_backend, docker_job(base_image, WAITING)) as job:
        env = os.environ | {"TERM": "xterm"}
        terminal = PseudoTerminal(command("shell", job), columns=77, lines=20, env=env)
        terminal.wait_for("#")
        # The engine takes the size only once the shell runs, which may have asked for a line already.
        terminal.press("while stty size | grep -q '^0 0'; do sleep 0.1; done\r")
        terminal.press("stty size; echo $TERM-$CLOUD_ML_JOB_ID\r")
        terminal.wait_for(f"xterm-{job}")
        terminal.resize(99, 31)
        terminal.press("sh -c 'echo busy $((1+1)); exec sleep 600'\r")
        terminal.wait_for("busy 2")
        terminal.press("\x03")
        terminal.press("stty size; echo still $((1+1))\r")
        terminal.wait_for("still 2")
        terminal.press("exit 4\r")
        assert terminal.end() == 4
    assert "20 77" in terminal.transcript and "31 99" in terminal.transcript
