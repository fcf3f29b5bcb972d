"""Jobs on this machine: the store, a supervisor per job, and the journals. How replicas run is injected."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vtrain.atomic import remove_folder
from vtrain.backends import PROTOCOL_VERSION, BackendSettings, Page, Plan, Query, Replica
from vtrain.backends.local_plan import check_replicas, custom_job
from vtrain.engine.adoption import adopt, start_supervisor
from vtrain.engine.capacity.admission import enqueue
from vtrain.engine.capacity.queue import attend, due
from vtrain.engine.database import has_store, storage_errors
from vtrain.engine.deletion import delete_job
from vtrain.engine.folder import JobFolder, JobOrder, closed_on_error, hold_lock
from vtrain.engine.instants import timestamp
from vtrain.engine.record import stored_job
from vtrain.engine.store import Record, Store, not_found
from vtrain.errors import (
    ConfigError,
    ConflictError,
    DamagedError,
    KeyTakenError,
    NotFoundError,
    StorageError,
)
from vtrain.messages import states
from vtrain.messages.codec import to_document
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogPage, LogQuery
from vtrain.messages.names import CUSTOM_JOBS, KEY_LABEL, ResourceName, parse_name
from vtrain.privacy import make_private

if TYPE_CHECKING:
    from vtrain.backends.local_plan import Way
    from vtrain.engine.container_options import SimulatedPreemption
    from vtrain.engine.environments.outlook import Outlook
    from vtrain.messages.resources import Job
    from vtrain.packaging.plan import SdistPlan

_WAYS = {
    "process": "vtrain.backends.process_plan:ProcessWay",
    "docker": "vtrain.backends.docker.plan:DockerWay",
}
GRACE_SECONDS = 30.0
"""Between SIGTERM and SIGKILL; Vertex's own is not documented, this is Kubernetes' default."""
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

    @cached_property
    def _way(self) -> Way:
        module, _, name = _WAYS[self._way_name].partition(":")
        way: Way = getattr(import_module(module), name)(self._settings)
        return way

    def plan(self, job: Job) -> Plan:
        """Exactly what submit would do.

        Raises ConfigError for a job that breaks a rule of the API and for a bad setting of this machine,
        UnavailableError for one that cannot run this way.
        """
        from vtrain.engine.hardware import check_hardware
        from vtrain.engine.job_storage import check_aip_dirs
        from vtrain.messages.rules import check_job

        own = custom_job(job)
        check_job(own, executor_required=False)
        check_replicas(own.job_spec)
        check_hardware(own.job_spec)
        _check_preemption(own, self._settings.preemption)
        check_aip_dirs(
            self._settings.aip_dirs,
            own.job_spec,
            has_credentials=bool(self._settings.container.credentials_file),
        )
        _grace_seconds()  # refuses what is no time
        return self._way.plan(own)

    def view(self, job: Job, trial_id: str = "") -> tuple[Replica, ...]:
        """What the job's replicas see. Raises as `plan` does, but for what only running needs."""
        from vtrain.messages.rules import check_job

        own = custom_job(job)
        check_job(own, executor_required=False)
        check_replicas(own.job_spec)
        return self._way.view(own, trial_id)

    def outlook(self, job: Job, trainer: SdistPlan | None) -> Outlook:
        """What the job's environments will lack here. Raises EnvironmentFailed for a damaged package."""
        return self._way.outlook(custom_job(job), trainer)

    def environment_steps(self, job: Job, trainer: SdistPlan | None) -> tuple[str, ...]:
        """What has to be made for the environments. Raises EnvironmentFailed for a damaged package."""
        return self._way.environment_steps(custom_job(job), trainer)

    def submit(self, plan: Plan) -> CustomJob:
        """Store the job and start its supervisor; it is PENDING and cannot be lost any more.

        Raises KeyTakenError where another job has its idempotency key, unless that one did not succeed.
        """
        from vtrain.engine.credentials import keep_credentials, with_own_copy
        from vtrain.engine.working_folder import keep_files

        name = ResourceName(
            project=self._settings.project,
            location=self._settings.region,
            collection=CUSTOM_JOBS,
            id=_new_id(),
        )
        job = _pending(custom_job(plan.job), str(name))
        store = self._open_store()
        store.check_writable()
        folder = self._folder(job.name)
        with storage_errors(self._home), _removed_on_error(folder.path):
            make_private(self._home / "buckets")  # before a trainer's umask decides
            order = self._order(job, plan.source_folder)
            folder.make(with_own_copy(order, folder))
            keep_credentials(order.container.credentials_file, folder)
            keep_files(plan.snapshot, folder)
            lock = hold_lock(folder.lock)
            assert lock is not None
            with closed_on_error(lock):
                self._insert(store, _record(job, self._way_name), order)
        if order.claim.is_empty or job.name in due(store, self._home):
            self._spawn_supervisor(folder, lock)
            return job
        with storage_errors(self._home), closed_on_error(lock):
            queued = _leave_waiting(store, folder, job, order)
        os.close(lock)
        attend(store, self._home, changed=True)  # the queue may have changed while the lock was held
        return queued

    def _insert(self, store: Store, record: Record, order: JobOrder) -> None:
        with store.transaction() as connection:
            if holder := store.holder_of(record):
                raise KeyTakenError(holder)
            store.insert(record)
            enqueue(connection, record.name, order.claim)

    def get(self, name: str) -> CustomJob:
        """The job as it stands; a job whose supervisor died gets another one first."""
        record = self._existing_store(name).get(name)
        self._adopt(record)
        return stored_job(record)

    def list(self, query: Query) -> Page:
        """Jobs, newest first. Raises ConfigError for a page token that is none."""
        if not has_store(self._home):
            return Page(jobs=())
        if query.page_token and not query.page_token.isdecimal():
            raise ConfigError(f"{query.page_token!r} is not a page token.")
        records, token = self._open_store().page(
            query.collection,
            project=query.project,
            location=query.location,
            size=max(query.page_size, 1),
            token=query.page_token,
            labels=query.labels,
        )
        for record in records:
            if record.state != states.QUEUED:
                with suppress(NotFoundError, StorageError):  # deleted meanwhile; or `get` says what is wrong
                    self._adopt(record)
        attend(self._open_store(), self._home)
        jobs, damaged = [], []
        for record in records:
            try:
                jobs.append(stored_job(record))
            except DamagedError:
                damaged.append(record.name)
        return Page(jobs=tuple(jobs), damaged=tuple(damaged), next_page_token=token)

    def logs(self, query: LogQuery) -> LogPage:
        """The log from a cursor on; also while the job runs, and from any process."""
        record = self._existing_store(query.name).get(query.name)
        self._adopt(record)
        with storage_errors(self._home):
            from vtrain.engine.log_reader import lost_log, read_logs

            folder = self._folder(query.name).logs
            with suppress(FileNotFoundError):  # in the middle of it, where the job is being deleted
                if folder.exists():
                    return read_logs(folder, query, ended=states.has_ended(record.state))
        self._open_store().get(query.name)
        return lost_log(query)

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
        store.check_writable()
        store.request(name, verb)
        if not self._folder(name).wake():
            self._adopt(record, at_once=True)

    def delete(self, name: str) -> None:
        """Remove an ended job: its row and its folder. Raises ConflictError while it runs."""
        store = self._existing_store(name)
        record = store.get(name)
        if not states.has_ended(record.state):
            self._adopt(record)
            record = store.get(name)  # which has ended by now, if no supervisor can look after it
        if not states.has_ended(record.state):
            raise ConflictError(
                f"{name} is {states.short(record.state)} and can be deleted once it has ended.",
                hint=f"Cancel it first: vtrain custom-jobs cancel {name}",
            )
        delete_job(store, name, self._folder(name))

    def _order(self, job: CustomJob, source_folder: str) -> JobOrder:
        from vtrain.engine.boot import boot_id
        from vtrain.engine.inheritance import inherited_environment

        order = JobOrder(
            home=str(self._home.absolute()),
            name=job.name,
            job=job,
            backend=self._way_name,
            base_env=inherited_environment(),
            grace_seconds=_grace_seconds(),
            source_folder=source_folder,
            preemption=self._settings.preemption,
            aip_dirs=self._settings.aip_dirs,
            boot_id=boot_id(),
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
        if self._store is None and not has_store(self._home):
            raise not_found(name)
        return self._open_store()

    def _adopt(self, record: Record, *, at_once: bool = False) -> None:
        """Start another supervisor where a job goes on without one, and is not only waiting for its turn."""
        if states.has_ended(record.state):
            return
        folder = self._folder(record.name)
        if record.state == states.QUEUED and folder.path.exists() and not at_once:
            attend(self._open_store(), self._home)
            return
        adopt(self._open_store(), record, folder, self._spawn_supervisor, at_once=at_once)

    def _spawn_supervisor(self, folder: JobFolder, lock: int) -> None:
        start_supervisor(folder, lock)


def _leave_waiting(store: Store, folder: JobFolder, job: CustomJob, order: JobOrder) -> CustomJob:
    """The job as QUEUED, with all that whoever starts it later needs."""
    from vtrain.engine.capacity.admission import waiting_reason
    from vtrain.engine.service_log import ServiceLog

    folder.keep_environment()
    if reason := waiting_reason(store, order):
        log = ServiceLog(folder)
        log.say(f"Job is queued: {reason}")
        log.close()
    queued = msgspec.structs.replace(job, state=states.QUEUED, update_time=timestamp())
    document = msgspec.json.encode(to_document(queued)).decode()
    store.update(job.name, state=queued.state, end_time="", document=document)
    return queued


def _check_preemption(job: CustomJob, preemption: SimulatedPreemption | None) -> None:
    """Raise ConfigError where the replica that is to be preempted is none of the job's."""
    from vtrain.engine.replica import replica_ids

    names = [member.name for member in replica_ids(job.job_spec)]
    if preemption is not None and preemption.replica and preemption.replica not in names:
        raise ConfigError(
            f"The job has no replica {preemption.replica} that could be preempted.",
            hint=f"It has {', '.join(names)}.",
        )


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
        key=job.labels.get(KEY_LABEL, ""),
    )


@contextmanager
def _removed_on_error(folder: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):  # the error that is on its way says more
            remove_folder(folder)
        raise


def _grace_seconds() -> float:
    text = os.environ.get(GRACE_VARIABLE, "")
    try:
        seconds = float(text) if text else GRACE_SECONDS
    except ValueError:
        seconds = -1
    if not 0 <= seconds < math.inf:  # nan is neither
        raise ConfigError(f"{GRACE_VARIABLE} is {text!r}, and should be a number of seconds.")
    return seconds
