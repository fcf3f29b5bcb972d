"""The behaviour that every backend owes, written once.

    class TestMine(BackendContract):
        @pytest.fixture
        def backend(self, tmp_path): return MyBackend(...)

`BackendContract` is for every backend: jobs of one replica, which is called `workerpool0-0`. It asks for no
certain ids, projects, files or times, and leaves the words of a failure to the backend. `ReplicaContract`
adds the rules of Vertex AI for backends that run several replicas, restart them, and tell how each one ended.

Jobs follow scripts (`vtrain.testing.script`): Python packages whose module is `vtrain.testing.player`.
Override `make_job` where a trainer gets there another way, and `query` and `unknown_name` where jobs live
elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import pytest

from vtrain.backends import JobBackend, Query
from vtrain.errors import ConflictError, NotFoundError, VtrainError
from vtrain.messages import states
from vtrain.messages.custom_job import ContainerSpec, CustomJob, CustomJobSpec, Scheduling, WorkerPoolSpec
from vtrain.messages.log import LogEntry, LogQuery
from vtrain.messages.names import parse_name
from vtrain.messages.resources import Job
from vtrain.messages.structs import GcsDestination
from vtrain.testing.script import Script, script_job

PATIENCE_SECONDS = 90.0
HOLDING = Script().write("ready\n").hang()


class BackendContract:
    """The tests that each backend has to pass. Inherit, and give the fixture `backend`."""

    project, location = "local", "us-central1"

    @pytest.fixture
    def backend(self) -> JobBackend:
        """A backend without jobs."""
        pytest.fail("A test of the contract gives the fixture `backend`.")

    def make_job(self, *scripts: Script) -> CustomJob:
        """A job with a replica for each script, the primary first, every one in a pool of its own."""
        return script_job(*scripts)

    def make_refused_job(self) -> CustomJob:
        """A job that this backend does not take."""
        pool = WorkerPoolSpec(container_spec=ContainerSpec(image_uri="example.com/image"))
        return CustomJob(display_name="refused", job_spec=CustomJobSpec(worker_pool_specs=(pool,)))

    def query(self, *, page_size: int = 100, page_token: str = "") -> Query:
        """Asks for all jobs of the backend."""
        return Query(project=self.project, page_size=page_size, page_token=page_token)

    def unknown_name(self) -> str:
        """The name of a job that there is not."""
        return f"projects/{self.project}/locations/{self.location}/customJobs/404"

    def reconnect(self, backend: JobBackend) -> JobBackend:
        """The same backend as another command would open it."""
        return backend

    def cancel_elsewhere(self, backend: JobBackend, name: str) -> None:
        """Cancel from another process."""
        self.reconnect(backend).cancel(name)

    # plan and submit

    def test_plan_is_pure(self, backend: JobBackend) -> None:
        job = self.make_job(Script())
        first, second = backend.plan(job), backend.plan(job)
        assert first == second
        assert [replica.name for replica in first.replicas] in ([], ["workerpool0-0"])
        assert backend.list(self.query()).jobs == ()

    def test_submit_names_the_job(self, backend: JobBackend) -> None:
        job = self.start(backend, Script())
        assert parse_name(job.name) is not None
        assert job.state in (states.PENDING, states.QUEUED)
        assert job.create_time != ""
        assert self.wait(backend, job.name).name == job.name

    def test_a_refused_job_leaves_nothing(self, backend: JobBackend) -> None:
        with pytest.raises(VtrainError):
            backend.submit(backend.plan(self.make_refused_job()))
        assert backend.list(self.query()).jobs == ()

    def test_unknown_names(self, backend: JobBackend) -> None:
        name = self.unknown_name()
        verbs: tuple[Callable[[], object], ...] = (
            lambda: backend.get(name),
            lambda: backend.logs(LogQuery(name=name)),
            lambda: backend.cancel(name),
            lambda: backend.delete(name),
        )
        for verb in verbs:
            with pytest.raises(NotFoundError):
                verb()

    def test_list_is_newest_first_in_pages(self, backend: JobBackend) -> None:
        names = [self.start(backend, Script()).name for _ in range(3)]
        first = backend.list(self.query(page_size=2))
        assert [job.name for job in first.jobs] == [names[2], names[1]]
        last = backend.list(self.query(page_size=2, page_token=first.next_page_token))
        assert [job.name for job in last.jobs] == [names[0]]
        assert last.next_page_token == ""
        for name in names:
            self.wait(backend, name)

    # the verdict

    def test_success(self, backend: JobBackend) -> None:
        job = self.wait(backend, self.start(backend, Script().write("done\n")).name)
        assert job.state == states.SUCCEEDED
        assert job.error is None
        assert job.create_time <= job.start_time <= job.end_time
        assert self.reconnect(backend).get(job.name) == job

    def test_failure_says_why(self, backend: JobBackend) -> None:
        job = self.wait(backend, self.start(backend, Script().exit(7)).name)
        assert job.state == states.FAILED
        assert job.error is not None
        assert "7" in job.error.message
        assert self.reconnect(backend).get(job.name) == job

    # logs

    def test_lines_of_one_replica(self, backend: JobBackend) -> None:
        job = self.wait(backend, self.start(backend, Script().count(5000).write_error("bad\n")).name)
        expected = sorted([*(f"line {number}" for number in range(5000)), "bad"])
        assert sorted(self.lines(backend, job.name, limit=4096)) == expected
        assert sorted(self.lines(self.reconnect(backend), job.name)) == expected

    def test_following_while_it_runs(self, backend: JobBackend) -> None:
        script = Script()
        for number in range(20):
            script = script.write(f"line {number}\n").sleep(0.01)
        name = self.start(backend, script).name
        entries: list[LogEntry] = []
        cursor, ended = "", False
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            ended = states.has_ended(backend.get(name).state)
            page = self.reconnect(backend).logs(LogQuery(name=name, cursor=cursor, task_name="workerpool0-0"))
            cursor = page.cursor
            entries += page.entries
            if ended and not page.entries:
                break
        assert text_lines(entries) == [f"line {number}" for number in range(20)]

    def test_the_last_line_is_not_lost(self, backend: JobBackend) -> None:
        job = self.wait(backend, self.start(backend, Script().write("first\nlast").exit(1)).name)
        assert self.lines(backend, job.name) == ["first", "last"]

    def test_two_jobs_do_not_mix(self, backend: JobBackend) -> None:
        first = self.start(backend, Script().write("one\n").sleep(0.1).exit(5))
        second = self.start(backend, Script().write("two\n").sleep(0.1))
        assert self.wait(backend, first.name).state == states.FAILED
        assert self.wait(backend, second.name).state == states.SUCCEEDED
        assert self.lines(backend, first.name) == ["one"]
        assert self.lines(backend, second.name) == ["two"]

    # cancel and delete

    def test_cancel_at_once_and_twice(self, backend: JobBackend) -> None:
        job = self.start(backend, HOLDING)
        backend.cancel(job.name)
        backend.cancel(job.name)
        self.expect_cancelled(self.wait(backend, job.name))

    def test_cancel_from_another_process(self, backend: JobBackend) -> None:
        name = self.start_holding(backend, HOLDING)
        self.cancel_elsewhere(backend, name)
        self.expect_cancelled(self.wait(backend, name))

    def test_cancel_after_the_end(self, backend: JobBackend) -> None:
        job = self.wait(backend, self.start(backend, Script()).name)
        backend.cancel(job.name)
        assert backend.get(job.name).state == states.SUCCEEDED

    def test_a_trainer_that_ignores_sigterm_is_stopped(self, backend: JobBackend) -> None:
        name = self.start_holding(backend, Script().ignore_sigterm().write("ready\n").hang())
        backend.cancel(name)
        self.expect_cancelled(self.wait(backend, name))

    def test_a_silent_trainer_is_stopped(self, backend: JobBackend) -> None:
        name = self.start(backend, Script().hang()).name
        self.wait_for(lambda: backend.get(name).state == states.RUNNING)
        backend.cancel(name)
        self.expect_cancelled(self.wait(backend, name))

    def test_delete_leaves_no_trace(self, backend: JobBackend) -> None:
        name = self.start_holding(backend, HOLDING)
        with pytest.raises(ConflictError):
            backend.delete(name)
        backend.cancel(name)
        self.wait(backend, name)
        backend.delete(name)
        with pytest.raises(NotFoundError):
            backend.get(name)
        assert backend.list(self.query()).jobs == ()

    # what the tests above are written with

    def start(self, backend: JobBackend, *scripts: Script) -> Job:
        """Submit a job of these scripts."""
        return backend.submit(backend.plan(self.make_job(*scripts)))

    def start_holding(self, backend: JobBackend, *scripts: Script) -> str:
        """Submit and wait until the primary has written a line."""
        name = self.start(backend, *scripts).name
        self.wait_for(lambda: bool(self.lines(self.stepped(backend, name), name)))
        return name

    def stepped(self, backend: JobBackend, name: str) -> JobBackend:
        """The backend after the job was looked at once more."""
        backend.get(name)
        return backend

    def wait(self, backend: JobBackend, name: str) -> Job:
        """The job, once it has ended."""
        self.wait_for(lambda: states.has_ended(backend.get(name).state))
        return backend.get(name)

    def wait_for(self, reached: Callable[[], bool]) -> None:
        """Ask until it is so, at most `PATIENCE_SECONDS`."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not reached():
            assert time.monotonic() < deadline, "this took too long"
            time.sleep(0.01)

    def entries(self, backend: JobBackend, name: str, *, limit: int = 2**20) -> list[LogEntry]:
        """All entries of the primary that there are now."""
        task = "workerpool0-0"
        entries: list[LogEntry] = []
        query = LogQuery(name=name, task_name=task, limit=limit)
        while page := backend.logs(query):
            if not page.entries:
                break
            assert page.cursor != query.cursor, "a page with entries has a new cursor"
            entries += page.entries
            query = LogQuery(name=name, task_name=task, limit=limit, cursor=page.cursor)
        return entries

    def lines(self, backend: JobBackend, name: str, *, limit: int = 2**20) -> list[str]:
        """The primary's lines."""
        return text_lines(self.entries(backend, name, limit=limit))

    def expect_cancelled(self, job: Job) -> None:
        """Ended by request."""
        assert job.state == states.CANCELLED
        assert job.end_time != ""


