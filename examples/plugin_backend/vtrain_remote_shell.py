"""A backend for vtrain: jobs of one replica, each started through a remote shell such as `ssh HOST`.

`REMOTE_SHELL` is the program, which gets one argument: the command. It has to reach a machine that shares
vtrain's home; the default is a fresh shell of this machine. Each job has a folder, and nothing is in memory.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from vtrain.backends import PROTOCOL_VERSION, BackendSettings, Page, Plan, Query, Replica
from vtrain.backends.interface import Backend
from vtrain.core.verdict import ERROR_INFO
from vtrain.errors import ConflictError, NotFoundError, UnavailableError
from vtrain.messages import states
from vtrain.messages.codec import from_document, to_document
from vtrain.messages.custom_job import CustomJob, PythonPackageSpec
from vtrain.messages.log import MAX_ENTRY_BYTES, LogEntry, LogPage, LogQuery
from vtrain.messages.names import CUSTOM_JOBS, ResourceName, parse_name
from vtrain.messages.resources import Job
from vtrain.messages.rules import check_job
from vtrain.messages.structs import Status

REPLICA = "workerpool0-0"
FRESH_SHELL = f"env -i PATH={os.defpath} sh -c"
GRACE_SECONDS = 2
START_SECONDS = 30
"""A job whose script has not said its number by then was never started."""

SCRIPT = """\
cd {folder} || exit
trap : TERM  # a signal to the group ends the trainer; this shell writes how
echo $$ > pid
if [ ! -e cancelled ]; then
  {install} && touch started && {trainer} >> log 2>&1
  echo $? > exit.new && mv exit.new exit
fi
"""


class RemoteShell(Backend):
    """What vtrain asks before a job is there. The defaults suit a backend whose jobs live here."""

    name = "remote-shell"

    def open(self, settings: BackendSettings) -> RemoteJobs:
        return RemoteJobs(settings)


class RemoteJobs:
    """The seven verbs. None of them waits for a job."""

    protocol_version = PROTOCOL_VERSION

    def __init__(self, settings: BackendSettings) -> None:
        self.settings = settings
        self.folder = settings.home.absolute() / "remote-shell"

    # before there is a job

    def plan(self, job: Job) -> Plan:
        if not isinstance(job, CustomJob):
            raise UnavailableError(f"The backend remote-shell runs no {type(job).__name__}.")
        check_job(job, executor_required=False)
        task, *others = [pool.task for pool in job.job_spec.worker_pool_specs if pool.task is not None]
        if others or not isinstance(task, PythonPackageSpec):
            raise UnavailableError("The backend remote-shell runs one Python package.")
        argv = (sys.executable, "-m", task.python_module, *task.args)
        env = {"PYTHONUNBUFFERED": "1", **{variable.name: variable.value for variable in task.env}}
        return Plan(job=job, backend="remote-shell", replicas=(Replica(name=REPLICA, argv=argv, env=env),))

    def submit(self, plan: Plan) -> Job:
        assert isinstance(plan.job, CustomJob)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        full = ResourceName(
            project=self.settings.project,
            location=self.settings.region,
            collection=CUSTOM_JOBS,
            id=str(time.time_ns()),
        )
        folder = self.folder / full.id
        folder.mkdir()
        now = timestamp(time.time())
        job = msgspec.structs.replace(
            plan.job, name=str(full), state=states.PENDING, create_time=now, update_time=now
        )
        (folder / "run.sh").write_text(script(folder, plan.replicas[0], package_files(plan.job)))
        (folder / "log").touch()
        store(folder, job)
        self.run(f"setsid sh {folder}/run.sh < /dev/null > /dev/null 2>&1 &")
        return job

    # about a job

    def get(self, name: str) -> Job:
        return self.look(self.find(name))

    def look(self, folder: Path) -> CustomJob:
        job = from_document(CustomJob, msgspec.json.decode((folder / "job.json").read_bytes()))
        if states.has_ended(job.state):
            return job
        started = modified(folder / "started")
        code = self.exit_code(folder)
        if code is None:
            state = states.RUNNING if started else states.PENDING
            return msgspec.structs.replace(job, state=state, start_time=timestamp(started))
        job = msgspec.structs.replace(
            job,
            **outcome(code, cancelled=(folder / "cancelled").exists()),
            start_time=timestamp(started),
            end_time=timestamp(max(modified(folder / "exit") or time.time(), started)),
        )
        store(folder, job)  # an ended job stays as it is
        return job

    def list(self, query: Query) -> Page:
        ids = sorted((path.name for path in self.folder.glob("[0-9]*")), reverse=True)
        found = []
        for number in ids:
            if query.page_token and number >= query.page_token:
                continue
            job = self.look(self.folder / number)
            if query.collection == CUSTOM_JOBS and query.labels.items() <= dict(job.labels).items():
                found.append((number, job))
        shown = found[: query.page_size]
        token = shown[-1][0] if len(found) > len(shown) else ""
        return Page(jobs=tuple(job for _, job in shown), next_page_token=token)

    def logs(self, query: LogQuery) -> LogPage:
        has_ended = states.has_ended(self.get(query.name).state)  # before the log is read, or lines are lost
        start = int(query.cursor or 0)
        if query.task_name not in ("", REPLICA):
            return LogPage(entries=(), cursor=query.cursor)
        with (self.find(query.name) / "log").open("rb") as file:
            file.seek(start)
            block = file.read(min(query.limit, MAX_ENTRY_BYTES))
            more = bool(file.read(1))
        whole = block.rfind(b"\n") + 1
        if not whole and not more and not has_ended and not query.partial:
            block = b""
        elif whole:
            block = block if has_ended and not more else block[:whole]
        if not block:
            return LogPage(entries=(), cursor=str(start))
        entry = LogEntry(
            time=time.time_ns(),
            insert_id=str(start),
            severity="INFO",
            task_name=REPLICA,
            payload=block if query.raw else block.removesuffix(b"\n"),
            partial=not block.endswith(b"\n") and not (has_ended and not more),
        )
        return LogPage(entries=(entry,), cursor=str(start + len(block)), more=more)

    def cancel(self, name: str) -> None:
        folder = self.find(name)
        if not states.has_ended(self.get(name).state):
            (folder / "cancelled").touch()
            group = f'-- "-$(cat {folder}/pid)" 2> /dev/null'
            end = f"kill -s TERM {group}; sleep {GRACE_SECONDS}; kill -s KILL {group}"
            self.run(f"setsid sh -c {shlex.quote(end)} < /dev/null > /dev/null 2>&1 &")

    def delete(self, name: str) -> None:
        folder = self.find(name)
        if not states.has_ended(self.get(name).state):
            raise ConflictError(f"{name} runs.", hint=f"Cancel it first: vtrain custom-jobs cancel {name}")
        shutil.rmtree(folder)

    # what the verbs are made of

    def find(self, name: str) -> Path:
        full = parse_name(name)
        folder = self.folder / full.id if full else None
        if folder is None or not folder.is_dir():
            raise NotFoundError(f"There is no job {name}.")
        return folder

    def exit_code(self, folder: Path) -> int | None:
        """The trainer's exit code; None while it runs, -1 where everything vanished without one."""
        if (folder / "exit").exists():
            return int((folder / "exit").read_text())
        pid = modified(folder / "pid")
        if not pid:
            return None if time.time() - modified(folder / "run.sh") < START_SECONDS else -1
        if self.run(f'kill -s 0 -- "-$(cat {folder}/pid)" 2> /dev/null') == 0:
            return None
        return int((folder / "exit").read_text()) if (folder / "exit").exists() else -1  # it ended just now

    def run(self, command: str) -> int:
        """The exit code of a command of the remote shell."""
        shell = shlex.split(os.environ.get("REMOTE_SHELL", FRESH_SHELL))
        return subprocess.run([*shell, command], stdin=subprocess.DEVNULL, check=False).returncode


