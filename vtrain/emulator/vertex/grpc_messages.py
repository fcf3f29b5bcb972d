"""The messages of the installed google-cloud-aiplatform and its relative, without the rest of them.

The whole library takes four seconds and 110 MB to import, of which its messages are a tenth. They are
loaded by putting the two packages above them in place without running their `__init__`, in a process that
imports nothing else of the library. Measured by `benchmarks/emulator.py`.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

VERSIONS = ("v1", "v1beta1")
_SERVICES = (
    "job_service",
    "pipeline_service",
    "persistent_resource_service",
    "model_service",
    "endpoint_service",
    "prediction_service",
    "tensorboard_service",
    "dataset_service",
    "metadata_service",
)
_RESOURCES = (
    "custom_job",
    "hyperparameter_tuning_job",
    "training_pipeline",
    "persistent_resource",
    "model",
    "endpoint",
    "batch_prediction_job",
    "tensorboard",
    "tensorboard_experiment",
    "tensorboard_run",
    "tensorboard_time_series",
    "dataset",
    "metadata_schema",
    "metadata_store",
    "context",
    "execution",
    "artifact",
    "lineage_subgraph",
)


@cache
def load_messages(version: str) -> dict[str, Any]:
    """The message classes of a version's services by name, such as `CreateCustomJobRequest`."""
    package = f"google.cloud.aiplatform_{version}"
    _put_in_place(package)
    _put_in_place(f"{package}.types")
    found: dict[str, Any] = {}
    for name in (*_SERVICES, *_RESOURCES):
        module = import_module(f"{package}.types.{name}")
        found |= {key: value for key, value in vars(module).items() if not key.startswith("_")}
    return found


def load_project_messages() -> tuple[Any, Any]:
    """The classes of a request for a project, and of the project, of Resource Manager."""
    package = "google.cloud.resourcemanager_v3"
    _put_in_place(package)
    _put_in_place(f"{package}.types")
    projects = import_module(f"{package}.types.projects")
    return projects.GetProjectRequest.pb(), projects.Project.pb()


def _put_in_place(package: str) -> None:
    """Make a package importable from, without its own code, unless it is there."""
    if package in sys.modules:
        return
    spec = find_spec(package)
    assert spec is not None
    module: ModuleType = module_from_spec(spec)
    sys.modules[package] = module