def text_lines(entries: list[LogEntry]) -> list[str]:
    """The lines in entries, partial ones joined."""
    text = "".join(entry.message + ("" if entry.partial else "\n") for entry in entries)
    return text.removesuffix("\n").split("\n") if entries else []


class ReplicaContract(BackendContract):
    """The tests of a backend that runs replicas by the rules of Vertex AI."""

    def is_alive(self, pid: int) -> bool:
        """Whether a process of a replica still lives."""
        return pid != 0

    def test_plan_names_every_replica(self, backend: JobBackend) -> None:
        plan = backend.plan(self.make_job(Script(), Script()))
        assert [replica.name for replica in plan.replicas] in ([], ["workerpool0-0", "workerpool1-0"])

    def test_times_of_a_new_job(self, backend: JobBackend) -> None:
        job = self.start(backend, Script())
        assert job.create_time == job.update_time != ""
        self.wait(backend, job.name)

    # the verdict

    @pytest.mark.parametrize(
        ("script", "code"),
        [(Script().exit(7), 7), (Script().die(9), 137), (Script().die(15), 143)],
        ids=["7", "137", "143"],
    )
    def test_exit_codes_are_kept(self, backend: JobBackend, script: Script, code: int) -> None:
        job = self.wait(backend, self.start(backend, script).name)
        assert job.state == states.FAILED
        assert job.error is not None
        assert job.error.code == 3
        assert job.error.message.startswith(
            f"The replica workerpool0-0 exited with a non-zero status of {code}."
        )
        assert job.error.details[0]["metadata"]["exitCode"] == str(code)

    def test_one_replica_of_several_fails(self, backend: JobBackend) -> None:
        job = self.wait(backend, self.start(backend, HOLDING, HOLDING, Script().exit(3)).name)
        assert job.state == states.FAILED
        assert job.error is not None
        assert job.error.details[0]["metadata"]["replica"] == "workerpool2-0"

    def test_the_primary_ends_the_job(self, backend: JobBackend) -> None:
        job = self.wait(backend, self.start(backend, Script().sleep(0.2), HOLDING).name)
        assert job.state == states.SUCCEEDED

    def test_a_worker_that_is_done_ends_only_itself(self, backend: JobBackend) -> None:
        script = Script().sleep(0.3).write("primary\n")
        job = self.wait(backend, self.start(backend, script, Script()).name)
        assert job.state == states.SUCCEEDED
        assert "primary" in self.lines(backend, job.name)

    # logs

    def test_every_line_once_and_in_order(self, backend: JobBackend) -> None:
        script = Script().count(5000).sleep(1.0).write_error("bad\n")
        job = self.start(backend, script, Script().count(500).hang())
        self.wait(backend, job.name)
        expected = [f"line {number}" for number in range(5000)]
        assert self.lines(backend, job.name, limit=4096) == [*expected, "bad"]
        assert self.lines(self.reconnect(backend), job.name) == [*expected, "bad"]

    def test_streams_have_their_severity(self, backend: JobBackend) -> None:
        script = Script().write("a\n").sleep(1.0).write_error("b\n")
        job = self.wait(backend, self.start(backend, script).name)
        entries = self.entries(backend, job.name)
        assert [(e.payload, e.severity, e.stream) for e in entries] == [
            (b"a", "INFO", "stdout"),
            (b"b", "ERROR", "stderr"),
        ]
        assert len({e.insert_id for e in entries}) == 2

    # restarts, by Vertex AI's rules

    def test_a_crash_is_tried_again(self, backend: JobBackend) -> None:
        job = self.run(backend, Script().write("begin\n").crash_first(2).write("done\n"))
        assert job.state == states.SUCCEEDED
        assert self.lines(backend, job.name) == ["begin", "begin", "begin", "done"]
        assert {entry.attempt for entry in self.entries(backend, job.name)} == {0, 1, 2}

    def test_a_line_without_an_end_stays_in_its_attempt(self, backend: JobBackend) -> None:
        job = self.run(backend, Script().write("torn").crash_first(1))
        assert self.lines(backend, job.name) == ["torn", "torn"]

    def test_a_crash_that_stays_fails_the_job(self, backend: JobBackend) -> None:
        job = self.run(backend, Script().write("begin\n").die(11))
        assert job.state == states.FAILED
        assert job.error is not None
        metadata = job.error.details[0]["metadata"]
        assert (metadata["exitCode"], metadata["restarts"]) == ("139", "3")
        assert self.lines(backend, job.name) == ["begin"] * 4

    def test_a_crash_begins_the_whole_job_again(self, backend: JobBackend) -> None:
        primary = Script().write("begin\n").hang_first(1).write("done\n")
        job = self.run(backend, primary, Script().sleep(3.0).crash_first(1).hang())
        assert job.state == states.SUCCEEDED
        assert self.lines(backend, job.name)[-2:] == ["begin", "done"]

    def test_disabled_retries(self, backend: JobBackend) -> None:
        scheduling = Scheduling(disable_retries=True)
        job = self.run(backend, Script().crash_first(1), scheduling=scheduling)
        assert job.state == states.FAILED
        assert job.error is not None
        assert "restarts" not in job.error.details[0]["metadata"]

    # cancel

    def test_cancel_while_running_from_another_process(self, backend: JobBackend) -> None:
        name = self.start_holding(backend, HOLDING, HOLDING)
        self.cancel_elsewhere(backend, name)
        self.expect_cancelled(self.wait(backend, name))

    @pytest.mark.parametrize("cancel", [True, False], ids=["cancelled", "ended"])
    def test_grandchildren_die(self, backend: JobBackend, cancel: bool) -> None:
        script = Script().leave_grandchild()
        name = self.start(backend, script.hang() if cancel else script).name
        if cancel:
            self.wait_for(lambda: bool(self.lines(self.stepped(backend, name), name)))
            backend.cancel(name)
        self.wait(backend, name)
        assert not self.is_alive(int(self.lines(backend, name)[0]))

    # what the tests above are written with

    def run(self, backend: JobBackend, *scripts: Script, scheduling: Scheduling | None = None) -> Job:
        """A job with an output directory, once it has ended."""
        job = self.make_job(*scripts)
        output = GcsDestination(output_uri_prefix="gs://contract/restarts")
        spec = msgspec.structs.replace(
            job.job_spec, base_output_directory=output, scheduling=scheduling or job.job_spec.scheduling
        )
        job = msgspec.structs.replace(job, job_spec=spec)
        return self.wait(backend, backend.submit(backend.plan(job)).name)

    def expect_cancelled(self, job: Job) -> None:
        """Ended by request, in the API's words."""
        super().expect_cancelled(job)
        assert job.error is not None
        assert job.error.code == 1
        assert "CANCELED" in job.error.message
