"""A home that was copied, and one that was moved: what it does with jobs that had not ended then."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from lib.local_jobs import (
    ended,
    folder_of,
    info,
    kill_supervisor,
    lines,
    processes_of,
    reason,
    snippet_job,
    submit,
)
from lib.supervisors import START, supervisor_of
from lib.waiting import wait_until

from vtrain.backends import BackendSettings, Query
from vtrain.backends.local import LocalBackend
from vtrain.backends.registry import open_backend
from vtrain.core.following import Follow, follow
from vtrain.errors import ContactLostError, HomeError
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob, MachineSpec
from vtrain.messages.log import LogPage, LogQuery
from vtrain.runtime.capacity.queue import attend, due, is_living, request_end
from vtrain.runtime.locks import lock_holder
from vtrain.runtime.store import Store

pytestmark = pytest.mark.end_to_end

TRAINER = """
import os, time
with open({journal!r}, "a") as file:
    file.write("started\\n")
print("up", flush=True)
while not os.path.exists({gate!r}):
    time.sleep(0.02)
"""


def opened(home: Path) -> LocalBackend:
    backend = open_backend("process", BackendSettings(home=home, project="local", region="us-central1"))
    assert isinstance(backend, LocalBackend)
    return backend


@pytest.fixture
def running(process_backend: LocalBackend, home: Path, tmp_path: Path) -> Iterator[str]:
    """A job that runs until the test opens its gate, and notes each start."""
    code = TRAINER.format(journal=str(tmp_path / "journal"), gate=str(tmp_path / "gate"))
    name = submit(process_backend, snippet_job(tmp_path / "code", code))
    wait_until(lambda: process_backend.get(name).state == states.RUNNING)
    wait_until(lambda: lines(process_backend, name) == ["up"])
    yield name
    (tmp_path / "gate").touch()


@pytest.fixture
def copy(running: str, home: Path, tmp_path: Path) -> Iterator[Path]:
    """A backup of the home, made while its job ran; by then that job's supervisor was killed."""
    kill_supervisor(folder_of(home, running))
    folder = tmp_path / "backup"
    subprocess.run(["cp", "-a", home, folder], check=True)
    yield folder
    assert processes_of(folder) == {}


def tree(home: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.lstat().st_mtime_ns) for path in home.rglob("*"))


class Heard:
    """What a watcher was told."""

    def __init__(self) -> None:
        self.text = b""
        self.troubles: list[str] = []

    def saw_page(self, page: LogPage) -> None:
        self.text += b"".join(entry.payload for entry in page.entries)

    def saw_job(self, job: CustomJob, elapsed: float) -> None: ...

    def cannot_ask(self, error: Exception) -> None:
        self.troubles.append(str(error))

    def cannot_read(self, trouble: str) -> None:
        self.troubles.append(trouble)

    def heard_nothing(self, job: CustomJob, elapsed: float) -> None: ...


VERBS: dict[str, Callable[[LocalBackend, Store, str], object]] = {
    "get": lambda backend, _, name: backend.get(name),
    "list": lambda backend, _, name: backend.list(Query()),
    "logs": lambda backend, _, name: backend.logs(LogQuery(name=name)),
    "folders": lambda backend, _, name: backend.folders(name, ""),
    "holdings": lambda backend, _, name: backend.holdings(name),
    "command": lambda backend, _, name: backend.command(name),
    "look_after": lambda backend, _, name: backend.look_after(name),
    "hosted": lambda backend, _, name: backend.hosted(name),
    "cancel": lambda backend, _, name: backend.cancel(name),
    "kill": lambda backend, _, name: backend.kill(name),
    "delete": lambda backend, _, name: backend.delete(name),
    "attend": lambda _, store, name: attend(store, START, changed=True),
    "is_living": lambda _, store, name: is_living(store, START, name),
    "request_end": lambda _, store, name: request_end(store, START, name, "kill"),
}
READING = ("get", "list", "logs", "folders", "holdings", "command", "attend")


