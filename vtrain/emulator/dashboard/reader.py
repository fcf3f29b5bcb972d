"""The jobs, models and persistent resources that the pages show, through the interface of backends."""

from __future__ import annotations

import heapq
import subprocess
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

import msgspec

from vtrain.backends import (
    BackendSettings,
    HostBackend,
    JobBackend,
    Query,
    RepeatableBackend,
    ReplicaUsage,
)
from vtrain.backends.interface import Backend
from vtrain.backends.pager import all_jobs
from vtrain.backends.registry import open_found, running_replicas
from vtrain.core.verdict import replica_uses
from vtrain.emulator.dashboard.job_view import EXPERIMENT_RUNS
from vtrain.errors import ConfigError, NotFoundError, VtrainError
from vtrain.messages import states
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogPage, LogQuery
from vtrain.messages.model import Model
from vtrain.messages.names import (
    CUSTOM_JOBS,
    HYPERPARAMETER_TUNING_JOBS,
    LOCAL_PROJECT,
    MODELS,
    PERSISTENT_RESOURCES,
    PIPELINE_LABEL,
    TRAINING_PIPELINES,
    TRIAL_LABEL,
    parse_name,
)
from vtrain.messages.persistent_resource import ResourcePage
from vtrain.messages.resources import JOBS, Job
from vtrain.messages.secrets import masked_text
from vtrain.messages.training_pipeline import TrainingPipeline
from vtrain.output.compared import (
    Document,
    compared_job,
    package_of,
    run_document,
    side_of,
    sorted_documents,
)
from vtrain.retry import wait_until
from vtrain.rooted import Root
from vtrain.runtime.experiments import ExperimentRun, experiment_runs
from vtrain.runtime.job_order import TypedCommand
from vtrain.runtime.output_numbers import Numbers, job_numbers, output_of
from vtrain.times import epoch

MOST_SEARCHED = 20_000
"""Jobs that one page looks through."""
MOST_SORTED = 1000
"""Jobs, the newest, that are sorted by what they measured."""
START_SECONDS = 30.0
"""The longest that a command line takes to make a job, and more."""
LONGEST_REASON = 4000
MOST_RUNS = 500
"""Runs of experiments, the newest."""


