"""Jobs created, looked at, read, cancelled, killed and deleted in any order, against a model of the rules."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from lib.waiting import wait_until

import vtrain
from vtrain.backends import BackendSettings, JobBackend, Query
from vtrain.backends.registry import open_backend
from vtrain.errors import ConflictError, NotFoundError
from vtrain.messages import states
from vtrain.messages.custom_job import EnvVar, GcsDestination
from vtrain.messages.log import LogQuery
from vtrain.messages.resources import Job
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.locks import lock_holder
from vtrain.testing.memory import MemoryBackend
from vtrain.testing.script import Script, script_job

pytestmark = pytest.mark.end_to_end

ROOT = str(Path(vtrain.__file__).parent.parent)
PRIMARY = "workerpool0-0"
PATIENCE_SECONDS = 60.0
MOST_KILLS = 3
PROGRESS = {states.QUEUED: 0, states.PENDING: 0, states.RUNNING: 1, states.CANCELLING: 2}
"""How far a job has come; an ended one has come to 3."""


class Kind:
    """A trainer, what its attempts write, and how its job ends when nobody meddles; empty: never."""

    def __init__(self, script: Script, attempts: list[list[str]], end: str) -> None:
        self.script = script
        self.attempts = attempts
        self.end = end


KINDS = {
    "well": Kind(Script().write("a\n").write("b\n"), [["a", "b"]], states.SUCCEEDED),
    "badly": Kind(Script().write("a\n").exit(7), [["a"]], states.FAILED),
    "crashing": Kind(Script().write("a\n").die(signal.SIGABRT), [["a"]] * 4, states.FAILED),
    "crashing once": Kind(
        Script().write("a\n").crash_first(1).write("b\n"), [["a"], ["a", "b"]], states.SUCCEEDED
    ),
    "never": Kind(Script().write("a\n").hang(), [["a"]], ""),
}


class Known:
    """What the model knows of a job, and what was read of its log."""

    def __init__(self, job: Job, kind: Kind) -> None:
        self.job = job
        self.kind = kind
        self.cursor = ""
        self.ids: set[str] = set()
        self.lines: dict[int, list[str]] = defaultdict(list)
        self.is_cancelled = False
        self.is_deleted = False
        self.kills = 0

    @property
    def name(self) -> str:
        return self.job.name

    @property
    def has_ended(self) -> bool:
        return states.has_ended(self.job.state)

    @property
    def goes_on(self) -> bool:
        """Whether it ends only when somebody ends it."""
        return not self.kind.end and not self.is_cancelled

    def check_state(self, found: Job) -> None:
        """An ended job stays as it is; others go on, and end as they may."""
        if self.has_ended:
            assert found == self.job
            return
        assert self.progress_of(found) >= self.progress_of(self.job), (self.job.state, found.state)
        self.job = found
        if self.has_ended:
            allowed = {self.kind.end} | ({states.CANCELLED} if self.is_cancelled else set())
            assert found.state in allowed, found
            assert found.create_time <= (found.start_time or found.end_time) <= found.end_time

    @staticmethod
    def progress_of(job: Job) -> int:
        return PROGRESS.get(job.state, 3)

    def check_lines(self) -> None:
        """All that was written, attempt after attempt; of a cancelled job its beginning."""
        wanted = self.kind.attempts * (1 + self.kills) if not self.kind.end else self.kind.attempts
        found = [self.lines[number] for number in range(max(self.lines, default=-1) + 1)]
        if self.job.state != states.CANCELLED:
            assert found == wanted
        for lines, whole in zip(found, wanted, strict=False):
            assert lines == whole[: len(lines)]
        assert len(found) <= len(wanted)


class World:
    """A backend, as each command opens it anew."""

    can_kill = False

    def __init__(self) -> None:
        self.memory = MemoryBackend()

    def backend(self) -> JobBackend:
        return self.memory

    def submit(self, script: Script) -> Job:
        backend = self.backend()
        return backend.submit(backend.plan(script_job(script)))

    def close(self) -> None:
        """Nothing is left of it."""
        assert self.backend().list(Query()).jobs == ()

    def destroy(self) -> None:
        """Whatever has happened, nothing goes on."""


class ProcessWorld(World):
    """A home of its own, and signals for those who work in it."""

    can_kill = True

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="vtrain-rules-"))
        self.submitted = 0

    def backend(self) -> JobBackend:
        return open_backend("process", BackendSettings(home=self.home, project="local", region="us-central1"))

    def submit(self, script: Script) -> Job:
        backend = self.backend()
        job = script_job(script, env=[EnvVar(name="PYTHONPATH", value=ROOT)])
        self.submitted += 1
        output = GcsDestination(output_uri_prefix=f"gs://demo/{self.submitted}")
        spec = msgspec.structs.replace(job.job_spec, base_output_directory=output)
        return backend.submit(backend.plan(msgspec.structs.replace(job, job_spec=spec)))

    def folder(self, name: str) -> JobFolder:
        return JobFolder(self.home / "jobs" / name.rpartition("/")[2])

    def kill_supervisor(self, name: str) -> None:
        marker = str(self.folder(name).path).encode()
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if len(words) > 2 and words[1].endswith(b"/supervise.py") and words[2] == marker:
                    os.kill(int(entry.name), signal.SIGKILL)

    def kill_shim(self, name: str, attempt: int) -> bool:
        """Whether there was one."""
        shim = lock_holder(self.folder(name).replica(PRIMARY, attempt).lock)
        if shim <= 0:
            return False
        os.kill(shim, signal.SIGKILL)
        return True

    def close(self) -> None:
        super().close()
        assert [*(self.home / "jobs").glob("*")] == []
        wait_until(lambda: self.processes() == [])

    def processes(self) -> list[int]:
        """Supervisors, shims and trainers."""
        marker = f"{self.home}/jobs/".encode()
        found = [entry for entry in Path("/proc").glob("[0-9]*") if marker in command_of(entry)]
        return [int(entry.name) for entry in found]

    def destroy(self) -> None:
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        shutil.rmtree(self.home)


def command_of(entry: Path) -> bytes:
    """Command line and environment: a trainer bears the job's folder in its TMPDIR."""
    try:
        return (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
    except OSError:
        return b""


class EngineRules(RuleBasedStateMachine):
    """What people and accidents do to jobs."""

    jobs = Bundle("jobs")

    def __init__(self, make_world: Callable[[], World]) -> None:
        super().__init__()
        self.world = make_world()
        self.known: list[Known] = []

    @rule(target=jobs, kind=st.sampled_from(sorted(KINDS)))
    def create(self, kind: str) -> Known:
        job = self.world.submit(KINDS[kind].script)
        assert job.state in (states.QUEUED, states.PENDING)
        self.known.append(Known(job, KINDS[kind]))
        return self.known[-1]

    @rule(known=jobs)
    def look(self, known: Known) -> None:
        if known.is_deleted:
            with pytest.raises(NotFoundError):
                self.world.backend().get(known.name)
        else:
            known.check_state(self.world.backend().get(known.name))

    @rule(known=jobs, limit=st.sampled_from([1, 100, 2**20]))
    def read(self, known: Known, limit: int) -> None:
        query = LogQuery(name=known.name, task_name=PRIMARY, cursor=known.cursor, limit=limit)
        if known.is_deleted:
            with pytest.raises(NotFoundError):
                self.world.backend().logs(query)
            return
        page = self.world.backend().logs(query)
        known.cursor = page.cursor
        for entry in page.entries:
            assert entry.insert_id not in known.ids, "an entry came twice"
            known.ids.add(entry.insert_id)
            known.lines[entry.attempt] += entry.message.split("\n")

    @rule(known=jobs)
    def cancel(self, known: Known) -> None:
        if known.is_deleted:
            with pytest.raises(NotFoundError):
                self.world.backend().cancel(known.name)
            return
        known.is_cancelled = known.is_cancelled or not known.has_ended
        self.world.backend().cancel(known.name)

    @rule(known=jobs)
    def delete(self, known: Known) -> None:
        """One that may have ended meanwhile may be gone or not; then it is looked at."""
        try:
            self.world.backend().delete(known.name)
        except NotFoundError:
            assert known.is_deleted
        except ConflictError:
            assert not known.has_ended
        else:
            assert not known.is_deleted
            assert known.has_ended or not known.goes_on
            known.is_deleted = True

    @rule()
    def list_all(self) -> None:
        """Newest first, in pages; and `get` agrees."""
        found: list[Job] = []
        query = Query(page_size=2)
        while True:
            page = self.world.backend().list(query)
            found += page.jobs
            if not page.next_page_token:
                break
            query = Query(page_size=2, page_token=page.next_page_token)
        there = [known for known in reversed(self.known) if not known.is_deleted]
        assert [job.name for job in found] == [known.name for known in there]
        for known, job in zip(there, found, strict=True):
            known.check_state(job)

    @rule(known=jobs)
    def wait(self, known: Known) -> None:
        if known.is_deleted or known.goes_on:
            return
        wait_until(lambda: self.looked_at(known).has_ended)
        self.read_all(known)
        known.check_lines()

    @precondition(lambda self: self.world.can_kill)
    @rule(known=jobs)
    def kill_supervisor(self, known: Known) -> None:
        assert isinstance(self.world, ProcessWorld)
        self.world.kill_supervisor(known.name)

    @precondition(lambda self: self.world.can_kill)
    @rule(known=jobs)
    def kill_shim(self, known: Known) -> None:
        """A trainer that would go on begins again."""
        assert isinstance(self.world, ProcessWorld)
        if known.is_deleted or not known.goes_on or known.kills == MOST_KILLS:
            return
        wait_until(lambda: self.has_written(known, known.kills))
        assert self.world.kill_shim(known.name, known.kills)
        known.kills += 1
        wait_until(lambda: self.has_written(known, known.kills))

    def has_written(self, known: Known, attempt: int) -> bool:
        self.read_all(self.looked_at(known))
        return known.lines.get(attempt) == known.kind.attempts[0]

    def looked_at(self, known: Known) -> Known:
        self.look(known)
        return known

    def read_all(self, known: Known) -> None:
        count = -1
        while count != len(known.ids):
            count = len(known.ids)
            self.read(known, 2**20)

    def teardown(self) -> None:
        try:
            self.end_all()
        finally:
            self.world.destroy()

    def end_all(self) -> None:
        """Every job comes to its end, and can be removed without a trace."""
        for known in self.known:
            if not known.is_deleted and known.goes_on:
                self.cancel(known)
        for known in self.known:
            self.wait(known)
        self.list_all()
        for known in self.known:
            if not known.is_deleted:
                self.delete(known)
            self.look(known)
        self.world.close()


def test_memory_keeps_the_rules() -> None:
    many = settings(max_examples=settings.default.max_examples // 2, stateful_step_count=20)
    run_state_machine_as_test(lambda: EngineRules(World), settings=many)


def test_processes_keep_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VTRAIN_GRACE_SECONDS", "1")
    few = settings(max_examples=max(settings.default.max_examples // 20, 5), stateful_step_count=12)
    run_state_machine_as_test(lambda: EngineRules(ProcessWorld), settings=few)
