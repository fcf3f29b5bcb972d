"""Jobs on this machine: the store, a supervisor per job, and the journals. How replicas run is injected."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vtrain.backends import PROTOCOL_VERSION, BackendSettings, Page, Plan, Query
from vtrain.backends.local_plan import custom_job
from vtrain.engine.folder import JobFolder, JobOrder, hold_lock, spawn_holding
from vtrain.engine.instants import timestamp
from vtrain.engine.store import DATABASE, Record, Store, not_found, storage_errors
from vtrain.errors import ConfigError, ConflictError
from vtrain.messages import states
from vtrain.messages.codec import from_document, to_document
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogPage, LogQuery
from vtrain.messages.names import CUSTOM_JOBS, ResourceName, parse_name

if TYPE_CHECKING:
    from vtrain.backends.local_plan import Way
    from vtrain.messages.resources import Job

_WAYS = {
    "process": "vtrain.backends.process_plan:ProcessWay",
    "docker": "vtrain.backends.docker.plan:DockerWay",
}
GRACE_SECONDS = 30.0
"""Between SIGTERM and SIGKILL; Vertex's own is not documented, this is Kubernetes' default."""
RESPAWN_SECONDS = 1.0
"""A supervisor that dies at once (a full disk) is not started again faster than this."""
PROBE_BYTES = 64 * 1024
"""What a supervisor may have to write: rows, a log's last words, the verdict."""
GRACE_VARIABLE = "VTRAIN_GRACE_SECONDS"


def open_process(settings: BackendSettings) -> LocalBackend:
    """The backend `process`, for `open_backend`."""
    return LocalBackend(settings, "process")


def open_docker(settings: BackendSettings) -> LocalBackend:
    """The backend `docker`, for `open_backend`."""
    return LocalBackend(settings, "docker")


class LocalBackend:
    """Runs jobs on this machine. Nothing is kept in memory: any process can ask about any job."""

    protocol_version = PROTOCOL_VERSION

    def __init__(self, settings: BackendSettings, way: str) -> None:
        """`way` is how submitted jobs run; jobs that are there are looked after whichever way they run."""
        self._settings = settings
        self._way_name = way
        self._home = settings.home
        self._store: Store | None = None
        self._children: list[int] = []

    @cached_property
    def _way(self) -> Way:
        module, _, name = _WAYS[self._way_name].partition(":")
        way: Way = getattr(import_module(module), name)(self._settings)
        return way

    def plan(self, job: Job) -> Plan:
        """Exactly what submit would do.

        Raises ConfigError for a job that breaks a rule of the API, UnavailableError for one that cannot run
        this way.
        """
        from vtrain.messages.rules import check_job

        own = custom_job(job)
        check_job(own, executor_required=False)
        return self._way.plan(own)

    def submit(self, plan: Plan) -> CustomJob:
        """Store the job and start its supervisor; it is PENDING and cannot be lost any more."""
        name = ResourceName(
            project=self._settings.project,
            location=self._settings.region,
            collection=CUSTOM_JOBS,
            id=_new_id(),
        )
        job = _pending(custom_job(plan.job), str(name))
        store = self._open_store()
        folder = self._folder(job.name)
        with storage_errors(self._home), _removed_on_error(folder.path):
            folder.make(self._order(job, plan.source_folder))
            lock = hold_lock(folder.lock)
            assert lock is not None
            store.insert(_record(job, self._way_name))
        self._spawn_supervisor(folder, lock)
        return job

    def get(self, name: str) -> CustomJob:
        """The job as it stands; a job whose supervisor died gets another one first."""
        record = self._existing_store(name).get(name)
        self._adopt(record)
        return _job(record)

    def list(self, query: Query) -> Page:
        """Jobs, newest first. Raises ConfigError for a page token that is none."""
        if not (self._home / DATABASE).exists():
            return Page(jobs=())
        if query.page_token and not query.page_token.isdecimal():
            raise ConfigError(f"{query.page_token!r} is not a page token.")
        prefix = f"projects/{query.project}/locations/" + (f"{query.location}/" if query.location else "")
        records, token = self._open_store().page(
            query.collection,
            prefix,
            size=max(query.page_size, 1),
            token=query.page_token,
            labels=query.labels,
        )
        for record in records:
            self._adopt(record)
        return Page(jobs=tuple(_job(record) for record in records), next_page_token=token)

    def logs(self, query: LogQuery) -> LogPage:
        """The log from a cursor on; also while the job runs, and from any process."""
        record = self._existing_store(query.name).get(query.name)
        self._adopt(record)
        with storage_errors(self._home):
            from vtrain.engine.log_reader import lost_log, read_logs

            if not self._folder(query.name).logs.exists():
                return lost_log(query)
            return read_logs(self._folder(query.name).logs, query, ended=states.has_ended(record.state))

    def cancel(self, name: str) -> None:
        """Ask the job's supervisor to end it; nothing for a job that has ended."""
        self._request(name, "cancel")

    def kill(self, name: str) -> None:
        """Ask the job's supervisor to end it now, without a grace period."""
        self._request(name, "kill")

    def _request(self, name: str, verb: str) -> None:
        store = self._existing_store(name)
        record = store.get(name)
        if states.has_ended(record.state):
            return
        store.request(name, verb)
        if not self._folder(name).wake():
            self._adopt(record, at_once=True)

    def delete(self, name: str) -> None:
        """Remove an ended job: its row and its folder. Raises ConflictError while it runs."""
        store = self._existing_store(name)
        record = store.get(name)
        if not states.has_ended(record.state):
            self._adopt(record)
            raise ConflictError(
                f"{name} is {states.short(record.state)} and can be deleted once it has ended.",
                hint=f"Cancel it first: vtrain custom-jobs cancel {name}",
            )
        folder = self._folder(name).path
        with storage_errors(self._home):
            _remove(folder)
        store.delete(name)

    def _order(self, job: CustomJob, source_folder: str) -> JobOrder:
        from vtrain.engine.inheritance import inherited_environment

        order = JobOrder(
            home=str(self._home.absolute()),
            name=job.name,
            job=job,
            backend=self._way_name,
            base_env=inherited_environment(),
            grace_seconds=_grace_seconds(),
            source_folder=source_folder,
        )
        return self._way.complete(order)

    def _folder(self, name: str) -> JobFolder:
        parsed = parse_name(name)
        if parsed is None:
            raise not_found(name)
        return JobFolder(self._home.absolute() / "jobs" / parsed.id)

    def _open_store(self) -> Store:
        if self._store is None:
            self._store = Store.open(self._home)
        return self._store

    def _existing_store(self, name: str) -> Store:
        if self._store is None and not (self._home / DATABASE).exists():
            raise not_found(name)
        return self._open_store()

    def _adopt(self, record: Record, *, at_once: bool = False) -> None:
        """Start another supervisor where a job goes on without one. The lock says so, never a pid."""
        self._reap()
        if states.has_ended(record.state):
            return
        folder = self._folder(record.name)
        if not folder.path.exists():
            self._bury(record, folder)
            return
        if not at_once and time.time() - _modified(folder.lock) < RESPAWN_SECONDS:
            return
        with storage_errors(self._home):
            lock = hold_lock(folder.lock)
        if lock is None:
            return
        if states.has_ended(self._open_store().get(record.name).state):
            os.close(lock)
            return
        os.utime(folder.lock)
        with storage_errors(self._home), _closed_on_error(lock):
            _check_writable(folder.path)
        self._spawn_supervisor(folder, lock)

    def _bury(self, record: Record, folder: JobFolder) -> None:
        """Somebody removed the folder of a job that had not ended: nothing can end it any more."""
        from vtrain.engine import verdict

        now = timestamp()
        job = msgspec.structs.replace(
            _job(record),
            state=states.FAILED,
            error=verdict.folder_lost(folder),
            end_time=now,
            update_time=now,
        )
        document = _record(job, record.backend).document
        self._open_store().update(job.name, state=job.state, end_time=now, document=document)

    def _spawn_supervisor(self, folder: JobFolder, lock: int) -> None:
        # Not `-m`: that would import from the folder the user stands in, which may hold a `signal.py`.
        program = Path(__file__).with_name("supervise.py")
        argv = [sys.executable, str(program), str(folder.path)]
        child = spawn_holding(lock, argv, _supervisor_environment(), folder.path / "supervisor.log")
        self._children.append(child)

    def _reap(self) -> None:
        self._children = [child for child in self._children if not _has_exited(child)]


