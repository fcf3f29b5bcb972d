"""The messages of the installed google-cloud-aiplatform and its relative, without the rest of them.

The whole library takes four seconds and 110 MB to import, of which its messages are a tenth. Those of a
service are loaded by its first call, and by putting the two packages above them in place without running
their `__init__`, in a process that imports nothing else of the library. Measured by `benchmarks/emulator.py`.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

from vtrain.messages.codec import snake_case

VERSIONS = ("v1", "v1beta1")


@cache
def load_message(version: str, service: str, name: str) -> Any:
    """The class of a message: of the module of a service, such as `JobService`, or of a module of its own."""
    package = f"google.cloud.aiplatform_{version}"
    _put_in_place(package)
    _put_in_place(f"{package}.types")
    own = vars(import_module(f"{package}.types.{snake_case(service)}")).get(name)
    return (own or getattr(import_module(f"{package}.types.{snake_case(name)}"), name)).pb()


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