def script(folder: Path, replica: Replica, packages: tuple[str, ...]) -> str:
    """The shell script of a job: its packages are installed into a folder of its own."""
    site = folder / "site"
    paths = os.pathsep.join(filter(None, [str(site), replica.env.get("PYTHONPATH", "")]))
    env = [f"{name}={value}" for name, value in (replica.env | {"PYTHONPATH": paths}).items()]
    install = shlex.join(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-qq",
            "--disable-pip-version-check",
            "-t",
            str(site),
            *packages,
        ]
    )
    return SCRIPT.format(
        folder=shlex.quote(str(folder)),
        install=f"{install} >> log 2>&1" if packages else "true",
        trainer=shlex.join(["env", *env, *replica.argv]),
    )


def package_files(job: CustomJob) -> tuple[str, ...]:
    """The paths of the packages that vtrain made of the trainer."""
    task = job.job_spec.worker_pool_specs[0].python_package_spec
    return tuple(uri.removeprefix("file://") for uri in task.package_uris) if task else ()


def outcome(code: int, *, cancelled: bool) -> dict[str, object]:
    """The state and the error of an ended job, in the API's words."""
    if cancelled:
        return {"state": states.CANCELLED, "error": Status(code=1, message="CANCELED")}
    if code == 0:
        return {"state": states.SUCCEEDED}
    message = f"The replica {REPLICA} exited with a non-zero status of {code}."
    # local-run ends with the code in this detail, which Vertex AI has not.
    metadata = {"replica": REPLICA, "exitCode": str(code)}
    detail = {"@type": ERROR_INFO, "reason": "EXITED", "domain": "remote-shell", "metadata": metadata}
    return {"state": states.FAILED, "error": Status(code=3, message=message, details=(detail,))}


def store(folder: Path, job: CustomJob) -> None:
    """Write the job's document, in one step."""
    new = folder / f"job.{os.getpid()}"
    new.write_bytes(msgspec.json.encode(to_document(job)))
    new.replace(folder / "job.json")


def modified(path: Path) -> float:
    """When a file was written, in seconds since the epoch; 0 where there is none."""
    return path.stat().st_mtime if path.exists() else 0.0


def timestamp(seconds: float) -> str:
    """RFC 3339; empty for 0."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ") if seconds else ""
