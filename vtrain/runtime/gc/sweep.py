"""The table of all that may be removed from this machine and its home, and the space that each kind takes.

It begins with jobs that ended long ago, and with processes and cgroups of jobs that do not live.
"""

from __future__ import annotations

import os
import re
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from vtrain.atomic import GONE, SCRATCH, UNPUBLISHED, clear, is_held, remove_folder
from vtrain.errors import ConfigError, ConflictError, StorageError
from vtrain.messages.names import HYPERPARAMETER_TUNING_JOBS, TRIAL_LABEL, parse_name
from vtrain.privacy import home_label
from vtrain.runtime.database import has_store
from vtrain.runtime.default_output import default_outputs
from vtrain.runtime.environments.layers import last_claimed, layer_below, withdraw
from vtrain.runtime.folder import JobFolder, group_prefix
from vtrain.runtime.gc.candidate import (
    ELSEWHERE,
    HAS_PROCESS,
    OUTPUT,
    SUPERVISED,
    USED_AGAIN,
    Candidate,
    Search,
    Usage,
    byte_count,
    last_change,
    remove_path,
    withdraw_unused,
)
from vtrain.runtime.gc.living import (
    folders_without_row,
    job_document,
    living_jobs,
    package_folders,
)
from vtrain.runtime.home import Home
from vtrain.runtime.locks import hold_lock, lock_holder
from vtrain.runtime.model_registry import ModelRegistry
from vtrain.runtime.orphans import LISTED, find_processes
from vtrain.runtime.process.cgroup import find_groups, remove_group
from vtrain.runtime.process.process_tree import Process, signal_all
from vtrain.runtime.resource_registry import resource_names
from vtrain.runtime.store import Record, Store, delete_job
from vtrain.runtime.warm_slots import end_warm_slots
from vtrain.staging import LocalBuckets
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


_CONTENT = re.compile(r"[0-9a-f]{64}")
_USED = "a job uses it"
_Times = dict[Path, float]


class GarbageRow(msgspec.Struct, frozen=True):
    """One kind of files and folders, and the rules by which they go."""

    kind: str
    where: Callable[[Search], Iterable[Path]]
    remover: Callable[[Path, float], str] = remove_path
    """Removes one that was used last at that time; why it stays after all. Raises OSError."""
    label: str = ""
    """The pattern of a shorter name for people."""
    clock: Callable[[Path], float] = last_change
    """When one was used last, in seconds since the epoch."""
    is_old: Callable[[Search, float], bool] = Search.is_unused
    """Whether one goes that was used last at that time."""
    in_use: Callable[[Search, _Times], Mapping[Path, str | None]] = lambda _search, _times: {}
    """Why some stay all the same; None: not worth a line. Asked once all have been found with their times."""

    def candidates(self, search: Search, seen: set[tuple[int, int]]) -> Iterator[Candidate]:
        """Those that are old enough; the files that were `seen` before add nothing to their sizes."""
        times: _Times = {}
        for path in self.where(search):
            with suppress(FileNotFoundError):  # removed meanwhile
                times[path] = self.clock(path)
        in_use, home = self.in_use(search, times), search.home
        for path, used in times.items():
            kept = in_use.get(path, "")
            is_old = self.is_old(search, used)
            if search.is_for_all:
                if kept is None:
                    kept = "one that stays reads it" if is_old else search.why_recent
                kept = kept or ("" if is_old else search.why_recent)
            if kept is not None and (is_old or search.is_for_all):
                root = next((root for root in (home, home.resolve()) if path.is_relative_to(root)), None)
                yield Candidate(
                    id=path.name,
                    name=str(path.relative_to(root) if root else path),
                    label=self.label.format(id=path.name, parent=path.parent.name),
                    kind=self.kind,
                    created=from_epoch(used, 0),
                    size=byte_count(path, seen),
                    kept=kept,
                    discard=partial(self._discard, path, used),
                )

    def _discard(self, path: Path, used: float) -> str:
        try:
            return self.remover(path, used)
        except FileNotFoundError:
            return ELSEWHERE
        except OSError as error:
            return error.strerror or str(error)


class Special(NamedTuple):
    """One kind of things that are not just files."""

    kind: str
    candidates: Callable[[Search], Iterator[Candidate]]


def _staged(search: Search) -> list[Path]:
    """Packages in buckets of this home with which jobs were submitted that ended long ago.

    Only what vtrain has named itself: a folder named by its content, with a package of that name in it, or
    one that it has begun to remove.
    """
    records = (
        Store.open(search.home).ended_before(from_epoch(search.before)) if has_store(search.home) else ()
    )
    documents = (job_document(record, Home(search.home).job(record.name).path) for record in records)
    folders, buckets = set(package_folders(documents, search.home)), Home(search.home).buckets.resolve()
    return sorted(
        folder
        for folder in folders
        for place in (folder, folder.with_name(f"{GONE}{folder.name}"))
        if folder.is_relative_to(buckets) and _CONTENT.fullmatch(folder.name)
        if any(place.glob(f"*-{folder.name[:16]}.tar.gz"))
    )


def _packed(search: Search) -> list[Path]:
    """Packages in the home's own folder, by their content's name."""
    found = Home(search.home).packages.glob("*")
    return sorted(folder.resolve() for folder in found if _CONTENT.fullmatch(folder.name))


def _packages_in_use(search: Search, _times: _Times) -> dict[Path, str | None]:
    return dict.fromkeys(living_jobs(search.home).packages, _USED)


def _environments(home: Path) -> Iterator[Path]:
    """Environments, and what they are made of: readers come first."""
    for kind in ("packages", "dependencies", "wheels"):
        found = (Home(home).environments / kind).glob("[!.]*")
        yield from sorted(path for path in found if path.is_dir())


