"""Scripted jobs in containers."""

from __future__ import annotations

from pathlib import Path

import msgspec

import vtrain
from vtrain.backends import BackendSettings, Mount, ReplicaOptions
from vtrain.messages.custom_job import CustomJob, EnvVar, WorkerPoolSpec
from vtrain.testing.script import Script, script_job

ROOT = str(Path(vtrain.__file__).parent.parent)
SOURCES = "/src"
PLAYER_MOUNT = Mount(source=ROOT, target=SOURCES, read_only=True)
"""The scripted trainer is a module of vtrain, which the base image does not have."""


def docker_settings(home: Path, **options: object) -> BackendSettings:
    """Settings with which the scripted trainer is found in containers."""
    wanted = {"mounts": (PLAYER_MOUNT,), "pull": "never", **options}
    chosen = msgspec.structs.replace(ReplicaOptions(), **wanted)
    return BackendSettings(home=home, project="local", region="us-central1", options=chosen)


def docker_job(image: str, *scripts: Script, **spec: object) -> CustomJob:
    """A job of one replica per script, in containers of that executor image."""
    job = script_job(*scripts, env=[EnvVar(name="PYTHONPATH", value=SOURCES)])
    pools = tuple(_in_image(pool, image) for pool in job.job_spec.worker_pool_specs)
    spec = {"worker_pool_specs": pools, **spec}
    return msgspec.structs.replace(job, job_spec=msgspec.structs.replace(job.job_spec, **spec))


def _in_image(pool: WorkerPoolSpec, image: str) -> WorkerPoolSpec:
    assert pool.python_package_spec is not None
    task = msgspec.structs.replace(pool.python_package_spec, executor_image_uri=image)
    return msgspec.structs.replace(pool, python_package_spec=task)
