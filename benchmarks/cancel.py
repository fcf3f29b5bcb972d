"""Cancel of a running job of four replicas that obey SIGTERM: from the request to the end.

The request is written to the store in this process, and the end is read there: no command's start is counted.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import measure
from docker_scene import docker_scene
from measure import BASE_IMAGE, judge, until

if TYPE_CHECKING:
    from vtrain.backends import JobBackend
    from vtrain.messages.custom_job import CustomJob

LIMIT_SECONDS = 1.0
REPLICAS = 4
TRAINER = "import time\nprint('ready', flush=True)\ntime.sleep(3600)\n"
BACKENDS = ("process", "docker")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="jobs of each backend (default: %(default)s)")
    parser.add_argument("--backend", choices=BACKENDS, help="only this one (default: both)")
    parser.add_argument("--image", default=BASE_IMAGE, help="image with Python (default: %(default)s)")
    options = parser.parse_args()
    with docker_scene() as folder:
        package = sdist(folder)
        for backend in (options.backend,) if options.backend else BACKENDS:
            job = job_of(package, options.image if backend == "docker" else "")
            taken = [cancelled(backend, folder / "home", job) for _ in range(options.runs + 1)][1:]
            print(f"  {backend}: {', '.join(f'{seconds:.2f}' for seconds in taken)} s")
            judge(f"cancel of {REPLICAS} replicas, {backend}", statistics.median(taken), LIMIT_SECONDS, " s")
    return min(measure.failures, 1)


def cancelled(name: str, home: Path, job: CustomJob) -> float:
    """Seconds from the request to the job's end, once all its replicas have written a line."""
    from vtrain.backends import BackendSettings
    from vtrain.backends.registry import open_backend
    from vtrain.messages import states

    backend = open_backend(name, BackendSettings(home=home, project="local", region="us-central1"))
    submitted = backend.submit(backend.plan(job)).name
    until(lambda: ready(backend, submitted) == REPLICAS)
    started = time.perf_counter()
    backend.cancel(submitted)
    until(lambda: states.has_ended(backend.get(submitted).state))
    return time.perf_counter() - started


def ready(backend: JobBackend, name: str) -> int:
    """How many replicas have written their line."""
    from vtrain.messages.log import LogQuery

    return sum(entry.message == "ready" for entry in backend.logs(LogQuery(name=name)).entries)


def job_of(package: Path, image: str) -> CustomJob:
    """A job of four replicas in two pools."""
    from vtrain.messages.custom_job import CustomJob, CustomJobSpec, PythonPackageSpec, WorkerPoolSpec

    task = PythonPackageSpec(
        executor_image_uri=image, package_uris=(f"file://{package}",), python_module="trainer.task"
    )
    pools = tuple(
        WorkerPoolSpec(python_package_spec=task, replica_count=count) for count in (1, REPLICAS - 1)
    )
    return CustomJob(display_name="cancel", job_spec=CustomJobSpec(worker_pool_specs=pools))


def sdist(folder: Path) -> Path:
    """The trainer as a package."""
    from vtrain.packaging.sdist import build_sdist, plan_sdist
    from vtrain.packaging.source import TrainerSource

    (folder / "code" / "trainer").mkdir(parents=True)
    (folder / "code" / "trainer" / "task.py").write_text(TRAINER)
    source = TrainerSource(folder=folder / "code", python_module="trainer.task")
    return build_sdist(plan_sdist(source), folder / "packages").sdist


if __name__ == "__main__":
    sys.exit(main())
