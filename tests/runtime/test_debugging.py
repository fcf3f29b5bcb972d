"""A trainer under debugpy: how it is started, and which files a client's breakpoints mean."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from lib.debug_client import DebugClient
from lib.waiting import wait_until

from vtrain.backends.process.process_launcher import free_ports
from vtrain.messages.custom_job import PythonPackageSpec
from vtrain.packaging.payload import launcher
from vtrain.runtime.debugging import SCRIPT_MODULE, Debugger, debugger_variables

pytestmark = pytest.mark.end_to_end

STAND_IN = "import sys\nprint(sys.argv[1:])\n"
"""A debugpy that says what it is asked for."""


def started(folder: Path, module: str, debugger: Debugger) -> subprocess.CompletedProcess[str]:
    """What the command line does with the stand-in beside the trainer."""
    (folder / "debugpy").mkdir()
    (folder / "debugpy" / "__main__.py").write_text(STAND_IN)
    work = folder / "work"
    work.mkdir()
    task = PythonPackageSpec(python_module=module, args=("--a=1", "b c"))
    argv = debugger.argv(task, sys.executable, "0.0.0.0")
    env = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(argv, env=env, cwd=work, capture_output=True, text=True, check=True)


def test_a_module_runs_under_the_debugger(tmp_path: Path) -> None:
    ended = started(tmp_path, "trainer.task", Debugger(port=5678))
    waiting = ["--listen", "0.0.0.0:5678", "--wait-for-client"]
    assert ended.stdout == f"{[*waiting, '-m', 'trainer.task', '--a=1', 'b c']}\n"
    waits, _, launch = ended.stderr.partition("\nFor launch.json of VS Code: ")
    assert waits == "Waiting for a debugger at 127.0.0.1:5678"
    assert json.loads(launch)["connect"] == {"host": "127.0.0.1", "port": 5678}


def test_without_debugpy_the_command_that_installs_it_is_shown(tmp_path: Path) -> None:
    argv = Debugger(port=5678).argv(PythonPackageSpec(python_module="trainer"), sys.executable, "127.0.0.1")
    alone = [argv[0], "-S", *argv[1:]]  # without the packages of this environment
    ended = subprocess.run(alone, cwd=tmp_path, capture_output=True, text=True, check=False)
    install = f"Install it: {sys.executable} -m pip install debugpy\n"
    assert (ended.returncode, ended.stderr) == (1, f"debugpy is not installed in this Python. {install}")


def test_a_script_runs_under_the_debugger_in_its_own_folder(tmp_path: Path) -> None:
    package = tmp_path / SCRIPT_MODULE
    (package / "files").mkdir(parents=True)
    (package / "files" / "train.py").write_text("")
    source = Path(launcher.__file__).read_text(encoding="utf-8")
    (package / "__main__.py").write_text(source.replace("@SCRIPT@", "train.py"))
    ended = started(tmp_path, SCRIPT_MODULE, Debugger(port=5679, waits=False))
    assert ended.stdout == f"{['--listen', '0.0.0.0:5679', 'train.py', '--a=1', 'b c']}\n"
    assert ended.stderr.startswith("A debugger can attach at 127.0.0.1:5679\n")
    assert (tmp_path / "work" / "train.py").exists()


def test_breakpoints_are_found_in_installed_copies(tmp_path: Path) -> None:
    source, installed = tmp_path / "source", tmp_path / "site"
    for name in ("trainer", "src/common", "tests"):
        (source / name).mkdir(parents=True)
    for name in ("trainer", "common", "torch"):
        (installed / name).mkdir(parents=True)
    package, own = (
        PythonPackageSpec(python_module="trainer.task"),
        PythonPackageSpec(python_module=SCRIPT_MODULE),
    )
    seen = debugger_variables(package, str(source), installed, seen="/site", cwd="/work")
    assert json.loads(seen["PATHS_FROM_ECLIPSE_TO_PYTHON"]) == [
        [f"{source}/trainer", "/site/trainer"],
        [f"{source}/src/common", "/site/common"],
    ]
    assert seen["IDE_PROJECT_ROOTS"] == "/site/trainer:/site/common"
    script = debugger_variables(own, str(source), installed, seen="/site", cwd="/work")
    assert json.loads(script["PATHS_FROM_ECLIPSE_TO_PYTHON"]) == [[str(source), "/work"]]


@pytest.mark.network
@pytest.mark.parametrize("is_script", [True, False], ids=["script", "module"])
def test_a_client_stops_at_a_line_of_the_users_file(tmp_path: Path, is_script: bool) -> None:
    (port,) = free_ports(1)
    file = tmp_path / "trainer" / "task.py"
    file.parent.mkdir()
    (file.parent / "__init__.py").touch()
    file.write_text("x = 21\nprint(x)\n")
    entry = [f"--script={file.name}", f"--local-package-path={file.parent}"] if is_script else []
    entry = entry or ["--python-module=trainer.task", f"--local-package-path={tmp_path}"]
    command = [sys.executable, "-m", "vtrain", "-q", "custom-jobs", "local-run", f"--debugpy={port}", *entry]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as trainer:
        client = DebugClient(port)
        client.attach()
        client.break_at(file, 2)
        thread = client.event("stopped")["threadId"]
        frame = client.ask("stackTrace", threadId=thread)["stackFrames"][0]
        assert (frame["source"]["path"], frame["line"]) == (str(file), 2)
        assert client.ask("evaluate", expression="x * 2", frameId=frame["id"])["result"] == "42"
        client.ask("continue", threadId=thread)
        assert trainer.communicate(timeout=60)[0] == "21\n"
        client.close()
    assert trainer.returncode == 0


def attached(port: int) -> DebugClient:
    """A client of a debugger in a container; until it listens, the engine drops connections."""

    def found() -> DebugClient | None:
        client = DebugClient(port)
        try:
            client.attach()
        except (ConnectionError, ValueError):
            client.close()
            return None
        return client

    client = wait_until(found, pause=0.2)
    assert client is not None
    return client


@pytest.mark.network
@pytest.mark.docker
def test_a_client_stops_at_a_line_of_the_users_file_in_a_container(tmp_path: Path, base_image: str) -> None:
    file = tmp_path / "task.py"
    file.write_text("x = 21\nprint(x)\n")
    (port,) = free_ports(1)
    words = ["task.py", f"--debugpy={port}", "--backend=docker", f"--executor-image-uri={base_image}"]
    command = [sys.executable, "-m", "vtrain", "-q", "debug", *words]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as trainer:
        client = attached(port)
        client.break_at(file, 2)
        thread = client.event("stopped")["threadId"]
        frame = client.ask("stackTrace", threadId=thread)["stackFrames"][0]
        assert (frame["source"]["path"], frame["line"]) == (str(file), 2)
        assert client.ask("evaluate", expression="x * 2", frameId=frame["id"])["result"] == "42"
        client.ask("continue", threadId=thread)
        assert trainer.communicate(timeout=60)[0] == "21\n"
        client.close()
    assert trainer.returncode == 0
