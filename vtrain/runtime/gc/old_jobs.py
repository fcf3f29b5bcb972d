"""Jobs that ended long ago, and folders, processes and cgroups of jobs that do not live."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from vtrain.atomic import remove_folder
from vtrain.errors import ConflictError, StorageError
from vtrain.messages.names import HYPERPARAMETER_TUNING_JOBS, TRIAL_LABEL, parse_name
from vtrain.runtime.database import has_store
from vtrain.runtime.folder import JobFolder, group_prefix
from vtrain.runtime.gc.candidate import (
    ELSEWHERE,
    HAS_PROCESS,
    SUPERVISED,
    Candidate,
    Search,
    byte_count,
)
from vtrain.runtime.gc.living import job_document, living_jobs
from vtrain.runtime.home import Home
from vtrain.runtime.locks import hold_lock, lock_holder
from vtrain.runtime.orphans import LISTED, find_processes
from vtrain.runtime.process.cgroup import find_groups, remove_group
from vtrain.runtime.process.process_tree import Process, signal_all
from vtrain.runtime.store import Record, Store, delete_job
from vtrain.times import from_epoch

LONGEST_LABEL = 30
"""Characters of a display name in a table."""


def ended_jobs(search: Search) -> Iterator[Candidate]:
    """Jobs that ended before the search's time, the earliest first; trials go with their tuning job."""
    if not has_store(search.home):
        return
    home, store = Home(search.home), Store.open(search.home)
    studies = store.ids(HYPERPARAMETER_TUNING_JOBS)
    for record in store.ended_before(from_epoch(search.before)):
        name = parse_name(record.name)
        if name is not None:
            folder = home.job(name.id)
            document = job_document(record, folder.path)
            if document.get("labels", {}).get(TRIAL_LABEL) in studies:
                continue
            trials = [home.job(trial).path for trial in store.trials(record.name)]
            shown = str(document.get("displayName", ""))
            yield Candidate(
                id=name.id,
                name=record.name,
                label=f"{name.id} {shown[:LONGEST_LABEL]}".strip(),
                kind="job",
                created=record.create_time,
                size=sum(map(byte_count, (folder.path, *trials))),
                discard=partial(_delete, store, record, folder),
            )


def _delete(store: Store, record: Record, folder: JobFolder) -> str:
    try:
        return "" if delete_job(store, record.name, folder) else ELSEWHERE
    except (StorageError, ConflictError) as error:
        return error.message


def remove_lost(path: Path, _changed: float) -> str:
    """Remove the folder of a job that the store does not have; why it stays.

    Raises OSError, and FileNotFoundError where another command has removed it.
    """
    folder = JobFolder(path)
    lock = hold_lock(folder.lock)
    if lock is None:
        return SUPERVISED
    try:
        attempts = [attempt for attempt in folder.attempt_folders() if attempt.exit() is None]
        has_shim = any(lock_holder(attempt.lock) for attempt in attempts)
        if has_shim or (attempts and path.name in _found(path.parents[1].absolute()).values()):
            return HAS_PROCESS
        path.lstat()  # another command may have removed it before the lock was had
        remove_folder(path)
        return ""
    finally:
        os.close(lock)


def orphaned_processes(search: Search) -> Iterator[Candidate]:
    """Processes of replicas whose job has ended, or is gone. Needs /proc."""
    home = search.home.absolute()
    found, living = _found(home), living_jobs(search.home).ids
    for process, job in sorted(found.items()):
        if job not in living:
            yield Candidate(
                id=str(process[0]),
                name=f"process {process[0]} of job {job}",
                kind="process",
                created=from_epoch(_started(process[0]), 0),
                discard=partial(_kill, process),
            )


def orphaned_cgroups(search: Search) -> Iterator[Candidate]:
    """The cgroups of such replicas. Their processes go first."""
    groups, living = _groups(search.home.absolute()), living_jobs(search.home).ids
    for folder, job in groups.items():
        if job not in living:
            yield Candidate(
                id=Path(folder).name,
                name=f"cgroup of job {job}",
                kind="cgroup",
                created=from_epoch(search.now, 0),
                discard=partial(_remove_group, folder),
            )


def _groups(home: Path) -> dict[str, str]:
    """The cgroups of this home's replicas, and the id of each one's job."""
    prefix = group_prefix(home)
    found = find_groups(prefix, is_prefix=True)
    return {folder: Path(folder).name.removeprefix(prefix).partition("-")[0] for folder in found}


def _found(home: Path) -> dict[Process, str]:
    """The processes of this home's jobs, each with its job."""
    jobs = Home(home).jobs

    def job_of(folder: Path) -> str:
        """The job below whose folder that is."""
        parts = folder.parts[len(jobs.parts) :] if folder.is_relative_to(jobs) else ()
        return parts[0] if parts[1:2] == ("replicas",) else ""

    lists = (path.parent for path in jobs.glob(f"*/replicas/**/{LISTED}"))
    return find_processes(_groups(home), {attempt: job_of(attempt) for attempt in lists}, job_of)


def _started(pid: int) -> float:
    try:
        return Path(f"/proc/{pid}").stat().st_mtime
    except OSError:
        return 0.0


def _kill(process: Process) -> str:
    return "it is another user's" if signal_all({process}, signal.SIGKILL) else ""


def _remove_group(folder: str) -> str:
    return "" if remove_group(folder) else HAS_PROCESS
