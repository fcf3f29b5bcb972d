"""The example of a backend, installed as a plug-in: through every command, and by the public contract."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from vtrain.backends import BackendSettings, JobBackend
from vtrain.backends.registry import open_backend
from vtrain.messages.custom_job import CustomJob, EnvVar
from vtrain.testing.contract import BackendContract
from vtrain.testing.script import Script, script_job

pytestmark = pytest.mark.end_to_end

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plugin_backend"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example's distribution, as pip installs it there, without its dependency."""
    folder = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source") / "plugin"
    source.mkdir()
    for file in ("pyproject.toml", "vtrain_remote_shell.py"):
        (source / file).write_bytes((EXAMPLE / file).read_bytes())
    options = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet"]
    argv = [sys.executable, "-m", "pip", "install", *options, f"--target={folder}", str(source)]
    subprocess.run(argv, check=True, capture_output=True)
    return folder


@pytest.fixture
def plugin(site: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The plug-in in this process."""
    monkeypatch.syspath_prepend(str(site))
    import vtrain_remote_shell

    assert isinstance(vtrain_remote_shell, ModuleType)
    yield vtrain_remote_shell
    del sys.modules["vtrain_remote_shell"]


class TestContract(BackendContract):
    home: Path

    @pytest.fixture
    def backend(self, plugin: ModuleType, tmp_path: Path) -> JobBackend:
        self.home = tmp_path / "home"
        return self.reconnect(None)

    def make_job(self, *scripts: Script) -> CustomJob:
        return script_job(*scripts, env=[EnvVar(name="PYTHONPATH", value=str(ROOT))])

    def reconnect(self, backend: JobBackend | None) -> JobBackend:
        settings = BackendSettings(home=self.home, project="local", region="us-central1")
        return open_backend("remote-shell", settings)


class Shell:
    """A command line that has the plug-in, and a project configured, in a process of its own."""

    def __init__(self, site: Path, folder: Path) -> None:
        (folder / "task.py").write_text("import os\nprint('trained in', os.environ.get('SEEN'))\n")
        (folder / "slow.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(600)\n")
        self.folder = folder
        self.commands = folder / "commands.txt"
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "VTRAIN_HOME": str(folder / "home"),
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(site))),
            "CLOUDSDK_CORE_PROJECT": "demo",
            "VTRAIN_BACKEND": "remote-shell",
            "REMOTE_SHELL": str(self._remote_shell()),
        }

    def _remote_shell(self) -> Path:
        """A shell without the caller's environment, which remembers what it was asked to run."""
        program = self.folder / "remote-shell"
        path = os.environ["PATH"]
        program.write_text(f'#!/bin/sh\necho "$1" >> {self.commands}\nexec env -i PATH={path} sh -c "$1"\n')
        program.chmod(0o755)
        return program

    def __call__(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "vtrain", "custom-jobs", *words]
        ended = subprocess.run(
            argv, cwd=self.folder, env=self.environ, capture_output=True, text=True, check=False
        )
        assert ended.returncode == code, ended.stderr
        return ended

    def create(self, script: str, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        trainer = (f"--script={script}", "--local-package-path=.", "--display-name=demo", "--env=SEEN=shell")
        return self("create", *trainer, *words, code=code)


@pytest.fixture
def shell(site: Path, tmp_path: Path) -> Shell:
    return Shell(site, tmp_path)


def test_dry_run(shell: Shell) -> None:
    ended = shell.create("task.py", "--dry-run")
    assert "Backend: remote-shell (VTRAIN_BACKEND)" in ended.stderr
    assert "Would start workerpool0-0: " in ended.stderr and "displayName: demo" in ended.stdout
    assert not shell.commands.exists() and not (shell.folder / "home" / "remote-shell").exists()


def test_a_job_from_its_first_line_to_its_removal(shell: Shell) -> None:
    ended = shell.create("task.py", "--stream-logs", "--format=json")
    assert "trained in shell" in ended.stderr, ended.stderr
    job = json.loads(ended.stdout)
    assert job["state"] == "JOB_STATE_SUCCEEDED" and job["name"].startswith("projects/local/")
    assert "run.sh" in shell.commands.read_text()
    (listed,) = json.loads(shell("list", "--format=json").stdout)
    assert listed["name"] == job["name"]
    shell("delete", job["name"], "--backend=remote-shell")
    assert json.loads(shell("list", "--format=json").stdout) == []


def test_a_job_outlives_its_command_until_it_is_cancelled(shell: Shell) -> None:
    name = json.loads(shell.create("slow.py", "--format=json").stdout)["name"]
    assert "runs" in shell("delete", name, code=1).stderr
    shell("cancel", name)
    assert "JOB_STATE_CANCELLED" in shell("wait", name, "--format=json", code=11).stdout
    shell("delete", name)


def test_a_local_run_ends_with_the_trainers_code(shell: Shell) -> None:
    (shell.folder / "task.py").write_text("print('out')\nraise SystemExit(3)\n")
    ended = shell("local-run", "--script=task.py", code=3)
    assert ended.stdout == "out\n"


def test_what_it_does_not_run_is_refused(shell: Shell) -> None:
    pool = "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=python:3"
    ended = shell("create", "--display-name=demo", pool, code=1)
    assert "runs one Python package" in ended.stderr
    flags = shell.create("task.py", "--dry-run", "--memory=1g", "--bake", code=2)
    assert "not by the backend remote-shell" in flags.stderr
    ended = shell.create("task.py", "--dry-run", "--simulate-preemption=3s", code=1)
    assert "--simulate-preemption is for jobs on this machine." in ended.stderr
