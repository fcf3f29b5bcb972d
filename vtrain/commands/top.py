"""The use of the running replicas of this machine: `vtrain top`, and the status line of a followed job."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from vtrain.backends import HostBackend, ReplicaUsage, RunningReplica
from vtrain.backends.pager import all_jobs
from vtrain.backends.registry import running_replicas
from vtrain.commands.inside import find_hosted, not_running
from vtrain.commands.job_lists import query_all
from vtrain.commands.session import Session, open_named, open_session
from vtrain.core.references import job_id, jobs_here, short_ids
from vtrain.errors import NotFoundError, UnavailableError, VtrainError
from vtrain.flags.grammar import duration_seconds
from vtrain.flags.options import CommonFlags, PlaceFlags, TopFlags
from vtrain.messages.names import CUSTOM_JOB
from vtrain.messages.states import has_ended
from vtrain.output.live_table import LiveTable
from vtrain.runtime.capacity.offer import DeviceUse, device_uses
from vtrain.sizes import MIB, memory_in_words
from vtrain.times import duration_in_words

TABLE = "table(job, name, replica, took, cpu, memory, gpu, gpuMemory, processes)"
NOTHING = "No job runs on this machine."
UNREADABLE = "What the running replicas use cannot be read here and now."
SAMPLE_SECONDS = 0.5
"""Between two looks at the processor time of a replica that was not seen before."""
PAUSE_SECONDS = 2.0
"""Between two measurements for a status line."""
HEADINGS = ("JOB", "NAME", "REPLICA", "TOOK", "CPU", "MEMORY", "GPU", "GPU MEMORY", "PROCESSES")


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """A running replica, its job, and the time at which it began, in seconds since the epoch."""

    job: str
    name: str
    started: float
    replica: RunningReplica


class Meter:
    """Turns the processor time of replicas into per cent, from one look to the next."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], tuple[float, float]] = {}

    def documents(self, watched: Sequence[Watched]) -> list[dict[str, Any]]:
        """A document for each replica that can be measured."""
        devices = device_uses() if watched else ()
        found = []
        for each in watched:
            usage = each.replica.usage()
            if usage is not None:
                found.append(_document(each, usage, self._percent(each, usage), devices))
        return found

    def _percent(self, each: Watched, usage: ReplicaUsage) -> float:
        """Per cent of one processor since the last look, at the first one since the start."""
        key, now = (each.job, each.replica.name), time.time()
        then, before = self._seen.get(key, (each.started, 0.0))
        self._seen[key] = (now, usage.cpu_seconds)
        return max(usage.cpu_seconds - before, 0.0) / max(now - then, 0.001) * 100


