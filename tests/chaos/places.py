"""Where chaos happens: a local backend with a home of its own, its jobs, and its commands."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import counting_trainer
import msgspec
from lib.docker_engines import connected
from lib.waiting import wait_until
from tally import Tally

import vtrain
from vtrain.backends import BackendSettings, Query
from vtrain.backends.local import LocalBackend
from vtrain.backends.registry import open_backend
from vtrain.containers.discovery import EngineAddress
from vtrain.containers.engine import Engine
from vtrain.messages import states
from vtrain.messages.codec import to_document
from vtrain.messages.custom_job import (
    ContainerSpec,
    CustomJob,
    CustomJobSpec,
    EnvVar,
    GcsDestination,
    MachineSpec,
    PythonPackageSpec,
    Scheduling,
    WorkerPoolSpec,
)
from vtrain.messages.names import CUSTOM_JOBS
from vtrain.messages.resources import Job
from vtrain.runtime.folder import JobFolder

ROOT = Path(vtrain.__file__).parents[1]
TRAINER = Path(counting_trainer.__file__)
PATIENCE_SECONDS = 120.0
BUCKET = "chaos"


class Place:
    """One local backend in one home. `address` is that of the Docker engine that its containers run on."""

    def __init__(
        self, kind: str, home: Path, seed: str, *, image: str = "", address: EngineAddress | None = None
    ) -> None:
        self.kind, self.home, self.image, self.address = kind, home, image, address
        self.chance = random.Random(seed)
        self.tally = Tally(kind)
        self.settings = BackendSettings(home=home, project="local", region="us-central1")
        self._jobs = 0
        self._commands: list[subprocess.Popen[bytes]] = []

    @property
    def backend(self) -> LocalBackend:
        """The backend as another command would open it."""
        backend = open_backend(self.kind, self.settings)
        assert isinstance(backend, LocalBackend)
        return backend

    @contextmanager
    def engine(self) -> Iterator[Engine]:
        """A connection to the engine."""
        assert self.address is not None
        with connected(self.address) as engine:
            yield engine

    def job(
        self,
        options: dict[str, object] | None = None,
        *,
        pools: tuple[int, ...] = (1,),
        code: str = "",
        **scheduling: object,
    ) -> CustomJob:
        """A job of counting trainers, with so many replicas in its pools and checkpoints of its own.

        With `code` of another trainer.
        """
        self._jobs += 1
        title = f"chaos{self._jobs}"
        spec = CustomJobSpec(
            worker_pool_specs=tuple(self._pool(count, json.dumps(options or {}), code) for count in pools),
            base_output_directory=GcsDestination(output_uri_prefix=f"gs://{BUCKET}/{title}"),
            scheduling=Scheduling(**scheduling) if scheduling else None,  # type: ignore[arg-type]
        )
        return CustomJob(display_name=title, job_spec=spec)

    def _pool(self, replicas: int, options: str, code: str) -> WorkerPoolSpec:
        if self.kind == "docker":
            command = ("python3", "-u", "-c", code or TRAINER.read_text())
            container = ContainerSpec(image_uri=self.image, command=command, args=(options,))
            return WorkerPoolSpec(container_spec=container, replica_count=replicas)
        module = f"trainer{self._jobs}"
        (self.home.parent / f"{module}.py").write_text(code or TRAINER.read_text())
        env = (EnvVar(name="PYTHONPATH", value=str(self.home.parent)),)
        package = PythonPackageSpec(python_module=module, args=(options,), env=env)
        return WorkerPoolSpec(python_package_spec=package, replica_count=replicas)

    def submit(self, job: CustomJob) -> str:
        """Submit a job; its name."""
        backend = self.backend
        return backend.submit(backend.plan(job)).name

    def checkpoints(self, title: str) -> Path:
        """Where the trainers of the job of that display name keep their books."""
        return self.home / "buckets" / BUCKET / title / "checkpoints"

    def enough(self, *titles: str) -> None:
        """Let the trainers of these jobs end by themselves."""
        for title in titles:
            folder = self.checkpoints(title)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "enough").touch()

    def folder(self, name: str) -> JobFolder:
        """The job's folder."""
        return JobFolder(self.home / "jobs" / name.rpartition("/")[2])

    def jobs(self) -> list[CustomJob]:
        """All jobs of the home, newest first."""
        query = Query(collection=CUSTOM_JOBS, project="local", page_size=100_000)
        return [job for job in self.backend.list(query).jobs if isinstance(job, CustomJob)]

    def named(self, title: str) -> str:
        """The name of the job with that display name; empty where there is none."""
        return next((job.name for job in self.jobs() if job.display_name == title), "")

    def ended(self, name: str) -> CustomJob:
        """The job, once it has ended: whoever looks at it brings it there."""
        wait_until(lambda: states.has_ended(self.backend.get(name).state), f"{name} does not end")
        return self.backend.get(name)

    def command(self, *words: str, job: Job | None = None) -> subprocess.Popen[bytes]:
        """A command line of vtrain, started; `job` is its --config."""
        argv = [sys.executable, "-m", "vtrain", "-q", *words]
        if job is not None:
            file = self.home.parent / f"{job.display_name}.json"
            file.write_bytes(msgspec.json.encode(to_document(job)))
            argv += [f"--backend={self.kind}", f"--config={file}"]
        env = os.environ | {"PYTHONPATH": str(ROOT), "VTRAIN_HOME": str(self.home)}
        out = subprocess.PIPE
        process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=ROOT)
        self._commands.append(process)
        return process

    def close(self) -> None:
        """End the commands that still run."""
        for process in self._commands:
            process.kill()
            process.communicate()

    def run(self, *words: str) -> str:
        """What a command line writes to stdout; it has to succeed."""
        process = self.command(*words)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, err.decode()
        return out.decode()


def on_machine(spec: CustomJobSpec, machine_type: str) -> CustomJobSpec:
    """The job with pools that claim memory."""
    machine = MachineSpec(machine_type=machine_type)
    pools = (msgspec.structs.replace(pool, machine_spec=machine) for pool in spec.worker_pool_specs)
    return msgspec.structs.replace(spec, worker_pool_specs=tuple(pools))
