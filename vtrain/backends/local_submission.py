"""A new job on this machine: checked, planned, named, and enrolled. How its replicas run is injected."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import msgspec

from vtrain.backends import BackendSettings, Plan, Replica, Steps
from vtrain.backends.job_storage import check_aip_dirs
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
from vtrain.errors import ConfigError
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.hardware import check_hardware
from vtrain.messages.names import ResourceName
from vtrain.messages.resources import Job, collection_of
from vtrain.messages.rules import check_job
from vtrain.runtime.adoption import Start
from vtrain.runtime.capacity.leases import Claim
from vtrain.runtime.default_output import with_output
from vtrain.runtime.enrolment import enrol, pending
from vtrain.runtime.inheritance import inherited_environment
from vtrain.runtime.job_order import JobOrder, SimulatedPreemption
from vtrain.runtime.machines import notices_about_names, several_primaries
from vtrain.runtime.process.process_tree import boot_id
from vtrain.runtime.replica.vertex_view import replica_ids, trial_spec
from vtrain.runtime.spawning import check_files, files_needed
from vtrain.runtime.store import Store
from vtrain.runtime.supervisor_process import new_job_id

if TYPE_CHECKING:
    from vtrain.backends.local_plan import Planner
    from vtrain.packaging.sdist_plan import SdistPlan

GRACE_SECONDS = 30.0
"""Between SIGTERM and SIGKILL; Vertex's own is not documented, this is Kubernetes' default."""
GRACE_VARIABLE = "VTRAIN_GRACE_SECONDS"


class LocalSubmission(msgspec.Struct, frozen=True):
    """The half of `LocalBackend` for new jobs. A command that only looks at jobs needs nothing of it."""

    settings: BackendSettings
    backend: str
    planner: Planner
    start: Start
    """Gives a job its supervisor."""

    def plan(self, job: Job) -> Plan:
        """As `LocalBackend.plan`."""
        own = runnable(job)
        parent_notes = check_parent(job, self.settings) if own is not job else ()
        check_job(own, executor_required=False)
        check_replicas(own.job_spec)
        check_hardware(own.job_spec)
        _check_preemption(own, self.settings.preemption)
        if self.settings.debugger is not None:
            _check_debugger(own)
        check_aip_dirs(
            self.settings.aip_dirs,
            own.job_spec,
            has_credentials=bool(self.settings.options.credentials_file),
        )
        _grace_seconds()  # refuses anything that is not a time
        plan = self.planner.plan(own)
        self._claim(runnable(plan.job), Claim())
        check_files(self._files(own))
        planned = without_parent(with_spec(job, runnable(plan.job).job_spec))
        notices = (*notices_about_names(own.job_spec), *several_primaries(own.job_spec), *plan.notices)
        return msgspec.structs.replace(plan, job=planned, notices=notices, notes=(*parent_notes, *plan.notes))

    def view(self, job: Job, trial_id: str = "") -> tuple[Replica, ...]:
        """As `LocalBackend.view`."""
        own = runnable(job)
        check_job(own, executor_required=False)
        check_replicas(own.job_spec)
        own = with_output(own, PLANNED_JOB_ID)
        if trial_id:
            own = msgspec.structs.replace(own, job_spec=trial_spec(own.job_spec, trial_id))
        return self.planner.view(own, trial_id)

    def environment_steps(self, job: Job, trainer: SdistPlan | None) -> Steps:
        """As `LocalBackend.environment_steps`."""
        return self.planner.environment_steps(runnable(job), trainer)

    def submit(self, plan: Plan, store: Store) -> Job:
        """As `LocalBackend.submit`."""
        name = ResourceName(
            project=self.settings.project,
            location=self.settings.region,
            collection=collection_of(plan.job),
            id=new_job_id(self.settings.home),
        )
        job, order = self._order(plan, name)
        return enrol(store, job, order, self.start, snapshot=plan.snapshot)

    def _order(self, plan: Plan, name: ResourceName) -> tuple[Job, JobOrder]:
        """The job under its name, and the order to run it."""
        own = with_output(pending(runnable(plan.job), str(name)), name.id)
        job = own if runnable(plan.job) is plan.job else pending(with_spec(plan.job, own.job_spec), str(name))
        order = order_of(own, job.name, self.settings).with_setting(variables=inherited_environment())
        order = msgspec.structs.replace(
            order,
            backend=self.backend,
            grace_seconds=_grace_seconds(),
            source_folder=plan.source_folder,
            in_pool_spec=plan.in_pool_spec,
            terminal=self.settings.terminal if len(replica_ids(own.job_spec)) == 1 else None,
            boot_id=boot_id(),
            files=self._files(own),
            **parent_parts(job, self.settings),
        )
        order = self.planner.complete(order)
        return job, msgspec.structs.replace(order, claim=self._claim(own, order.claim))

    def _claim(self, own: CustomJob, claim: Claim) -> Claim:
        """The claim; of a job on a persistent resource its slots. Raises ConfigError, NotFoundError."""
        if not own.job_spec.persistent_resource_id:
            return claim
        from vtrain.runtime.resource_registry import ResourceRegistry  # for few jobs

        settings = self.settings
        place = ResourceName(project=settings.project, location=settings.region, collection="", id="")
        return ResourceRegistry(settings.home, place, self.start).claim(own.job_spec, claim)

    def _files(self, own: CustomJob) -> int:
        """How many files a supervisor of the job has open."""
        return files_needed(len(replica_ids(own.job_spec)), self.planner.files_per_replica)


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
