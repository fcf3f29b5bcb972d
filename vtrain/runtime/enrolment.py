"""Submits a job to the runtime: makes its folder, its row, its place in the queue, and its supervisor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from vtrain.atomic import remove_folder
from vtrain.errors import KeyTakenError, StorageError
from vtrain.messages import states
from vtrain.messages.codec import to_document
from vtrain.messages.names import KEY_LABEL
from vtrain.messages.resources import Job, collection_of
from vtrain.privacy import make_private
from vtrain.runtime.adoption import Start
from vtrain.runtime.capacity.queue import attend, due, enqueue, waiting_reason
from vtrain.runtime.database import storage_errors
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.home import Home
from vtrain.runtime.inheritance import keep_credentials, with_own_copy
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.locks import closed_on_error, hold_lock, lock_holder
from vtrain.runtime.log.service_log import ServiceLog
from vtrain.runtime.store import Record, Store
from vtrain.runtime.supervisor_process import SUPERVISOR_LOG
from vtrain.runtime.working_folder import keep_files
from vtrain.times import timestamp

J = TypeVar("J", bound=Job)


def enrol(store: Store, job: J, order: JobOrder, start: Start, *, snapshot: str = "") -> J:
    """Store a pending job and start its supervisor; it is PENDING or QUEUED, and cannot be lost any more.

    `snapshot` is the archive of the trainer's files. Raises KeyTakenError where another job has its
    idempotency key, unless that one did not succeed, and NotFoundError where its persistent resource is gone.
    """
    home = Path(order.home)
    store.check_writable()
    folder = Home(home).job(order.name)
    with storage_errors(home), _removed_on_error(store, job.name, folder):
        make_private(Home(home).buckets)  # a trainer would make it with the mode that its umask allows
        folder.make(with_own_copy(order, folder))
        keep_credentials(order.setting.credentials_file, folder)
        keep_files(snapshot, folder)
        lock = hold_lock(folder.lock)
        assert lock is not None
        with closed_on_error(lock):
            _insert(store, job, order)
    # A parent needs no place in the queue, because it runs nothing itself: each of its jobs has one.
    if order.is_parent or order.claim.is_empty or job.name in due(store):
        start(folder, lock)
        return job
    with storage_errors(home), closed_on_error(lock):
        queued = _leave_waiting(store, folder, job, order)
    os.close(lock)
    attend(store, start, changed=True)  # the queue may have changed while the lock was held
    return queued


def pending(job: J, name: str) -> J:
    """The job under its name, PENDING: as the store has it first."""
    now, state = timestamp(), states.state_in(collection_of(job), states.PENDING)
    return msgspec.structs.replace(job, name=name, state=state, create_time=now, update_time=now)


def _insert(store: Store, job: Job, order: JobOrder) -> None:
    record = Record(
        name=job.name,
        collection=collection_of(job),
        state=states.job_state(job.state),
        create_time=job.create_time,
        backend=order.backend,
        document=msgspec.json.encode(to_document(job)).decode(),
        key=job.labels.get(KEY_LABEL, ""),
    )
    with store.transaction() as connection:
        if holder := store.holder_of(record):
            raise KeyTakenError(holder)
        if order.claim.line and not order.parent:  # it may have been deleted since the claim was made
            from vtrain.runtime.resource_registry import resource_row

            resource_row(store, order.claim.line)
        store.insert(record)
        if not order.is_parent:
            enqueue(connection, record.name, order.claim)


def _leave_waiting(store: Store, folder: JobFolder, job: J, order: JobOrder) -> J:
    """The job as QUEUED. Store what the process needs that starts its supervisor later."""
    folder.keep_environment()
    if reason := waiting_reason(store, order):
        log = ServiceLog(folder)
        log.say(f"Job is queued: {reason}")
        log.close()
    queued = msgspec.structs.replace(job, state=states.QUEUED, update_time=timestamp())
    document = msgspec.json.encode(to_document(queued)).decode()
    store.update(job.name, state=queued.state, end_time="", document=document)
    return queued


@contextmanager
def _removed_on_error(store: Store, name: str, folder: JobFolder) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise  # another job has this id, and the folder
    except BaseException:
        with suppress(OSError, StorageError):  # the first error says more
            remove_unborn(store, name, folder)
        raise


def remove_unborn(store: Store, name: str, folder: JobFolder) -> None:
    """Remove what a submission has begun that ended before the job was stored.

    That the store does not have a job proves little, as an older store may have been put back: the folder of
    a job that ever had a supervisor stays. Raises OSError, StorageError.
    """
    supervised = lock_holder(folder.lock) or (folder.path / SUPERVISOR_LOG).exists()
    if not supervised and not store.execute("SELECT 1 FROM resources WHERE name = ?", (name,)):
        remove_folder(folder.path)
