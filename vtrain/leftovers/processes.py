"""Processes of jobs that have ended or are gone."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from vtrain.engine.strays import processes
from vtrain.leftovers.leftover import Leftover, Search, instant
from vtrain.leftovers.living import living_jobs


def stray_processes(search: Search) -> Iterator[Leftover]:
    """Processes whose TMPDIR is that of a replica of a job that does not live. Needs /proc."""
    found = [(pid, job) for pid in processes() if (job := _job_of(pid, search.home))]
    living = living_jobs(search.home).ids
    for pid, job in found:
        if job not in living:
            yield Leftover(
                id=str(pid),
                name=f"process {pid} of job {job}",
                kind="process",
                created=instant(_started(pid)),
                discard=partial(_kill, pid, job, search.home),
            )


def _job_of(pid: int, home: Path) -> str:
    """The id of the job that a process belongs to; empty for any other process, and for other users'."""
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


def _kill(pid: int, job: str, home: Path) -> str:
    if _job_of(pid, home) == job:  # the number may be another process's by now
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return ""
