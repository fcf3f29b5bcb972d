"""Jobs on this machine: the store, a supervisor per job, and the journals. How replicas run is injected."""

from __future__ import annotations

import math
import os
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
from vtrain.backends.local_plan import (
    PLANNED_JOB_ID,
    check_parent,
    check_replicas,
    order_of,
    parent_parts,
    runnable,
    with_spec,
    without_parent,
)
from vtrain.errors import ConfigError, ConflictError, DamagedError, NotFoundError, StorageError
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogPage, LogQuery
from vtrain.messages.names import GROUPS, ResourceName, parse_name
from vtrain.messages.resources import Job, collection_of
from vtrain.rooted import Root
from vtrain.runtime.adoption import check_own
from vtrain.runtime.capacity.leases import Claim
from vtrain.runtime.capacity.queue import attend, look_after
from vtrain.runtime.database import has_store, storage_errors
from vtrain.runtime.folder import DamagedFileError, JobFolder
from vtrain.runtime.history import stored_job
from vtrain.runtime.home import Home
from vtrain.runtime.job_order import JobOrder, SimulatedPreemption, TypedCommand
from vtrain.runtime.process.process_tree import boot_id
from vtrain.runtime.replica.vertex_view import PRIMARY, replica_ids, trial_spec
from vtrain.runtime.spawning import check_files, files_needed
from vtrain.runtime.store import Record, Store, delete_job, not_found
from vtrain.runtime.supervisor_process import new_job_id, start_supervisor

if TYPE_CHECKING:
    from vtrain.backends.local_plan import Planner
    from vtrain.packaging.sdist_plan import SdistPlan