def _new_id() -> str:
    """19 digits, as the service's own ids have."""
    return str(10**18 + int.from_bytes(os.urandom(8), "big") % (9 * 10**18))


def _pending(job: CustomJob, name: str) -> CustomJob:
    now = timestamp()
    return msgspec.structs.replace(job, name=name, state=states.PENDING, create_time=now, update_time=now)


def _record(job: CustomJob, backend: str) -> Record:
    document = msgspec.json.encode(to_document(job)).decode()
    return Record(
        name=job.name,
        collection=CUSTOM_JOBS,
        state=job.state,
        create_time=job.create_time,
        backend=backend,
        document=document,
    )


def _job(record: Record) -> CustomJob:
    return from_document(CustomJob, msgspec.json.decode(record.document))


def _check_writable(folder: Path) -> None:
    """Raise OSError where a supervisor could not write: it would end at once, and nobody would hear why."""
    probe = folder / "probe"
    try:
        probe.write_bytes(b"x" * PROBE_BYTES)
    finally:
        probe.unlink(missing_ok=True)


@contextmanager
def _closed_on_error(descriptor: int) -> Iterator[None]:
    try:
        yield
    except BaseException:
        os.close(descriptor)
        raise


@contextmanager
def _removed_on_error(folder: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):  # the error that is on its way says more
            _remove(folder)
        raise


def _remove(folder: Path) -> None:
    """Remove a folder, if it is there; somebody else may be doing the same."""
    import shutil

    while folder.exists():
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)


def _grace_seconds() -> float:
    text = os.environ.get(GRACE_VARIABLE, "")
    try:
        return float(text) if text else GRACE_SECONDS
    except ValueError:
        raise ConfigError(f"{GRACE_VARIABLE} is {text!r}, and should be a number of seconds.") from None


def _supervisor_environment() -> dict[str, str]:
    """This process's environment, with a way to find this vtrain when it is not installed."""
    environment = dict(os.environ)
    root = Path(__file__).resolve().parents[2]
    if root.name not in ("site-packages", "dist-packages"):
        paths = [str(root), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return environment


def _has_exited(child: int) -> bool:
    try:
        return os.waitpid(child, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