def top(top: TopFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """Show the replicas once, or again and again on a terminal."""
    interval = duration_seconds(top.interval, "--interval")
    if top.job:
        session, name = open_named(common, place, top.job, about_running=True)
        if not (hosted := find_hosted(session, name)).replicas:
            raise not_running(hosted)
    else:
        session, name = open_session(common, place), ""
    meter = Meter()
    if meter.documents(_watched(session, name)):
        time.sleep(min(SAMPLE_SECONDS, interval))
    if top.once or session.console.format is not None or not sys.stdout.isatty():
        watched = _watched(session, name)
        documents = meter.documents(watched)
        if documents or session.console.format is not None:
            session.console.results(documents, TABLE)
        else:
            session.console.status(UNREADABLE if watched else NOTHING)
        return

    with LiveTable() as table:
        while True:
            watched = _watched(session, name)
            table.show(HEADINGS, _rows(meter.documents(watched)), UNREADABLE if watched else NOTHING)
            time.sleep(interval)


def _rows(documents: list[dict[str, Any]]) -> list[list[str]]:
    """The cells of the table on a terminal, where jobs have short ids."""
    ids = {job_id(name): short for name, short in short_ids(jobs_here()).items()}
    keys = ("name", "replica", "took", "cpu", "memory", "gpu", "gpuMemory", "processes")
    return [
        [ids.get(document["job"], document["job"]), *(str(document[key]) for key in keys)]
        for document in documents
    ]


def _watched(session: Session, name: str) -> list[Watched]:
    """The running replicas of a job; with an empty name, of all jobs of this machine."""
    if not isinstance(session.jobs, HostBackend):
        message = f"Jobs on {session.backend.name} do not run on this machine: vtrain cannot measure them."
        raise UnavailableError(message, hint=session.backend.no_usage_hint)
    jobs = all_jobs(session.jobs.list, query_all(session, CUSTOM_JOB))
    names = [name] if name else [job.name for job in jobs if not has_ended(job.state)]
    found = []
    for each in names:
        with suppress(NotFoundError):  # deleted a moment ago
            found += watched_replicas(session.jobs, each)
    return found


def watched_replicas(backend: HostBackend, name: str) -> list[Watched]:
    """The running replicas of one job. Raises NotFoundError."""
    hosted = backend.hosted(name)
    return [
        Watched(
            job=job_id(name),
            name=hosted.job.display_name,
            started=folder.start_time() or time.time(),
            replica=replica,
        )
        for folder, replica in zip(hosted.replicas, running_replicas(hosted), strict=True)
    ]


def _document(
    each: Watched, usage: ReplicaUsage, percent: float, devices: tuple[DeviceUse, ...]
) -> dict[str, Any]:
    """The figures, as numbers and in words."""
    seen = [device for device in devices if usage.gpus is None or _is_among(device, usage.gpus)]
    gpu_percent = sum(device.percent for device in seen)
    used = int(sum(device.memory_mib for device in seen) * MIB)
    total = int(sum(device.memory_total_mib for device in seen) * MIB)
    limit = f" of {memory_in_words(usage.memory_limit)}" if usage.memory_limit else ""
    return {
        "job": each.job,
        "name": each.name,
        "replica": each.replica.name,
        "took": duration_in_words(time.time() - each.started),
        "cpu": f"{percent:.0f}%",
        "cpuPercent": round(percent, 1),
        "memory": f"{memory_in_words(usage.memory_bytes)}{limit}",
        "memoryBytes": usage.memory_bytes,
        "memoryLimitBytes": usage.memory_limit,
        "gpu": f"{gpu_percent:.0f}%" if seen else "",
        "gpuPercent": round(gpu_percent, 1),
        "gpuMemory": f"{memory_in_words(used)} of {memory_in_words(total)}" if seen else "",
        "gpuMemoryBytes": used,
        "processes": usage.processes,
    }


def _is_among(device: DeviceUse, names: tuple[str, ...]) -> bool:
    """Whether a GPU is named by its index, its UUID or the beginning of that."""
    return any(device.index == name or (len(name) > 4 and device.uuid.startswith(name)) for name in names)


# the status line


class UsageLine:
    """The use of all replicas of a job, measured now and then.

    A thread does it, as nvidia-smi can take a second and the log must not wait for it.
    """

    def __init__(self, backend: HostBackend, name: str) -> None:
        self._backend = backend
        self._name = name
        self._meter = Meter()
        self._text = ""
        self._thread: threading.Thread | None = None
        self._due = 0.0

    def text(self) -> str:
        """The last measurement, such as `cpu 187%  mem 1.2 GB  gpu 87%`; empty before the first."""
        is_busy = self._thread is not None and self._thread.is_alive()
        if not is_busy and time.monotonic() >= self._due:
            self._due = time.monotonic() + PAUSE_SECONDS
            with suppress(VtrainError, OSError):  # the job's end says what is wrong
                watched = watched_replicas(self._backend, self._name)
                self._thread = threading.Thread(target=self._measure, args=(watched,), daemon=True)
                self._thread.start()
        return self._text

    def _measure(self, watched: list[Watched]) -> None:
        with suppress(VtrainError, OSError):  # it has just ended
            documents = self._meter.documents(watched)
            if documents:
                self._text = _in_words(documents)


def _in_words(documents: list[dict[str, float]]) -> str:
    percent = sum(document["cpuPercent"] for document in documents)
    memory = sum(document["memoryBytes"] for document in documents)
    gpus = [document["gpuPercent"] for document in documents if document["gpu"]]
    words = [f"cpu {percent:.0f}%", f"mem {memory_in_words(int(memory))}"]
    return "  ".join([*words, *([f"gpu {sum(gpus):.0f}%"] if gpus else [])])
