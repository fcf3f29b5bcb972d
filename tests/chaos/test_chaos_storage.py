"""A disk that is full, a home that cannot be written, a database that somebody else has locked."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from aftermath import LINE, check, check_all, log, read_books, until_writing
from lib.waiting import wait_until
from places import PATIENCE_SECONDS, Place
from victims import kill_supervisor, until_running

from vtrain.errors import StorageError
from vtrain.messages import states
from vtrain.runtime.database import DATABASE

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
DISK = "64m"
REFUSED = re.compile(r"At least (\d+) bytes of the log of (\S+) are lost: the disk refused them")


@contextmanager
def small_disk(home: Path) -> Iterator[None]:
    """Meanwhile the home is a disk of its own."""
    home.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "vtrain-chaos", home], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", home], check=True)


@contextmanager
def full(home: Path) -> Iterator[None]:
    """Meanwhile the disk takes no byte more."""
    filler = home / "filler"
    try:
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            for size in (1024 * 1024, 4096):
                with suppress(OSError):
                    while file.write(b"x" * size) == size:
                        pass
        yield
    finally:
        filler.unlink()


@ROOT_ONLY
def test_a_disk_that_fills_up_while_lines_are_written(place: Place) -> None:
    with small_disk(place.home):
        jobs = [place.job({"pause": 0.001}), place.job({"pause": 0.001, "code": 3}, pools=(1, 1))]
        names = [place.submit(job) for job in jobs]
        for job in jobs:
            until_writing(place, job)
        with full(place.home):
            place.tally.event("disks full")
            for _ in range(4):
                time.sleep(place.chance.uniform(0.3, 1))
                kill_supervisor(place, place.chance.choice(names))
                for name in names:
                    with suppress(StorageError):
                        place.backend.get(name)
            refused = place.command("custom-jobs", "create", job=place.job())
            _, err = refused.communicate()
            assert refused.returncode == 1 and b"is full" in err, err.decode()
        until_running(place, names)
        place.enough(*(job.display_name for job in jobs))
        for name, state in zip(names, (states.SUCCEEDED, states.FAILED), strict=True):
            check_with_holes(place, name, state)
        assert len(place.jobs()) == len(jobs)
        check_all(place)


def check_with_holes(place: Place, name: str, state: str) -> None:
    """On docker the engine kept what the disk refused; a process's log says what it lacks."""
    if place.kind == "docker":
        check(place, name, state)
        return
    job = place.ended(name)
    assert job.state == state
    entries = log(place, name)
    told = "\n".join(entry.message for entry in entries if entry.task_name == "service")
    refused = {task for _, task in REFUSED.findall(told)}
    for (task, run), written in read_books(place.checkpoints(job.display_name)).items():
        lines = [line for e in entries if e.task_name == task for line in e.message.split("\n")]
        found = [int(match[2]) for line in lines if (match := LINE.fullmatch(line)) and int(match[1]) == run]
        assert len(set(found)) == len(found), f"{name} {task}: a line came twice"
        assert len(found) >= written or task in refused, (
            f"{name} {task}: {written - len(found)} lines are lost"
        )
        place.tally.add("lines expected", max(written, len(found)))
        place.tally.add("lines found", len(found))
        place.tally.add("lines marked as lost", max(written - len(found), 0))
    place.tally.add("jobs")


@ROOT_ONLY
def test_a_home_that_cannot_be_written(place: Place) -> None:
    with small_disk(place.home):
        names = [place.submit(place.job({"lines": 5})) for _ in range(2)]
        for name in names:
            check(place, name, states.SUCCEEDED)
        wait_until(lambda: remounted(place.home, "ro"), "something still writes to the home")
        place.tally.event("homes read-only")
        for words in (("list",), ("describe", names[0]), ("stream-logs", names[0]), ("cancel", names[0])):
            spoken(place, *words)
        assert "cannot" in spoken(place, "delete", names[0])
        refused = place.command("custom-jobs", "create", job=place.job())
        _, err = refused.communicate()
        assert refused.returncode == 1 and b"Traceback" not in err, err.decode()
        assert remounted(place.home, "rw")
        assert sorted(job.name for job in place.jobs()) == sorted(names)
        check_all(place)


def remounted(home: Path, mode: str) -> bool:
    """Whether the disk could be mounted again in that mode: not read-only while somebody writes."""
    return subprocess.run(["mount", "-o", f"remount,{mode}", home], capture_output=True).returncode == 0


def spoken(place: Place, *words: str) -> str:
    """What a command says on stderr: sentences, whether it works or not."""
    process = place.command("custom-jobs", *words)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode in (0, 1) and b"Traceback" not in err and b"unexpectedly" not in err, (
        err.decode()
    )
    return err.decode()


def test_a_database_that_somebody_else_has_locked(place: Place) -> None:
    jobs = [place.job(), place.job({"code": 3}, pools=(1, 1))]
    names = [place.submit(job) for job in jobs]
    for seconds in (place.chance.uniform(2, 5), place.chance.uniform(2, 5), 12.0):
        with locked(place.home / DATABASE, seconds):
            place.tally.event("databases locked")
            extra = place.job({"lines": 5})
            process = place.command("custom-jobs", "create", job=extra)
            kill_supervisor(place, place.chance.choice(names))
            _, err = process.communicate()
            assert process.returncode == 0 or b"stayed locked" in err, err.decode()
        if process.returncode == 0:
            check(place, place.named(extra.display_name), states.SUCCEEDED)
        else:
            assert not place.named(extra.display_name)
    until_running(place, names)
    place.enough(*(job.display_name for job in jobs))
    for name, state in zip(names, (states.SUCCEEDED, states.FAILED), strict=True):
        check(place, name, state)
    check_all(place)


@contextmanager
def locked(database: Path, seconds: float) -> Iterator[None]:
    """Somebody writes to the database for so long, beginning now."""
    begun = threading.Event()

    def write() -> None:
        connection = sqlite3.connect(database, timeout=60, isolation_level=None)
        connection.execute("BEGIN EXCLUSIVE")
        begun.set()
        time.sleep(seconds)
        connection.execute("ROLLBACK")
        connection.close()

    thread = threading.Thread(target=write)
    thread.start()
    begun.wait(PATIENCE_SECONDS)
    yield
    thread.join()
