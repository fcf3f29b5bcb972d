"""What has to be true after everything: the verdict, every line, nothing left, one story."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lib.docker_engines import remaining
from lib.local_jobs import processes_of
from lib.waiting import wait_until, wait_until_gone
from places import Place

from vtrain.atomic import UNPUBLISHED
from vtrain.backends.docker.container import container_name
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogEntry, LogQuery
from vtrain.messages.resources import JOBS
from vtrain.runtime.history import read_history
from vtrain.runtime.store import Store

LINE = re.compile(r"run (\d+) line (\d+)")
HALF = re.compile(r"run \d+ ")
"""The last line of a trainer that writes lines in two halves, and was killed."""
MARKED_LOST = re.compile(r"What (\S+) wrote .*may be lost|log of (\S+) could not be read: .*may be lost")
LEAVING_SECONDS = 60.0

Attempt = tuple[str, int]
"""A replica's name and the number of its attempt."""


def check(place: Place, name: str, *expected: str, recorded: Mapping[str, str] = {}) -> CustomJob:
    """The job has ended in one of these states, and the log is whole.

    `recorded` is what the engine has in its own logs, by the names of the containers: a line that the engine
    has lost cannot be in ours.
    """
    job = place.ended(name)
    told = job.error.message if job.error else ""
    assert job.state in expected, f"{name} is {job.state}, not {' or '.join(expected)}: {told}"
    assert job.end_time and job.update_time
    check_lines(place, job, recorded)
    place.tally.add("jobs")
    place.tally.add("restarts", len(read_history(place.folder(name)).restarts))
    return job


def check_lines(place: Place, job: CustomJob, recorded: Mapping[str, str] = {}) -> None:
    """Every line that the trainers' books know is in the log once, in order, in one attempt."""
    entries = log(place, job.name)
    told = "\n".join(entry.message for entry in entries if entry.task_name == "service")
    marked = {name for names in MARKED_LOST.findall(told) for name in names}
    books = read_books(place.checkpoints(job.display_name))
    seen = runs_by_attempt(entries)
    for (task, attempt), numbers in seen.items():
        (run,) = {run for run, _ in numbers}
        found = [number for _, number in numbers]
        written = books.pop((task, run), 0)
        absent = set(range(written)) - _recorded(recorded, job, task, run, written)
        whole = [number for number in range(len(found) + len(absent)) if number not in absent][: len(found)]
        assert found == whole, f"{job.name} {task} attempt {attempt} is not whole: {found}"
        written -= len(absent)
        lost = max(written - len(found), 0)
        assert len(found) <= written + 1, f"{task} attempt {attempt}: {len(found)} lines of {written}"
        assert not lost or task in marked, f"{job.name} {task} attempt {attempt}: {lost} of {written} lost"
        place.tally.add("lines expected", max(written, len(found)))
        place.tally.add("lines found", len(found))
        place.tally.add("lines marked as lost", lost)
    for (task, run), written in books.items():
        assert not written or task in marked, f"{job.name} {task} run {run}: {written} lines lost"
        place.tally.add("lines expected", written)
        place.tally.add("lines marked as lost", written)


def _recorded(logs: Mapping[str, str], job: CustomJob, task: str, run: int, written: int) -> set[int]:
    """The numbers of a run's lines that the engine has; all where it was not asked."""
    container = container_name(job.name.rpartition("/")[2], task)
    text = "".join(text for name, text in logs.items() if f"{name}-".startswith(f"{container}-"))
    if f'"run {run} line ' not in text:
        return set(range(written))
    return {number for number in range(written) if f'"run {run} line {number}\\n"' in text}


def log(place: Place, name: str) -> list[LogEntry]:
    """All entries of a job's log, read page by page."""
    backend, cursor, entries = place.backend, "", []
    while True:
        page = backend.logs(LogQuery(name=name, cursor=cursor, limit=64 * 1024))
        if not page.entries:
            return entries
        entries += page.entries
        cursor = page.cursor


