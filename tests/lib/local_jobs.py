"""What tests of local backends ask of a job, and of the supervisor behind it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import msgspec

import vtrain
from lib.supervisors import supervisor_of
from lib.waiting import wait_until
from vtrain.backends.local import LocalBackend
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob, CustomJobSpec, EnvVar, PythonPackageSpec, WorkerPoolSpec
from vtrain.messages.log import LogQuery
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.locks import lock_holder
from vtrain.testing.script import Script, script_job

PRIMARY = "workerpool0-0"
PATIENCE_SECONDS = 150.0


def submit(backend: LocalBackend, job: CustomJob) -> str:
    """Submit a job; its name."""
    return backend.submit(backend.plan(job)).name


def ended(backend: LocalBackend, name: str) -> CustomJob:
    """The job, once it has ended."""
    wait_until(lambda: states.has_ended(backend.get(name).state))
    return backend.get(name)


def lines(backend: LocalBackend, name: str, task: str = PRIMARY) -> list[str]:
    """All that a replica has written until now."""
    page = backend.logs(LogQuery(name=name, task_name=task, limit=2**26))
    return [line for entry in page.entries for line in entry.message.split("\n")]


def folder_of(home: Path, name: str) -> JobFolder:
    """The job's folder."""
    return JobFolder(home / "jobs" / name.rpartition("/")[2])


def processes_of(home: Path) -> dict[int, bytes]:
    """Living processes with a job of this home on their command line, or their temporary folder in it."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        marker = f"{home}/jobs/".encode()
        if command and (marker in command or b"TMPDIR=" + marker in environment):
            found[int(entry.name)] = command
    return found


def kill(process: int) -> None:
    """SIGKILL to this process. To the kernel 0 would mean all of our own group, and -1 everybody."""
    assert process > 0, "it has ended already"
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def kill_supervisor(folder: JobFolder) -> None:
    """Nobody looks after the job from now on, until somebody asks about it."""
    supervisor = supervisor_of(folder)
    kill(supervisor)
    wait_until(lambda: supervisor_of(folder) != supervisor)


def kill_shim(folder: JobFolder, replica: str = PRIMARY) -> None:
    """The process that keeps a replica's lines; it takes the replica along."""
    lock = folder.replica(replica).lock
    wait_until(lambda: lock_holder(lock) > 0)
    kill(lock_holder(lock))


def info(job: CustomJob) -> dict[str, str]:
    """The details of a failed job's error, and its reason."""
    assert job.error is not None, job
    detail = job.error.details[0]
    return {"reason": detail["reason"], **detail["metadata"]}


def reason(job: CustomJob) -> str:
    """Why the job failed, in one word."""
    return info(job)["reason"]


ROOT = str(Path(vtrain.__file__).parent.parent)


def scripted(*scripts: Script, **spec: object) -> CustomJob:
    job = script_job(*scripts, env=[EnvVar(name="PYTHONPATH", value=ROOT)])
    return msgspec.structs.replace(job, job_spec=msgspec.structs.replace(job.job_spec, **spec))


def snippet_job(folder: Path, code: str, *args: str, pools: int = 1, **spec: object) -> CustomJob:
    folder.mkdir(exist_ok=True)
    (folder / "snippet.py").write_text(code)
    env = (EnvVar(name="PYTHONPATH", value=str(folder)),)
    task = PythonPackageSpec(python_module="snippet", args=args, env=env)
    pool_specs = tuple(WorkerPoolSpec(python_package_spec=task) for _ in range(pools))
    return CustomJob(display_name="snippet", job_spec=CustomJobSpec(worker_pool_specs=pool_specs, **spec))
