"""The program of a job's supervisor.

`supervise.py FOLDER LOCK` supervises the job in `FOLDER`; `LOCK` is the descriptor of its lock, held.
`supervise.py FOLDER BACKEND CHANNEL` loads that backend first, and gets the lock by a socket once the job
exists.
"""

from __future__ import annotations

import os
import sys

if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):  # noqa: PTH100, PTH120
    del sys.path[0]  # this folder: its modules would stand for packages of the same name, such as `docker`

import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import vtrain.lean_msgspec  # noqa: F401 - before those that import msgspec
from vtrain.backends import PREPARE, SUPERVISE
from vtrain.backends.registry import runtime_backend
from vtrain.errors import VtrainError
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.supervision.base import Supervisor, supervise
from vtrain.runtime.supervisor_process import await_job
from vtrain.special_files import MOST_FRAMES


def main(folder: str, lock: int) -> None:
    """Supervise the job in `folder`: a pipeline, a study, or replicas with the launcher of its backend."""
    os.chdir(folder)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    job = JobFolder(Path(folder))
    order = job.order()
    supervise(job, lock, SUPERVISE, _supervisor_of(order))


def _supervisor_of(order: JobOrder) -> Callable[..., Supervisor[Any]]:
    if order.pipeline is not None:
        from vtrain.runtime.pipelines.pipeline_supervisor import PipelineSupervisor

        return PipelineSupervisor
    if order.study is not None:
        from vtrain.runtime.tuning.study_supervisor import StudySupervisor

        return StudySupervisor
    from vtrain.runtime.supervision.job_supervisor import JobSupervisor

    return partial(JobSupervisor, launcher=runtime_backend(order.backend).launcher(), prepare=PREPARE)


def stand_by(folder: str, backend: str, channel: int) -> None:
    """Load what a supervisor needs, then wait for the job."""
    import vtrain.runtime.supervision.job_supervisor  # noqa: F401

    with suppress(VtrainError):  # the command says so
        runtime_backend(backend or "process").launcher()  # most of it is what every launcher needs
    lock = await_job(Path(folder), channel)
    if lock >= 0:
        main(folder, lock)


if __name__ == "__main__":
    sys.setrecursionlimit(MOST_FRAMES)
    if len(sys.argv) == 3:
        main(sys.argv[1], int(sys.argv[2]))
    else:
        stand_by(sys.argv[1], sys.argv[2], int(sys.argv[3]))