def _environments_in_use(search: Search, times: _Times) -> dict[Path, str | None]:
    """What a living job runs in, or may have looked for; what others read that stay is not listed."""
    living = living_jobs(search.home)
    needed = _with_below(folder for folder, used in times.items() if not search.is_unused(used))
    at_work = _with_below(
        folder
        for folder, used in times.items()
        if folder / "bin" in living.programs or used >= living.preparing_since
    )
    return {**dict.fromkeys(needed), **dict.fromkeys(at_work, _USED)}


def _with_below(folders: Iterable[Path]) -> frozenset[Path]:
    """The folders, and those that they read."""
    found = frozenset(folders)
    return found | {below for folder in found if (below := layer_below(folder)) is not None}


def _withdraw_environment(folder: Path, seen: float) -> str:
    gone = withdraw(folder, seen)
    if gone is None:
        return USED_AGAIN if folder.exists() else ELSEWHERE
    clear(gone)
    return ""


def _lost(search: Search, *, has_log: bool) -> list[Path]:
    """The folders of jobs that the store does not have."""
    found = folders_without_row(search.home) if has_store(search.home) else []
    return [folder for folder in found if any(JobFolder(folder).logs.glob("*")) is has_log]


def _below_home(*patterns: str) -> Callable[[Search], list[Path]]:
    return lambda search: [path for pattern in patterns for path in sorted(search.home.glob(pattern))]


_PUBLISHED = _below_home(*(f"{place}/{UNPUBLISHED}*" for place in ("packages", "packages/*", "logs")))
"""Those of jobs are left to their supervisors."""


def _unfinished(search: Search) -> Iterator[Path]:
    """Temporary files and folders of this user on which nobody works."""
    scratch = Path(tempfile.gettempdir()).glob(f"{SCRATCH}{home_label(search.home)}-*")
    for path in (*_PUBLISHED(search), *scratch):
        with suppress(OSError):  # it has been finished meanwhile
            if path.lstat().st_uid == os.geteuid() and not is_held(path):
                yield path


def _slots(search: Search) -> list[Path]:
    """The warm slots of persistent resources that the store does not have: it was moved away, say."""
    folders = set(Home(search.home).slots.glob("[!.]*"))
    return sorted(folders - {Home(search.home).slots_of(name) for name in resource_names(search.home)})


def _end_slots(folder: Path, _changed: float) -> str:
    end_warm_slots(folder)
    return ""


def _outputs_in_use(search: Search, times: _Times) -> dict[Path, str | None]:
    """What a model has its files in, and what a job writes to, also below another's folder."""
    users: list[tuple[Path, str]] = []
    for uri in ModelRegistry(search.home).artifact_uris():
        with suppress(ConfigError):  # it leads out of its bucket, and so to no output
            place = LocalBuckets(search.home).local_path(uri).resolve()
            users.append((place, "a model has its files there"))
    users += [(output, _USED) for output in living_jobs(search.home).outputs]
    return {folder: why for place, why in users for folder in times if place.is_relative_to(folder)}


TABLE: tuple[GarbageRow | Special, ...] = (
    Special("process", orphaned_processes),
    Special("cgroup", orphaned_cgroups),
    # Known by the jobs, so before these.
    GarbageRow("package", _staged, withdraw_unused, "package {id:.12}", in_use=_packages_in_use),
    Special("job", ended_jobs),
    # Submitted to a store that was moved away: it stays as long as ended jobs.
    GarbageRow("job", partial(_lost, has_log=True), remove_lost),
    # The command was killed before it had submitted it.
    GarbageRow("job", partial(_lost, has_log=False), remove_lost, is_old=Search.is_stale),
    GarbageRow("package", _packed, withdraw_unused, "package {id:.12}", in_use=_packages_in_use),
    GarbageRow(
        "environment",
        lambda search: _environments(search.home),
        _withdraw_environment,
        "{parent} {id:.12}",
        last_claimed,
        in_use=_environments_in_use,
    ),
    GarbageRow(
        "temporary",  # removals that were begun
        _below_home(*(f"{place}/{GONE}*" for place in ("jobs", "packages", "environments/*"))),
        is_old=lambda _search, _changed: True,
    ),
    GarbageRow("temporary", _unfinished, is_old=Search.is_stale),
    GarbageRow("temporary", _slots, _end_slots, is_old=Search.is_stale),
    GarbageRow(
        OUTPUT,
        lambda search: default_outputs(search.home),
        label="{id}",
        is_old=lambda search, changed: changed < search.before,
        in_use=_outputs_in_use,
    ),
)
"""In an order in which nothing keeps the next."""


def on_machine(search: Search) -> Iterator[Candidate]:
    """Candidates on this machine and in vtrain's home. Raises StorageError."""
    seen: set[tuple[int, int]] = set()
    for row in TABLE:
        if search.wants(row.kind):
            if isinstance(row, Special):
                yield from row.candidates(search)
            else:
                yield from row.candidates(search, seen)


def usage_of_home(home: Path) -> Iterator[Usage]:
    """The space that a home takes, by kind. Reads the sizes of all files there."""
    places = {
        "environment": _environments(home),
        "package": Home(home).packages.glob("[!.]*"),
        "job": Home(home).job_folders(),
        OUTPUT: default_outputs(home),
    }
    seen: set[tuple[int, int]] = set()
    for noun, paths in places.items():
        sizes = [byte_count(path, seen) for path in paths]
        yield Usage(noun=noun, kinds=(noun,), count=len(sizes), size=sum(sizes))
