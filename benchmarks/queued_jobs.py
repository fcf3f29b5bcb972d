"""Queued jobs behind one that fills the machine: vtrain's processes and their PSS, for 200 against 20."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import measure
from idle_jobs import PROGRAMS, TRAINER
from logs import pss_of
from measure import judge, scene, until

FEW = 20
RATIO = 1.5
PROCESSES = 3
"""Supervisor and shim of the job that runs, and the supervisor of the first in line."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200, help="how many wait (default: %(default)s)")
    count = parser.parse_args().jobs
    with scene() as folder:
        (folder / "idle.py").write_text(TRAINER)
        few, many = queued(folder, FEW), queued(folder, count)
        for sizes, number in ((few, FEW), (many, count)):
            print(f"  {number} queued jobs: {len(sizes)} processes, {sum(sizes):.1f} MB")
        judge(f"processes of vtrain with {count} queued jobs", len(many), PROCESSES)
        judge(f"PSS with {count} queued jobs against {FEW}", sum(many) / sum(few), RATIO, " times")
    return min(measure.failures, 1)


def queued(folder: Path, count: int) -> list[float]:
    """The sizes of vtrain's processes while so many jobs wait; all are ended afterwards."""
    from vtrain.backends import BackendSettings
    from vtrain.backends.registry import open_backend
    from vtrain.messages import states
    from vtrain.messages.custom_job import (
        CustomJob,
        CustomJobSpec,
        EnvVar,
        MachineSpec,
        PythonPackageSpec,
        WorkerPoolSpec,
    )

    os.environ["VTRAIN_MEMORY"] = "16g"
    home = folder / f"home-{count}"
    backend = open_backend("process", BackendSettings(home=home, project="local", region="us-central1"))
    task = PythonPackageSpec(python_module="idle", env=(EnvVar(name="PYTHONPATH", value=str(folder)),))
    pool = WorkerPoolSpec(python_package_spec=task, machine_spec=MachineSpec(machine_type="n1-standard-4"))
    plan = backend.plan(CustomJob(display_name="idle", job_spec=CustomJobSpec(worker_pool_specs=(pool,))))
    names = [backend.submit(plan).name for _ in range(count + 1)]
    until(lambda: backend.get(names[0]).state == states.RUNNING, pause=0.2)
    until(lambda: all(backend.get(name).state == states.QUEUED for name in names[1:]), pause=0.2)
    try:
        return [size for program in PROGRAMS.values() for size in pss_of(f"{program}\0{home}/jobs/")]
    finally:
        for name in reversed(names):
            backend.cancel(name)
        until(lambda: all(states.has_ended(backend.get(name).state) for name in names), pause=0.2)


if __name__ == "__main__":
    sys.exit(main())
