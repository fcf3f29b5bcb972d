"""Processes of jobs that have ended or are gone, and their cgroups."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from vtrain.engine.cgroup import find_groups, remove_group
from vtrain.engine.folder import group_prefix
from vtrain.engine.process_tree import Process, Stat, offspring, signal_all, snapshot
from vtrain.engine.strays import LISTED, group_members, listed_strays
from vtrain.leftovers.leftover import Leftover, Search, instant
from vtrain.leftovers.living import living_jobs


def stray_processes(search: Search) -> Iterator[Leftover]:
    """Processes of replicas whose job does not live, then the cgroups of such jobs. Needs /proc."""
    home = search.home.absolute()
    groups = _groups(home)
    found = _found(home, groups)
    living = living_jobs(search.home).ids
    for process, job in sorted(found.items()):
        if job not in living:
            yield Leftover(
                id=str(process[0]),
                name=f"process {process[0]} of job {job}",
                kind="process",
                created=instant(_started(process[0])),
                discard=partial(_kill, process),
            )
    for folder, job in groups.items():
        if job not in living:
            yield Leftover(
                id=Path(folder).name,
                name=f"cgroup of job {job}",
                kind="cgroup",
                created=instant(search.now),
                discard=partial(_remove, folder),
            )


def _groups(home: Path) -> dict[str, str]:
    """The cgroups of this home's replicas, and the id of each one's job."""
    prefix = group_prefix(home)
    found = find_groups(prefix, is_prefix=True)
    return {folder: Path(folder).name.removeprefix(prefix).partition("-")[0] for folder in found}


def _found(home: Path, groups: dict[str, str]) -> dict[Process, str]:
    """The processes of this home's jobs, and whose each is: by cgroup, by a shim's list, by environment."""
    living = snapshot()
    found: dict[Process, str] = {}
    for folder, job in groups.items():
        found |= dict.fromkeys(group_members(folder, living), job)
    for path in (home / "jobs").glob(f"*/replicas/**/{LISTED}"):
        job = path.relative_to(home / "jobs").parts[0]
        found |= dict.fromkeys(listed_strays(path.parent, living), job)
    for pid, stat in living.items():
        if job := _job_in_environment(pid, home):
            found[pid, stat.start] = job
    return found | _offspring(found, living)


def _offspring(found: dict[Process, str], living: dict[int, Stat]) -> dict[Process, str]:
    return {child: job for process, job in found.items() for child in offspring({process[0]}, living)}


def _job_in_environment(pid: int, home: Path) -> str:
    """The id of the job whose replica's TMPDIR a process has; empty for any other process."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return ""
    mark = re.escape(os.fsencode(home / "jobs"))
    found = re.search(rb"(?:^|\0)TMPDIR=" + mark + rb"/(\d+)/replicas/", environment)
    return found[1].decode() if found else ""


def _started(pid: int) -> float:
    try:
        return Path(f"/proc/{pid}").stat().st_mtime
    except OSError:
        return 0.0


def _kill(process: Process) -> str:
    return "it is another user's" if signal_all({process}, signal.SIGKILL) else ""


def _remove(folder: str) -> str:
    return "" if remove_group(folder) else "it has a process"