ArgvOf = Callable[[Sequence[str]], list[str]]
"""Makes the words of a command line the program and the arguments that run it once more."""


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that a list is to show: of a collection, in a state, with a text in their name or id.

    Empty values select all. `page` counts from 1. `sort` is a column, with `~` before it in descending order.
    """

    collection: str = ""
    state: str = ""
    text: str = ""
    page: int = 1
    sort: str = ""


class ListedJob(NamedTuple):
    """A job or a run of an experiment, what a list shows of it and sorts by, and its custom jobs."""

    job: Job | ExperimentRun
    document: Document
    parts: Sequence[CustomJob] = ()


class Listing(NamedTuple):
    """One page of a list. `damaged` are names of jobs whose stored entries cannot be read."""

    jobs: list[ListedJob]
    has_more: bool
    damaged: list[str]


class JobReader:
    """Reads what a backend of this machine has. Any thread may use it: each opens the backend for itself."""

    def __init__(self, backend: Backend, settings: BackendSettings, *, location: str = "") -> None:
        """Without `location` the jobs of every region are listed."""
        self._backend = backend
        self._settings = settings
        self._location = location
        self._opened = threading.local()

    @property
    def jobs(self) -> JobBackend:
        """The backend of this thread."""
        if not hasattr(self._opened, "jobs"):
            self._opened.jobs = open_found(self._backend, self._settings)
        found: JobBackend = self._opened.jobs
        return found

    def get(self, name: str) -> Job:
        """A job. Raises NotFoundError."""
        found = parse_name(name)
        if found is None or found.collection not in JOBS:
            raise NotFoundError(f"There is no job {name}.")
        return self.jobs.get(name)

    def logs(self, query: LogQuery) -> LogPage:
        """Log entries of a job. Raises NotFoundError."""
        return self.jobs.logs(query)

    def page(self, wanted: JobFilter, size: int) -> Listing:
        """A page of jobs, newest first; those that other jobs run are left out."""
        damaged: list[str] = []
        kinds = [wanted.collection] if wanted.collection else [*JOBS, EXPERIMENT_RUNS]
        sources: list[Iterable[Job | ExperimentRun]] = [
            all_jobs(self.jobs.list, self._query(kind), damaged) if kind in JOBS else self._runs()
            for kind in kinds
        ]
        newest = heapq.merge(*sources, key=attrgetter("create_time"), reverse=True)
        found = (job for job in islice(newest, MOST_SEARCHED) if _is_wanted(job, wanted))
        start = (wanted.page - 1) * size
        if wanted.sort:
            documents = [self._document(job) for job in islice(found, MOST_SORTED)]
            listed = sorted_documents(documents, wanted.sort)[start : start + size + 1]
        else:
            listed = [self._document(job) for job in islice(found, start, start + size + 1)]
        jobs = [ListedJob(document["job"], document, document["parts"]) for document in listed]
        return Listing(jobs[:size], len(jobs) > size, damaged)

    def _document(self, job: Job | ExperimentRun) -> Document:
        if isinstance(job, ExperimentRun):
            return {**run_document(job), "job": job, "parts": ()}
        parts = self.parts(job)
        uses = [use for part in parts for use in replica_uses(part)]
        return {
            **compared_job(job, self._settings.home),
            "displayName": job.display_name.casefold(),
            "state": states.short(job.state),
            "createTime": job.create_time,
            "took": _seconds(job.start_time, job.end_time),
            "memory": max((use.peak_memory_bytes for use in uses), default=0),
            "job": job,
            "parts": parts,
        }

    def side(self, name: str) -> tuple[Document, Numbers, Path | None]:
        """A job or a run of an experiment beside others: with its numbers, and the package of its files.

        Raises NotFoundError.
        """
        full, home = parse_name(name), self._settings.home
        runs = self._runs() if full is None or full.collection not in JOBS else []
        for run in runs:
            if run.name == name:
                return run_document(run), Numbers([], 0), None
        job = self.get(name)
        return side_of(job, home), self.numbers(job), package_of(job, home)

    def numbers(self, job: Job) -> Numbers:
        """The metrics of a job."""
        return job_numbers(job, self._settings.home)

    def command(self, job: Job) -> TypedCommand | None:
        """The command line that made a job; None where none is known."""
        return self.jobs.command(job.name) if isinstance(self.jobs, RepeatableBackend) else None

    def _runs(self) -> list[ExperimentRun]:
        found = experiment_runs(self._settings.home, MOST_RUNS)
        return [run for run in found if not self._location or f"/locations/{self._location}/" in run.name]

    def started(self, command: TypedCommand, argv_of: ArgvOf) -> str:
        """The full name of the job that a command line makes now.

        The command goes on without this process. Raises ConfigError where it ends without a job.
        """
        before = self._newest()
        with TemporaryFile() as said:
            try:
                child = subprocess.Popen(
                    argv_of(command.words),
                    cwd=command.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                    start_new_session=True,
                )
            except OSError as error:
                raise ConfigError(f"The command cannot run in {command.folder}: {error.strerror}.") from None
            threading.Thread(target=child.wait, daemon=True).start()
            wait_until(
                lambda: self._newest() != before or child.poll() is not None, START_SECONDS, longest=0.2
            )
            if (newest := self._newest()) != before:
                return newest
            if child.poll() is None:
                raise ConfigError(
                    "The command goes on, and has made no job yet.", hint="The list will have it."
                )
            said.seek(0)
            reason = masked_text(said.read(LONGEST_REASON).decode("utf-8", "replace"), command.words, {})
        raise ConfigError("The command has made no job.", hint=reason.strip())

    def _newest(self) -> str:
        """The newest job, whichever others run it."""
        kinds = (all_jobs(self.jobs.list, self._query(kind)) for kind in JOBS)
        newest = (job for kind in kinds for job in islice(kind, 1))
        return max(((job.create_time, job.name) for job in newest), default=("", ""))[1]

    def parts(self, job: Job) -> list[CustomJob]:
        """The custom jobs that a job consists of: itself, its trials, or those of its task."""
        if isinstance(job, CustomJob):
            return [job]
        number = job.name.rpartition("/")[2]
        label = PIPELINE_LABEL if isinstance(job, TrainingPipeline) else TRIAL_LABEL
        if isinstance(job, TrainingPipeline):
            for study in self._labelled(HYPERPARAMETER_TUNING_JOBS, label, number):
                return self.parts(study)
        return [part for part in self._labelled(CUSTOM_JOBS, label, number) if isinstance(part, CustomJob)]

    def parent(self, job: Job) -> Job | None:
        """The tuning job or the pipeline that runs a job; None where there is none any more."""
        found = parse_name(job.name)
        for label, collection in (
            (TRIAL_LABEL, HYPERPARAMETER_TUNING_JOBS),
            (PIPELINE_LABEL, TRAINING_PIPELINES),
        ):
            if found is not None and label in job.labels:
                name = msgspec.structs.replace(found, collection=collection, id=job.labels[label])
                with suppress(VtrainError):
                    return self.jobs.get(str(name))
        return None

    def usage(self, name: str) -> dict[str, ReplicaUsage]:
        """The present use of a job's running replicas, as far as this machine tells."""
        found = {}
        if isinstance(self.jobs, HostBackend):
            with suppress(VtrainError, OSError):  # it has just ended, or the Docker Engine is away
                for replica in running_replicas(self.jobs.hosted(name)):
                    if (usage := replica.usage()) is not None:
                        found[replica.name] = usage
        return found

    def output(self, job: Job) -> Root | None:
        """The folder of this machine that a job writes its output to; None where there is none."""
        return output_of(job, self._settings.home)

    def models(self) -> tuple[Model, ...]:
        """The default versions of all models."""
        query = Query(collection=MODELS, project=LOCAL_PROJECT, location=self._location)
        return self._backend.open_models(self._settings).list_models(query).models

    def resources(self) -> ResourcePage:
        """The persistent resources, and the names of damaged ones."""
        query = Query(collection=PERSISTENT_RESOURCES, project=LOCAL_PROJECT, location=self._location)
        return self._backend.open_resources(self._settings).list_resources(query)

    def _query(self, collection: str) -> Query:
        return Query(collection=collection, project=LOCAL_PROJECT, location=self._location)

    def _labelled(self, collection: str, label: str, value: str) -> list[Job]:
        query = msgspec.structs.replace(self._query(collection), labels={label: value}, location="")
        return list(islice(all_jobs(self.jobs.list, query), MOST_SEARCHED))


def _seconds(start: str, end: str) -> float | None:
    """The time between two timestamps; None where one is none."""
    with suppress(ValueError):
        return epoch(end) - epoch(start)
    return None


def _is_wanted(job: Job | ExperimentRun, wanted: JobFilter) -> bool:
    if isinstance(job, ExperimentRun):
        text = f"{job.experiment}/{job.display_name}".casefold()
        state = states.short(states.SUCCEEDED) if job.state == "COMPLETE" else job.state
        return wanted.state in ("", state) and wanted.text.casefold() in text
    if TRIAL_LABEL in job.labels or PIPELINE_LABEL in job.labels:
        return False
    if wanted.state and states.short(job.state) != wanted.state:
        return False
    text = wanted.text.casefold()
    return not text or text in job.display_name.casefold() or text in job.name.rpartition("/")[2]
