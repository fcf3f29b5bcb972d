"""Plays what stands behind Vertex AI's API: runs on this machine what the jobs of a `VertexService` ask for.

It knows as much of the service as these tests ask about: replicas start together, the primary's end is the
job's, the first that fails makes it fail, and what they wrote is in the log.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

from lib.logging_service import LoggingService
from lib.vertex_service import VertexService

from vtrain.messages.codec import from_document
from vtrain.messages.custom_job import CustomJob, CustomJobSpec
from vtrain.runtime.replica.vertex_view import ReplicaId, replica_argv, replica_ids
from vtrain.times import timestamp

TICK_SECONDS = 0.02
PROJECT_NUMBER = "424242424242"
JOB_HASH = "0123456789"
NO_PACKAGE = '{"python_module":"","package_uris":[],"job_args":[]}'
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
                if self._service.move(
                    name, "JOB_STATE_PENDING", state="JOB_STATE_RUNNING", startTime=timestamp()
                ):
                    self._jobs[name] = self._start(name)
            for name in list(self._jobs):
                if self._has_ended(name, self._jobs[name]):
                    del self._jobs[name]

    def _start(self, name: str) -> Processes:
        job = from_document(CustomJob, self._service.resources[name])
        job_id, region, spec = name.rpartition("/")[2], name.split("/")[3], job.job_spec
        processes = {}
        for member in replica_ids(spec):
            task = spec.worker_pool_specs[member.pool].container_spec
            assert task is not None
            _, *argv = replica_argv(task, program=((), ()))
            env = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"}
            env |= seen_on_the_service(spec, member, job_id, region)
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
        self._service.move(
            name, "JOB_STATE_RUNNING", state=state, endTime=timestamp(), updateTime=timestamp(), **error
        )
        return True

    def _has_begun(self, name: str, member: ReplicaId, code: int | None) -> bool:
        """Whether a replica has said something; on a service the others take their time, here they get it."""
        return code is not None or self._output(name, member).stat().st_size > 0

    def _output(self, name: str, member: ReplicaId) -> Path:
        return self._folder / f"{name.rpartition('/')[2]}-{member.name}.log"


def seen_on_the_service(spec: CustomJobSpec, member: ReplicaId, job_id: str, region: str) -> dict[str, str]:
    """The variables of a replica of a container job, written out as Vertex AI sets them.

    A rehearsal that took them from vtrain would compare vtrain with itself.
    """
    members, several = replica_ids(spec), len(replica_ids(spec)) > 1
    hosts = {m: f"cmle-training-workerpool{m.pool}-{JOB_HASH}-{m.index}:2222" for m in members}
    pools = [f"workerpool{m.pool}" if several else "chief" for m in members]
    tasks = ["chief" if m.pool == 0 else "worker" for m in members]
    own = members.index(member)
    cluster = {
        "cluster": _grouped(pools, [*hosts.values()]),
        "environment": "cloud",
        "task": {"type": pools[own], "index": member.index},
        "job": NO_PACKAGE,
    }
    env = {
        "CLUSTER_SPEC": json.dumps(cluster | ({"open_ports": [3333]} if several else {})),
        "CLOUD_ML_PROJECT_ID": PROJECT_NUMBER,
        "CLOUD_ML_JOB_ID": job_id,
        "CLOUD_ML_REGION": region,
        "CLOUD_ML_JOB": NO_PACKAGE,
        "CLOUD_ML_JOB_SA": f"service-{PROJECT_NUMBER}@gcp-sa-aiplatform-cc.iam.gserviceaccount.com",
        "AIP_USE_CUSTOM_CONTAINER": "true",
    }
    if several:
        tf_config = {
            "cluster": _grouped(tasks, [*hosts.values()]),
            "environment": "cloud",
            "job": NO_PACKAGE,
            "task": {"cloud": job_id, "index": member.index, "type": tasks[own]},
        }
        env |= {"TF_CONFIG": json.dumps(tf_config), "MASTER_PORT": "3333", "RANK": str(own)}
        env |= {"MASTER_ADDR": hosts[members[0]].partition(":")[0], "WORLD_SIZE": str(len(members))}
    if spec.output_uri:
        folders = {"AIP_MODEL_DIR": "model", "AIP_CHECKPOINT_DIR": "checkpoints"}
        folders["AIP_TENSORBOARD_LOG_DIR"] = "logs"
        env |= {key: f"{spec.output_uri.rstrip('/')}/{folder}/" for key, folder in folders.items()}
    return env | {"SEEN_FROM": f"{region}/$(RANK)/$(NOBODY)"}


def _grouped(kinds: list[str], hosts: list[str]) -> dict[str, list[str]]:
    return {kind: [host for own, host in zip(kinds, hosts, strict=True) if own == kind] for kind in kinds}


def _error(member: ReplicaId, code: int | None) -> dict[str, object]:
    status = 128 - code if code is not None and code < 0 else code
    return {"code": 3, "message": f"The replica {member.name} exited with a non-zero status of {status}."}


def _stop(processes: Processes) -> None:
    for process in processes.values():
        process.kill()
        process.wait()
