"""Plays what stands behind Vertex AI's API: runs on this machine what the jobs of a stand-in ask for.

It knows as much of the service as these tests ask about: replicas start together, the primary's end is the
job's, the first that fails makes it fail, and what they wrote is in the log.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

from logging_service import LoggingService
from vertex_service import VertexService, now

from vtrain.engine.replica import (
    ReplicaId,
    Surroundings,
    container_argv,
    replica_environment,
    service_hosts,
)
from vtrain.messages.codec import from_document
from vtrain.messages.custom_job import CustomJob

TICK_SECONDS = 0.02
PROJECT_NUMBER = "424242424242"
Processes = dict[ReplicaId, "subprocess.Popen[bytes]"]


class Stage:
    """Runs jobs until the block ends."""

    def __init__(self, service: VertexService, logs: LoggingService, folder: Path) -> None:
        self._service = service
        self._logs = logs
        self._folder = folder
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._jobs: dict[str, Processes] = {}

    def __enter__(self) -> Stage:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._thread.join()
        for processes in self._jobs.values():
            _stop(processes)

    def _run(self) -> None:
        while not self._closed.wait(TICK_SECONDS):
            for name in list(self._service.resources):
                if self._service.move(name, "JOB_STATE_PENDING", state="JOB_STATE_RUNNING", startTime=now()):
                    self._jobs[name] = self._start(name)
            for name in list(self._jobs):
                if self._has_ended(name, self._jobs[name]):
                    del self._jobs[name]

    def _start(self, name: str) -> Processes:
        job = from_document(CustomJob, self._service.resources[name])
        job_id, region, spec = name.rpartition("/")[2], name.split("/")[3], job.job_spec
        around = Surroundings(
            job_id=job_id,
            region=region,
            hosts=service_hosts(spec, job_id),
            project_number=PROJECT_NUMBER,
            output=spec.output_uri.rstrip("/"),
        )
        processes = {}
        for member in around.hosts:
            task = spec.worker_pool_specs[member.pool].container_spec
            assert task is not None
            _, *argv = container_argv(task, (), ())
            env = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"} | replica_environment(
                spec, member, around
            )
            with self._output(name, member).open("wb") as output:
                processes[member] = subprocess.Popen(
                    [sys.executable, *argv], env=env, stdout=output, stderr=output
                )
        return processes

    def _has_ended(self, name: str, processes: Processes) -> bool:
        """Whether the job has ended now, or was cancelled."""
        codes = {member: process.poll() for member, process in processes.items()}
        failed = [member for member, code in codes.items() if code]
        cancelled = self._service.resources[name]["state"] != "JOB_STATE_RUNNING"
        done = next(iter(codes.values())) == 0 and all(self._has_begun(name, *item) for item in codes.items())
        if not (failed or cancelled or done):
            return False
        _stop(processes)
        for member in processes:
            for line in self._output(name, member).read_text(encoding="utf-8").splitlines():
                self._logs.write(line, job=name.rpartition("/")[2], task=member.name)
        error = {"error": _error(failed[0], codes[failed[0]])} if failed else {}
        state = "JOB_STATE_FAILED" if failed else "JOB_STATE_SUCCEEDED"
        self._service.move(name, "JOB_STATE_RUNNING", state=state, endTime=now(), updateTime=now(), **error)
        return True

    def _has_begun(self, name: str, member: ReplicaId, code: int | None) -> bool:
        """Whether a replica has said something; on a service the others take their time, here they get it."""
        return code is not None or self._output(name, member).stat().st_size > 0

    def _output(self, name: str, member: ReplicaId) -> Path:
        return self._folder / f"{name.rpartition('/')[2]}-{member.name}.log"


def _error(member: ReplicaId, code: int | None) -> dict[str, object]:
    status = 128 - code if code is not None and code < 0 else code
    return {"code": 3, "message": f"The replica {member.name} exited with a non-zero status of {status}."}


def _stop(processes: Processes) -> None:
    for process in processes.values():
        process.kill()
        process.wait()