LARGEST_PAGE = 1_000_000
_PAGE_TOKEN = re.compile(r"[0-9]{1,18}")
"""The number of a row: SQLite has none of 20 digits."""
GRACE_SECONDS = 30.0
"""Between SIGTERM and SIGKILL; Vertex's own is not documented, this is Kubernetes' default."""
GRACE_VARIABLE = "VTRAIN_GRACE_SECONDS"


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
    def _planner(self) -> Planner:
        return self._make_planner(self._settings)

    def plan(self, job: Job) -> Plan:
        """Exactly what submit would do.

        Raises ConfigError for a job that breaks a rule of the API and for a bad setting of this machine,
        UnavailableError for one that cannot run in this backend.
        """
        from vtrain.backends.job_storage import check_aip_dirs
        from vtrain.messages.hardware import check_hardware
        from vtrain.messages.rules import check_job
        from vtrain.runtime.machines import notices_about_names, several_primaries

        own = runnable(job)
        parent_notes = check_parent(job, self._settings) if own is not job else ()
        check_job(own, executor_required=False)
        check_replicas(own.job_spec)
        check_hardware(own.job_spec)
        _check_preemption(own, self._settings.preemption)
        if self._settings.debugger is not None:
            _check_debugger(own)
        check_aip_dirs(
            self._settings.aip_dirs,
            own.job_spec,
            has_credentials=bool(self._settings.options.credentials_file),
        )
        _grace_seconds()  # refuses anything that is not a time
        plan = self._planner.plan(own)
        self._claim(runnable(plan.job), Claim())
        check_files(self._files(own))
        planned = without_parent(with_spec(job, runnable(plan.job).job_spec))
        notices = (*notices_about_names(own.job_spec), *several_primaries(own.job_spec), *plan.notices)
        return msgspec.structs.replace(plan, job=planned, notices=notices, notes=(*parent_notes, *plan.notes))

    def view(self, job: Job, trial_id: str = "") -> tuple[Replica, ...]:
        """The job's replicas. Raises as `plan` does, except for conditions that matter only to a run."""
        from vtrain.messages.rules import check_job
        from vtrain.runtime.default_output import with_output

        own = runnable(job)
        check_job(own, executor_required=False)
        check_replicas(own.job_spec)
        own = with_output(own, PLANNED_JOB_ID)
        if trial_id:
            own = msgspec.structs.replace(own, job_spec=trial_spec(own.job_spec, trial_id))
        return self._planner.view(own, trial_id)

    def environment_steps(self, job: Job, trainer: SdistPlan | None) -> Steps:
        """The steps that make the environments. Raises EnvironmentFailed for a damaged package."""
        return self._planner.environment_steps(runnable(job), trainer)

    def submit(self, plan: Plan) -> Job:
        """Store the job and start its supervisor; it is PENDING and cannot be lost any more.

        Raises KeyTakenError where another job has its idempotency key, unless that one did not succeed.
        """
        from vtrain.runtime.enrolment import enrol

        name = ResourceName(
            project=self._settings.project,
            location=self._settings.region,
            collection=collection_of(plan.job),
            id=new_job_id(self._home),
        )
        job, order = self._order(plan, name)
        return enrol(self._open_store(), job, order, self._spawn_supervisor, snapshot=plan.snapshot)

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
        record = self._existing_store(name).get(name)
        if not states.has_ended(record.state):
            check_own(self._folder(name))
        self._adopt_if_possible(record)
        job = stored_job(record)
        is_running = isinstance(job, CustomJob) and not states.has_ended(job.state)
        folder, members = self._folder(name), replica_ids(runnable(job).job_spec) if is_running else ()
        newest = [folder.replica(each.name, folder.newest_attempt(each.name)) for each in members]
        running = tuple(replica for replica in newest if replica.started() and replica.exit() is None)
        return HostedJob(job=job, backend=record.backend, replicas=running)

    def folders(self, name: str, replica: str) -> tuple[Root, ...]:
        """The job's output folder, and the working directory of the replica's newest attempt."""
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
        check_own(self._folder(name))
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

    def _order(self, plan: Plan, name: ResourceName) -> tuple[Job, JobOrder]:
        """The job under its name, and the order to run it."""
        from vtrain.runtime.default_output import with_output
        from vtrain.runtime.enrolment import pending
        from vtrain.runtime.inheritance import inherited_environment

        own = with_output(pending(runnable(plan.job), str(name)), name.id)
        job = own if runnable(plan.job) is plan.job else pending(with_spec(plan.job, own.job_spec), str(name))
        order = order_of(own, job.name, self._settings).with_setting(variables=inherited_environment())
        order = msgspec.structs.replace(
            order,
            backend=self._name,
            grace_seconds=_grace_seconds(),
            source_folder=plan.source_folder,
            in_pool_spec=plan.in_pool_spec,
            terminal=self._settings.terminal if len(replica_ids(own.job_spec)) == 1 else None,
            boot_id=boot_id(),
            files=self._files(own),
            **parent_parts(job, self._settings),
        )
        order = self._planner.complete(order)
        return job, msgspec.structs.replace(order, claim=self._claim(own, order.claim))

    def _claim(self, own: CustomJob, claim: Claim) -> Claim:
        """The claim; of a job on a persistent resource its slots. Raises ConfigError, NotFoundError."""
        if not own.job_spec.persistent_resource_id:
            return claim
        from vtrain.runtime.resource_registry import ResourceRegistry

        settings = self._settings
        place = ResourceName(project=settings.project, location=settings.region, collection="", id="")
        return ResourceRegistry(self._home, place, self._spawn_supervisor).claim(own.job_spec, claim)

    def _files(self, own: CustomJob) -> int:
        """How many files a supervisor of the job has open."""
        return files_needed(len(replica_ids(own.job_spec)), self._planner.files_per_replica)

    def _folder(self, name: str) -> JobFolder:
        parsed = parse_name(name)
        if parsed is None:
            raise not_found(name)
        return Home(self._home.absolute()).job(parsed.id)

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
        look_after(self._open_store(), self._spawn_supervisor, record, at_once=at_once)

    def _adopt_if_possible(self, record: Record) -> str:
        """The same for a verb that reads, which does not depend on it; why no supervisor could be started."""
        try:
            self._adopt(record)
        except StorageError as error:
            return error.message
        return ""

    def _spawn_supervisor(self, folder: JobFolder, lock: int) -> None:
        start_supervisor(SUPERVISE, folder, lock)


def _check_preemption(job: CustomJob, preemption: SimulatedPreemption | None) -> None:
    """Raise ConfigError where the replica that is to be preempted is none of the job's."""
    names = [member.name for member in replica_ids(job.job_spec)]
    if preemption is not None and preemption.replica and preemption.replica not in names:
        raise ConfigError(
            f"The job has no replica {preemption.replica} that could be preempted.",
            hint=f"It has {', '.join(names)}.",
        )


def _check_debugger(job: CustomJob) -> None:
    """Raise ConfigError where the primary is a container of its own, into which nothing is installed."""
    if job.job_spec.worker_pool_specs[0].python_package_spec is None:
        raise ConfigError(
            "--debugpy is for Python trainers, and not for an image that runs as it is.",
            hint="Leave out --bake, or start debugpy in the image yourself.",
        )


def _grace_seconds() -> float:
    text = os.environ.get(GRACE_VARIABLE, "")
    try:
        seconds = float(text) if text else GRACE_SECONDS
    except ValueError:
        seconds = -1
    if not 0 <= seconds < math.inf:  # nan is neither
        raise ConfigError(f"{GRACE_VARIABLE} is {text!r}, and should be a number of seconds.")
    return seconds
