"""Memory: 50 running jobs that do nothing on the backend process; PSS of all that is vtrain's, per job.

Supervisor and shim count, the trainer itself does not. Memory that several share is divided among them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import measure
from logs import pss_of
from measure import judge, scene, until

MEGABYTES = 20
TRAINER = "import signal\nprint('idle', flush=True)\nsignal.pause()\n"
PROGRAMS = {"supervisor": "backends/supervise.py", "shim": "runtime/process/shim.py"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=50, help="how many (default: %(default)s)")
    count = parser.parse_args().jobs
    with scene() as folder:
        (folder / "idle.py").write_text(TRAINER)
        for _ in running(folder, 1):
            pass  # it has written the bytecode, which an installed vtrain has
        for sizes in running(folder, count):
            told = ", ".join(f"{name} {statistics.median(found):.2f} MB" for name, found in sizes.items())
            print(f"  {count} jobs; a median {told}")
            judge("PSS of vtrain's processes, a job", sum(map(sum, sizes.values())) / count, MEGABYTES, " MB")
    return min(measure.failures, 1)


def running(folder: Path, count: int) -> Iterator[dict[str, list[float]]]:
    """The sizes of the processes of so many jobs, while all of them run; they are ended afterwards."""
    from vtrain.backends import BackendSettings
    from vtrain.backends.registry import open_backend
    from vtrain.messages import states
    from vtrain.messages.custom_job import (
        CustomJob,
        CustomJobSpec,
        EnvVar,
        PythonPackageSpec,
        WorkerPoolSpec,
    )

    settings = BackendSettings(home=folder / "home", project="local", region="us-central1")
    backend = open_backend("process", settings)
    env = (EnvVar(name="PYTHONPATH", value=str(folder)),)
    pool = WorkerPoolSpec(python_package_spec=PythonPackageSpec(python_module="idle", env=env))
    plan = backend.plan(CustomJob(display_name="idle", job_spec=CustomJobSpec(worker_pool_specs=(pool,))))
    names = [backend.submit(plan).name for _ in range(count)]
    until(lambda: all(backend.get(name).state == states.RUNNING for name in names), pause=0.2)
    try:
        yield {name: pss_of(f"{program}\0{folder}/home/jobs/") for name, program in PROGRAMS.items()}
    finally:
        for name in names:
            backend.cancel(name)
        until(lambda: all(states.has_ended(backend.get(name).state) for name in names), pause=0.2)


if __name__ == "__main__":
    sys.exit(main())
