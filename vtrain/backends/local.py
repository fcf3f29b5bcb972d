"""Jobs on this machine: the store, a supervisor per job, and the journals. How replicas run is injected.

A list of ended jobs needs neither what submits jobs nor what looks after those that go on: both are imported
where they are needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from vtrain.backends import (
    PROTOCOL_VERSION,
    SUPERVISE,
    BackendSettings,
    Holdings,
    HostedJob,
    Page,
    Plan,
    Query,
    Replica,
    Steps,
)
from vtrain.errors import ConfigError, ConflictError, DamagedError, NotFoundError, StorageError
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogPage, LogQuery
from vtrain.messages.names import GROUPS, parse_name
from vtrain.runtime.database import has_store, storage_errors
from vtrain.runtime.folder import DamagedFileError, JobFolder
from vtrain.runtime.history import stored_job
from vtrain.runtime.home import Home
from vtrain.runtime.store import Record, Store, delete_job, not_found

if TYPE_CHECKING:
    from vtrain.backends.local_plan import Planner
    from vtrain.backends.local_submission import LocalSubmission
    from vtrain.messages.resources import Job
    from vtrain.packaging.sdist_plan import SdistPlan
    from vtrain.rooted import Root
    from vtrain.runtime.job_order import TypedCommand

LARGEST_PAGE = 1_000_000
_PAGE_TOKEN = re.compile(r"[0-9]{1,18}")
"""The number of a row: SQLite has none of 20 digits."""
_ANY_QUEUE = "SELECT 1 FROM leases UNION ALL SELECT 1 FROM requests LIMIT 1"


class LocalBackend:
    """Runs jobs on this machine. Nothing is kept in memory: any process can ask about any job."""

    protocol_version = PROTOCOL_VERSION

    def __init__(
        self, settings: BackendSettings, name: str, planner: Callable[[BackendSettings], Planner]
    ) -> None:
        """`name` and `planner` are for new jobs; those that are there are looked after wherever they run."""
        self._settings = settings
        self._name = name
        self._make_planner = planner
        self._home = settings.home
        self._store: Store | None = None

    @cached_property
    def _submission(self) -> LocalSubmission:
        from vtrain.backends.local_submission import LocalSubmission

        planner = self._make_planner(self._settings)
        return LocalSubmission(self._settings, self._name, planner, self._spawn_supervisor)

    def plan(self, job: Job) -> Plan:
        """Exactly what submit would do.

        Raises ConfigError for a job that breaks a rule of the API and for a bad setting of this machine,
        UnavailableError for one that cannot run in this backend.
        """
        return self._submission.plan(job)

    def view(self, job: Job, trial_id: str = "") -> tuple[Replica, ...]:
        """The job's replicas. Raises as `plan` does, except for conditions that matter only to a run."""
        return self._submission.view(job, trial_id)

    def environment_steps(self, job: Job, trainer: SdistPlan | None) -> Steps:
        """The steps that make the environments. Raises EnvironmentFailed for a damaged package."""
        return self._submission.environment_steps(job, trainer)

    def submit(self, plan: Plan) -> Job:
        """Store the job and start its supervisor; it is PENDING and cannot be lost any more.

        Raises KeyTakenError where another job has its idempotency key, unless that one did not succeed.
        """
        return self._submission.submit(plan, self._open_store())

    def get(self, name: str) -> Job:
        """The job as it stands; a job whose supervisor died gets another one first."""
        record = self._existing_store(name).get(name)
        self._adopt_if_possible(record)
        return stored_job(record)

    def look_after(self, name: str) -> None:
        """See that a supervisor runs the job. StorageError where none can, HomeError where none ever will."""
        self._adopt(self._existing_store(name).get(name))

    def list(self, query: Query) -> Page:
        """Jobs, newest first. Raises ConfigError for a wrong page token."""
        if not has_store(self._home):
            return Page(jobs=())
        if query.page_token and not _PAGE_TOKEN.fullmatch(query.page_token):
            raise ConfigError(f"{query.page_token!r:.100} is not a page token.")
        records, token = self._open_store().page(
            query.collection,
            project=query.project,
            location=query.location,
            size=min(max(query.page_size, 1), LARGEST_PAGE),
            token=query.page_token,
            labels=query.labels,
        )
        for record in records:
            if record.state != states.QUEUED:  # `attend` looks after those, all at once
                with suppress(NotFoundError):  # deleted meanwhile
                    self._adopt_if_possible(record)
        if self._open_store().execute(_ANY_QUEUE):
            from vtrain.runtime.capacity.queue import attend

            attend(self._open_store(), self._spawn_supervisor)
        jobs, damaged = [], []
        for record in records:
            try:
                jobs.append(stored_job(record))
            except DamagedError:
                damaged.append(record.name)
        return Page(jobs=tuple(jobs), damaged=tuple(damaged), next_page_token=token)

    def logs(self, query: LogQuery) -> LogPage:
        """The log from a cursor on; also while the job runs, and from any process."""
        record = self._existing_store(query.name).get(query.name)
        trouble = self._adopt_if_possible(record)
        with storage_errors(self._home):
            from vtrain.runtime.log.log_reader import lost_log, read_logs
            from vtrain.runtime.pipelines import task_logs
            from vtrain.runtime.tuning.trial_record import trial_logs

            folder = self._folder(query.name)
            with suppress(FileNotFoundError):  # in the middle of it, where the job is being deleted
                if folder.logs.exists():
                    # The state was read before the lines are: all lines of an ended job are there by now.
                    ended = states.has_ended(record.state)
                    started = folder.started_replicas() if ended else ()
                    children = trial_logs(folder) or task_logs(folder)
                    page = read_logs(folder.logs, query, ended=ended, children=children, started=started)
                    troubles = " ".join(filter(None, (page.trouble, trouble)))
                    return msgspec.structs.replace(page, trouble=troubles)
        self._open_store().get(query.name)
        return lost_log(query)

    def hosted(self, name: str) -> HostedJob:
        """The job, and the folders of its replicas that run now. Raises HomeError in a copy of its home."""
        from vtrain.runtime.replica.vertex_view import replica_ids

        record = self._existing_store(name).get(name)
        if not states.has_ended(record.state):
            self._check_own(name)
        self._adopt_if_possible(record)
        job, folder = stored_job(record), self._folder(name)
        members = replica_ids(job.job_spec) if isinstance(job, CustomJob) else ()
        if states.has_ended(job.state):
            members = ()
        newest = [folder.replica(each.name, folder.newest_attempt(each.name)) for each in members]
        running = tuple(replica for replica in newest if replica.started() and replica.exit() is None)
        return HostedJob(job=job, backend=record.backend, replicas=running)

    def folders(self, name: str, replica: str) -> tuple[Root, ...]:
        """The job's output folder, and the working directory of the replica's newest attempt."""
        from vtrain.rooted import Root
        from vtrain.runtime.replica.vertex_view import PRIMARY

        output = self._output(name)
        folder, task = self._folder(name), replica or PRIMARY.name
        if replica and replica not in folder.started_replicas():
            raise NotFoundError(f"No replica {replica} of the job has started.")
        work = folder.replica(task, folder.newest_attempt(task)).work
        found = (output, Root(work.parent, work.name))
        return tuple(root for root in found if root is not None and root.is_folder())

    def command(self, name: str) -> TypedCommand | None:
        """The command line that made the job; None for a job of another program."""
        self._existing_store(name).get(name)
        try:
            order = self._folder(name).order()
        except DamagedFileError:
            return None
        return order.command and msgspec.structs.replace(order.command, source_folder=order.source_folder)

    def cancel(self, name: str) -> None:
        """Ask the job's supervisor to end it; nothing for a job that has ended."""
        self._request(name, "cancel")

    def kill(self, name: str) -> None:
        """Ask the job's supervisor to end it now, without a grace period."""
        self._request(name, "kill")

    def _request(self, name: str, verb: str) -> None:
        store = self._existing_store(name)
        record = store.get(name)
        if states.has_ended(record.state):
            return
        self._check_own(name)
        store.check_writable()
        store.request(name, verb)
        if not self._folder(name).wake():  # no supervisor lives that could read the request
            self._adopt(record, at_once=True)

    def delete(self, name: str) -> None:
        """Remove an ended job: its row and its folder. Raises ConflictError while it or a trial runs."""
        store = self._existing_store(name)
        record = store.get(name)
        if not states.has_ended(record.state):
            self._adopt(record)
            record = store.get(name)  # which has ended by now, if no supervisor can look after it
        if not states.has_ended(record.state):
            ends = record.state == states.CANCELLING
            group = GROUPS[record.collection]
            hint = f"Wait for its end: vtrain {group} wait" if ends else f"Cancel it: vtrain {group} cancel"
            raise ConflictError(
                f"{name} is {states.short(record.state)} and can be deleted once it has ended.",
                hint=f"{hint} {name}",
            )
        from vtrain.runtime.default_output import remove_if_empty

        for trial in store.trials(name):
            with suppress(NotFoundError):  # another process removes them
                self._adopt(store.get(trial))
        output = self._output(name)
        delete_job(store, name, self._folder(name))
        if output is not None:
            remove_if_empty(output, self._home)

    def holdings(self, name: str) -> Holdings:
        """The job's files here, as far as a damaged entry still tells of them."""
        from vtrain.runtime.gc.candidate import byte_count
        from vtrain.runtime.working_folder import remarks_on

        output, folder = self._output(name), self._folder(name).path
        left_files = bool(remarks_on(self._home, folder.name).notes)
        trials = [folder.with_name(trial.rpartition("/")[2]) for trial in self._open_store().trials(name)]
        size = sum(map(byte_count, (folder, *trials)))
        return Holdings(size=size, left_files=left_files, output=output.path if output else None)

    def _output(self, name: str) -> Root | None:
        """The folder of this machine that the job writes its output to. Raises NotFoundError."""
        from vtrain.runtime.gc.living import job_document, output_of

        record = self._existing_store(name).get(name)
        return output_of(job_document(record, self._folder(name).path), self._home)

    def _folder(self, name: str) -> JobFolder:
        parsed = parse_name(name)
        if parsed is None:
            raise not_found(name)
        return Home(self._home.absolute()).job(parsed.id)

    def _check_own(self, name: str) -> None:
        """Raise HomeError for a job that another home runs, of which this one is a copy."""
        from vtrain.runtime.adoption import check_own

        check_own(self._folder(name))

    def _open_store(self) -> Store:
        if self._store is None:
            self._store = Store.open(self._home)
        return self._store

    def _existing_store(self, name: str) -> Store:
        if self._store is None and not has_store(self._home):
            raise not_found(name)
        return self._open_store()

    def _adopt(self, record: Record, *, at_once: bool = False) -> None:
        """Start another supervisor where a job goes on without one, and is not only waiting for its turn."""
        if not states.has_ended(record.state):
            from vtrain.runtime.capacity.queue import look_after

            look_after(self._open_store(), self._spawn_supervisor, record, at_once=at_once)

    def _adopt_if_possible(self, record: Record) -> str:
        """The same for a verb that reads, which does not depend on it; why no supervisor could be started."""
        try:
            self._adopt(record)
        except StorageError as error:
            return error.message
        return ""

    @staticmethod
    def _spawn_supervisor(folder: JobFolder, lock: int) -> None:
        from vtrain.runtime.supervisor_process import start_supervisor

        start_supervisor(SUPERVISE, folder, lock)
