"""The program of a job's supervisor: `python supervise.py FOLDER LOCK`. `LOCK` is the job's lock, held."""

from __future__ import annotations

import os
import sys

if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):  # noqa: PTH100, PTH120
    del sys.path[0]  # this folder: its modules would stand for packages of the same name, such as `docker`

import signal
from importlib import import_module
from pathlib import Path

from vtrain.engine.folder import JobFolder
from vtrain.engine.launcher import Launcher

LAUNCHERS = {
    "process": "vtrain.backends.process:ProcessLauncher",
    "docker": "vtrain.backends.docker.launcher:DockerLauncher",
}


def make_launcher(backend: str) -> Launcher:
    """The launcher of a local backend."""
    module, _, name = LAUNCHERS[backend].partition(":")
    launcher: Launcher = getattr(import_module(module), name)()
    return launcher


def main(folder: str, lock: int) -> None:
    """Supervise the job in `folder`, with the launcher that its backend has."""
    from vtrain.engine.supervisor import supervise

    os.chdir(folder)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    supervise(Path(folder), make_launcher(JobFolder(Path(folder)).order().backend), lock)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