@pytest.mark.parametrize("verb", VERBS)
def test_in_a_copy_a_job_that_had_not_ended_is_only_read(
    copy: Path, home: Path, running: str, tmp_path: Path, verb: str
) -> None:
    before = tree(home), tree(copy / "jobs")
    said = ""
    try:
        VERBS[verb](opened(copy), Store.open(copy), running)
    except HomeError as error:
        said = f"{error.message} {error.hint}"
    if verb in READING:
        assert said == ""
    else:
        assert f"{copy} is a copy of the home {home}" in said and f"VTRAIN_HOME={home}" in said
    assert (tree(home), tree(copy / "jobs")) == before
    assert (tmp_path / "journal").read_text() == "started\n"


def test_a_copy_shows_the_job_and_its_log_and_nobody_waits_there(copy: Path, running: str) -> None:
    backend, heard = opened(copy), Heard()
    assert backend.get(running).state == states.RUNNING
    assert [job.name for job in backend.list(Query()).jobs] == [running]
    page = backend.logs(LogQuery(name=running))
    assert "is a copy of the home" in page.trouble
    with pytest.raises(ContactLostError, match="is a copy of the home"):
        follow(Follow(backend=backend, name=running, query=LogQuery(name=running)), heard)
    assert b"up" in heard.text
    with pytest.raises(ContactLostError, match="is a copy of the home"):
        follow(Follow(backend=backend, name=running), Heard())