def runs_by_attempt(entries: list[LogEntry]) -> dict[Attempt, list[tuple[int, int]]]:
    """Per attempt the (run, line) of its lines, in order in each stream, merged by number."""
    streams: dict[tuple[str, int, str], list[str]] = {}
    for entry in entries:
        if entry.task_name != "service":
            key = (entry.task_name, entry.attempt, entry.stream)
            streams.setdefault(key, []).extend(entry.message.split("\n"))
    merged: dict[Attempt, list[tuple[int, int]]] = {}
    for (task, attempt, stream), texts in streams.items():
        if HALF.fullmatch(texts[-1]):
            texts.pop()
        found = [(text, LINE.fullmatch(text)) for text in texts]
        lines = [(int(line[1]), int(line[2])) for _, line in found if line]
        strange = [text for text, line in found if not line]
        assert not strange, f"{task} attempt {attempt}: these are no lines: {strange}"
        assert lines == sorted(lines), f"{task} attempt {attempt} {stream}: out of order"
        merged.setdefault((task, attempt), []).extend(lines)
    # one that was killed in its first line has none
    return {attempt: sorted(lines) for attempt, lines in merged.items() if lines}


def read_books(folder: Path) -> dict[Attempt, int]:
    """How many lines each run of each replica has written at least."""
    books = {}
    for book in folder.glob("*.run*"):
        task, _, run = book.name.partition(".run")
        books[task, int(run)] = int(book.read_bytes() or b"0")
    return books


def until_writing(place: Place, job: CustomJob) -> None:
    """Every replica of a running job has written lines."""
    pools = job.job_spec.worker_pool_specs
    wanted = sum(pool.replica_count or 1 for pool in pools)

    def writing() -> bool:
        books = read_books(place.checkpoints(job.display_name))
        return len({task for (task, _), written in books.items() if written}) == wanted

    wait_until(writing, f"{job.display_name} writes nothing")


def check_nothing_left(place: Place) -> None:
    """No process, container, network or temporary folder of any job of this home is left."""
    with suppress(AssertionError):
        wait_until_gone(lambda: processes_of(place.home), pause=0.1, patience=LEAVING_SECONDS)
    found = [f"process {pid} {command!r}" for pid, command in processes_of(place.home).items()]
    found += [str(path) for path in temporary_files(place.home)]
    if place.address is not None:
        with place.engine() as engine:
            found += remaining(engine, place.home)
    place.tally.add("left over", len(found))
    assert not found, found


def check_unborn(place: Place) -> None:
    """Folders that a create left which was killed before there was a job: `gc` knows and removes them."""
    known = frozenset[str]().union(*map(Store.open(place.home).ids, JOBS))
    found = [path for path in (place.home / "jobs").iterdir() if path.name not in known]
    for path in found:
        for old in (path, *path.rglob("*")):
            os.utime(old, (time.time() - 7200,) * 2)
    if found:
        place.run("gc", "--quiet")
        place.tally.event("unborn jobs that gc removed", len(found))
    left = [str(path) for path in found if path.exists()]
    place.tally.add("left over", len(left))
    assert not left, left


def temporary_files(home: Path) -> list[Path]:
    """What only a job that runs may have in its folder."""
    names = ("tmp", "probe")
    return [
        path
        for path in (home / "jobs").rglob("*")
        if path.name in names or path.suffix == ".tmp" or path.name.startswith(UNPUBLISHED)
    ]


def check_one_story(place: Place) -> None:
    """`list` agrees with `describe`, as commands print them, and every job has ended for good."""
    told = place.run("custom-jobs", "list", "--format=json", "--region=us-central1")
    listed: list[dict[str, Any]] = json.loads(told)
    assert sorted(job["name"] for job in listed) == sorted(job.name for job in place.jobs())
    for job in listed:
        assert states.has_ended(job["state"]), job
        described = place.backend.get(job["name"])
        assert (described.state, described.end_time) == (job["state"], job["endTime"])
    for job in place.chance.sample(listed, min(2, len(listed))):
        told = json.loads(place.run("custom-jobs", "describe", job["name"], "--format=json"))
        assert {key: told[key] for key in job} == job


def check_all(place: Place) -> None:
    """After a test: nothing is left, and all tell the same."""
    wait_until(lambda: all(states.has_ended(job.state) for job in place.jobs()), "some jobs do not end")
    # First: a create that is killed while it writes leaves a temporary file in the folder of no job.
    check_unborn(place)
    check_nothing_left(place)
    check_one_story(place)
