"""A running replica of the backend `docker`, from inside: commands in its container."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus

from vtrain.backends import ReplicaUsage
from vtrain.backends.docker.container import container_order
from vtrain.containers.engine import Engine, connect, engine_errors
from vtrain.containers.exec_session import ExecSession
from vtrain.errors import CommandError, ConflictError, DamagedError, EngineError
from vtrain.runtime.folder import DamagedFileError, ReplicaFolder

SHELL = ("/bin/sh", "-c", "if command -v bash >/dev/null 2>&1; then exec bash; else exec sh; fi")
NOT_FOUND_CODE = 127
ALL_GPUS = -1
"""The number of GPUs that means all of them."""


class RunningContainer:
    """The container of one replica."""

    def __init__(self, replica: ReplicaFolder) -> None:
        """Raises DamagedError where the file that describes the container cannot be read."""
        self.name = replica.name
        try:
            self._order = container_order(replica)
        except DamagedFileError as error:
            raise DamagedError(f"{error}: nothing can be run in {replica.name}.") from error

    @property
    def shell(self) -> tuple[str, ...]:
        """The image's bash, or its sh."""
        return SHELL

    def execute(self, argv: tuple[str, ...], *, terminal: bool) -> int:
        """Run a command by the engine's exec, as the container's user in its working directory.

        Raises ConflictError where the container has ended, CommandError where the image has no such program.
        """
        env = [f"TERM={os.environ['TERM']}"] if terminal and os.environ.get("TERM") else []
        with self._engine() as engine, engine_errors("run a command in the container"):
            return ExecSession(engine.calls, self._order.name, argv, env=env, terminal=terminal).run()

    def usage(self) -> ReplicaUsage | None:
        """The engine's statistics of the container, and the GPUs that it was given."""
        try:
            with closing(connect(self._order.engine)) as engine, engine_errors("say what the container uses"):
                path = f"/containers/{self._order.name}/stats"
                stats = engine.calls.get(path, **{"stream": 0, "one-shot": 1})
        except EngineError:  # it has just ended, or the engine is away for a moment
            return None
        memory, processor = stats.get("memory_stats") or {}, stats.get("cpu_stats") or {}
        kept = memory.get("stats") or {}
        # Files in memory, which the kernel can drop: of control groups of version 1, and of version 2.
        droppable = kept.get("total_inactive_file") or kept.get("inactive_file") or 0
        requests = self._order.config["HostConfig"].get("DeviceRequests") or []
        gpus = tuple(gpu for request in requests for gpu in request.get("DeviceIDs") or ())
        has_all_gpus = any(request.get("Count") == ALL_GPUS for request in requests)
        return ReplicaUsage(
            cpu_seconds=((processor.get("cpu_usage") or {}).get("total_usage") or 0) / 1e9,
            memory_bytes=max((memory.get("usage") or 0) - droppable, 0),
            memory_limit=self._order.memory_bytes,
            processes=(stats.get("pids_stats") or {}).get("current") or 0,
            gpus=None if has_all_gpus else gpus,
        )

    @contextmanager
    def _engine(self) -> Iterator[Engine]:
        try:
            with closing(connect(self._order.engine)) as engine:
                yield engine
        except EngineError as error:
            if error.http_status in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                raise ConflictError(f"{self.name} has just ended: its container does not run.") from error
            if "executable file not found" in error.words or "no such file" in error.words:
                raise CommandError(error.message, NOT_FOUND_CODE) from error
            raise