def test_a_copy_has_jobs_of_its_own_which_wait_for_none_of_the_original(
    process_backend: LocalBackend, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VTRAIN_MEMORY", "16g")  # room for one of them
    code = TRAINER.format(journal=str(tmp_path / "journal"), gate=str(tmp_path / "gate"))
    first, second = (submit(process_backend, large(tmp_path / "code", code)) for _ in range(2))
    wait_until(lambda: lines(process_backend, first) == ["up"])
    wait_until(lambda: process_backend.get(second).state == states.QUEUED)
    copy = tmp_path / "backup"
    subprocess.run(["cp", "-a", home, copy], check=True)
    backend = opened(copy)
    name = submit(backend, large(tmp_path / "own", "print('mine')\n"))
    assert ended(backend, name).state == states.SUCCEEDED
    assert lines(backend, name) == ["mine"]
    assert due(Store.open(copy)) == []
    (tmp_path / "gate").touch()
    for each in (first, second):
        assert ended(process_backend, each).state == states.SUCCEEDED
    assert (tmp_path / "journal").read_text() == "started\n" * 2


def large(folder: Path, code: str) -> CustomJob:
    """A job for 15 GB."""
    job = snippet_job(folder, code)
    pools = tuple(
        msgspec.structs.replace(pool, machine_spec=MachineSpec(machine_type="n1-standard-4"))
        for pool in job.job_spec.worker_pool_specs
    )
    return msgspec.structs.replace(
        job, job_spec=msgspec.structs.replace(job.job_spec, worker_pool_specs=pools)
    )


def test_jobs_of_a_copy_that_had_ended_are_its_own(
    process_backend: LocalBackend, home: Path, tmp_path: Path
) -> None:
    name = submit(process_backend, snippet_job(tmp_path / "code", "print('done')\n"))
    ended(process_backend, name)
    subprocess.run(["cp", "-a", home, tmp_path / "backup"], check=True)
    backend = opened(tmp_path / "backup")
    assert lines(backend, name) == ["done"] and backend.logs(LogQuery(name=name)).trouble == ""
    backend.delete(name)
    assert lines(process_backend, name) == ["done"]


def test_a_home_is_the_same_by_every_path(
    process_backend: LocalBackend, home: Path, running: str, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(home)
    kill_supervisor(folder_of(home, running))
    linked = opened(tmp_path / "link")
    wait_until(lambda: supervisor_of(folder_of(tmp_path / "link", linked.get(running).name)) > 0)
    assert (tmp_path / "journal").read_text() == "started\n"
    (tmp_path / "gate").touch()
    assert ended(linked, running).state == states.SUCCEEDED
    assert ended(process_backend, running).state == states.SUCCEEDED


@pytest.mark.parametrize("has_supervisor", [True, False])
@pytest.mark.parametrize("is_made_again", [True, False])
def test_a_job_that_runs_while_its_home_is_moved_fails_and_says_so(
    home: Path, running: str, tmp_path: Path, *, has_supervisor: bool, is_made_again: bool
) -> None:
    shim = lock_holder(folder_of(home, running).replica("workerpool0-0").lock)
    if not has_supervisor:
        kill_supervisor(folder_of(home, running))
    moved = tmp_path / "moved"
    home.rename(moved)
    if is_made_again:
        Store.open(home).close()
    backend = opened(moved)
    job = ended(backend, running)
    assert (job.state, info(job)["reason"]) == (states.FAILED, "HOME_MOVED")
    assert job.error is not None and str(home) in job.error.message and str(moved) in job.error.message
    assert lines(backend, running) == ["up"]
    wait_until(lambda: not Path(f"/proc/{shim}").exists())
    wait_until(lambda: processes_of(home) == {})
    assert not home.exists() or not [*home.glob("jobs/*")]
    assert (tmp_path / "journal").read_text() == "started\n"
    name = submit(backend, snippet_job(tmp_path / "own", "print('mine')\n"))
    assert ended(backend, name).state == states.SUCCEEDED
    backend.delete(running)


@pytest.mark.parametrize("has_supervisors", [True, False])
def test_a_queue_that_is_moved_ends_and_says_so(
    process_backend: LocalBackend,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    has_supervisors: bool,
) -> None:
    monkeypatch.setenv("VTRAIN_MEMORY", "16g")
    code = TRAINER.format(journal=str(tmp_path / "journal"), gate=str(tmp_path / "gate"))
    names = [submit(process_backend, large(tmp_path / "code", code)) for _ in range(4)]
    wait_until(lambda: lines(process_backend, names[0]) == ["up"])
    wait_until(lambda: supervisor_of(folder_of(home, names[1])) > 0)
    if not has_supervisors:
        for name in names[:2]:
            kill_supervisor(folder_of(home, name))
    moved = tmp_path / "moved"
    home.rename(moved)
    backend = opened(moved)
    assert {reason(ended(backend, name)) for name in names} == {"HOME_MOVED"}
    wait_until(lambda: processes_of(home) == {})
    name = submit(backend, large(tmp_path / "own", "print('mine')\n"))
    assert ended(backend, name).state == states.SUCCEEDED


def test_commands_in_a_copy_say_whose_jobs_these_are(
    vtrain: Callable[..., Any], copy: Path, home: Path, running: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VTRAIN_HOME", str(copy))
    told = re.compile(rf"{copy} is a\s+copy of the home\s+{home}: ")
    for words, code, out in (
        (("ps", "--format=value(name,state)"), 0, f"{running}\tJOB_STATE_RUNNING\n"),
        (("custom-jobs", "list", "--format=value(name)"), 0, f"{running}\n"),
        (("custom-jobs", "describe", running, "--format=value(state)"), 0, "JOB_STATE_RUNNING\n"),
        (("logs", running), 0, None),
        (("logs", running, "-f"), 12, None),
        (("custom-jobs", "wait", running), 12, ""),
        (("custom-jobs", "cancel", running), 1, ""),
        (("rm", running), 1, ""),
        (("exec", running, "--", "true"), 1, ""),
        (("shell", running), 1, ""),
        (("top", running, "--format=json"), 1, ""),
    ):
        ended = vtrain(*words)
        assert (ended.code, told.search(" ".join(ended.err.split())) is not None) == (code, True), ended
        assert ended.out == out if out is not None else "up\n" in ended.out
