"""The backends of one home, opened when a request needs them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vtrain.backends import BackendSettings, JobBackend, ResourceBackend
from vtrain.backends.model_interface import ModelEditingBackend, ModelRegistryBackend
from vtrain.backends.registry import choose_for, find_backend, open_found
from vtrain.emulator.vertex.vertex_refusals import VertexRefusal
from vtrain.messages.custom_job import PythonPackageSpec
from vtrain.messages.names import LOCAL_PROJECT
from vtrain.messages.resources import Job, spec_of

MOST_OPENED = 50
"""Backends that a thread keeps open: one for each kind and region."""


class OpenBackends:
    """One backend of each kind for each thread and region.

    A connection to the store belongs to the thread that opened it.
    """

    def __init__(self, home: Path, backend: str, aip_dirs: str, port: int = 0) -> None:
        self._home = home
        self._backend = backend
        self._aip_dirs = aip_dirs
        self._port = port
        self._opened = threading.local()

    def runner(self, job: Job, location: str) -> JobBackend:
        """The backend that runs a new job."""
        spec = spec_of(job)
        tasks = [pool.task for pool in spec.worker_pool_specs if pool.task] if spec else []
        images: tuple[list[str], list[str]] = ([], [])
        for task in tasks:
            is_package = isinstance(task, PythonPackageSpec)
            images[is_package].append(task.executor_image_uri if is_package else task.image_uri)  # type: ignore[union-attr]
        chosen = choose_for(self._backend, tuple(images[0]), tuple(images[1]))
        runner: JobBackend = self.open_part("jobs", chosen.backend.name, location)
        return runner

    def jobs(self, location: str) -> JobBackend:
        """The backend that looks after the jobs that are there, wherever they run."""
        keeper: JobBackend = self.open_part("jobs", find_backend(self._backend).name, location)
        return keeper

    def resources(self, location: str) -> ResourceBackend:
        """The backend that keeps persistent resources."""
        found: ResourceBackend = self.open_part("resources", find_backend(self._backend).name, location)
        return found

    def models(self, location: str) -> ModelRegistryBackend:
        """The backend that keeps models."""
        found: ModelRegistryBackend = self.open_part("models", find_backend(self._backend).name, location)
        return found

    def editing_models(self, location: str) -> ModelEditingBackend:
        """The same. Raises VertexRefusal where it changes none."""
        found = self.models(location)
        if not isinstance(found, ModelEditingBackend):
            raise VertexRefusal("UNIMPLEMENTED", "The backend of the emulator's jobs changes no models.")
        return found

    def open_part(self, kind: str, name: str, location: str) -> Any:
        """The part of the backend `name` that keeps `jobs`, `resources` or `models`, opened for a region."""
        opened = self._opened.__dict__.setdefault("backends", {})
        key = (kind, name, location)
        if len(opened) >= MOST_OPENED:  # each may hold a connection to the store
            opened.clear()
        if key not in opened:
            settings = BackendSettings(
                home=self._home,
                project=LOCAL_PROJECT,
                region=location,
                aip_dirs=self._aip_dirs,
                emulator_port=self._port,
            )
            backend = find_backend(name)
            openers: dict[str, Callable[[], Any]] = {
                "jobs": lambda: open_found(backend, settings),
                "resources": lambda: backend.open_resources(settings),
                "models": lambda: backend.open_models(settings),
            }
            opened[key] = openers[kind]()
        return opened[key]
