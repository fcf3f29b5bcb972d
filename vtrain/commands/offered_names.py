"""Names of jobs, replicas and models that a shell offers behind a TAB, asked of the backends."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from vtrain.backends import HostBackend
from vtrain.commands.job_lists import query_all
from vtrain.commands.session import open_named, open_session
from vtrain.errors import VtrainError, WaitTimeoutError
from vtrain.flags.completion import beginning
from vtrain.flags.options import CommonFlags, PlaceFlags
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.names import ANY_JOB, MODEL, ResourceKind
from vtrain.messages.resources import spec_of
from vtrain.messages.states import has_ended, short
from vtrain.output.terminal import visible
from vtrain.runtime.replica.vertex_view import replica_ids
from vtrain.times import ago

if TYPE_CHECKING:
    from vtrain.messages.resources import Job

MAX_JOBS = 50
MAX_FILES = 100
MOST_READ = 10_000
"""Files and folders that are looked at for those."""
_SAFE_PATH = re.compile(r"[\w.+=@%/-]+")
"""A path in which no shell finds anything of its own: a trainer chose it."""
_ONE_WORD = re.compile(r"[\w.][\w.-]*")
PATIENCE = 3.0
"""Seconds that somebody who pressed TAB will wait for a service."""
_RUNNING_ONLY = frozenset({"cancel", "stop", "wait", "shell", "exec"})
_ENDED_ONLY = frozenset({"delete", "rm"})
"""Commands that are about jobs in some states only."""


def newest_jobs(
    collections: tuple[str, ...], command: str, given: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Ids and names of jobs that the command can be about, the newest first, each with what it is.

    They are in the place that the flags given so far name; there are none where it cannot be asked.
    """
    found: list[Job] = []
    with suppress(VtrainError, OSError), _at_most(PATIENCE):
        for collection in collections:
            kind = ResourceKind(collection=collection)
            session = open_session(*_flags(given), kind=kind)
            query = msgspec.structs.replace(query_all(session, kind), page_size=MAX_JOBS)
            found += session.jobs.list(query).jobs
    if len(collections) > 1:
        found.sort(key=attrgetter("create_time"), reverse=True)
    meant = [job for job in found if _is_meant(command, job.state)]
    return _with_names([(job.name, job.display_name, _text(job)) for job in meant])


def newest_models(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Ids and display names of models, in the place that the flags given so far name."""
    with suppress(VtrainError, OSError), _at_most(PATIENCE):
        session = open_session(*_flags(given), kind=MODEL)
        query = msgspec.structs.replace(query_all(session, MODEL), page_size=MAX_JOBS)
        found = session.models.list_models(query).models
        return _with_names([(model.name, model.display_name, visible(model.display_name)) for model in found])
    return []


def _with_names(found: Sequence[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """The ids of resources, the newest first, and the display names that a shell takes as one word."""
    ids = [(name.rpartition("/")[2], text) for name, _, text in found]
    names = {shown: text for _, shown, text in reversed(found) if _ONE_WORD.fullmatch(shown)}
    return [*ids, *reversed(names.items())]


def files_of(job: str, begun: str, given: Mapping[str, Any]) -> list[str]:
    """The paths in a job's folder on this machine that begin so; none where it cannot be asked."""
    folder = begun.rpartition("/")[0]
    with suppress(VtrainError, OSError), _at_most(PATIENCE):
        session, name = open_named(*_flags(given), job)
        if isinstance(session.jobs, HostBackend):
            there = [root for root in session.jobs.folders(name, "") if root.is_folder(folder)]
            found = [entry for root in there for entry in root.entries(folder, most=MOST_READ)]
            paths = {entry.place + "/" * entry.is_folder for entry in found}
            return sorted(filter(_SAFE_PATH.fullmatch, beginning(paths, begun)))[:MAX_FILES]
    return []


def replicas_of(job: str, given: Mapping[str, Any]) -> list[str]:
    """The names of a job's replicas, of a tuning job those of its trials; none where it cannot be asked."""
    with suppress(VtrainError, OSError), _at_most(PATIENCE):
        common, place = _flags(given)
        session, name = open_named(common, place, job, ANY_JOB)
        found = session.jobs.get(name)
        spec = spec_of(found)
        names = [replica.name for replica in replica_ids(spec)] if spec is not None else []
        if isinstance(found, HyperparameterTuningJob):
            return [f"trial-{trial.id}/{replica}" for trial in found.trials for replica in names]
        return names
    return []


def _flags(given: Mapping[str, Any]) -> tuple[CommonFlags, PlaceFlags]:
    common = CommonFlags(project=given.get("project"), quiet=True, user_output=False)
    return common, PlaceFlags(backend=given.get("backend") or "", region=given.get("region") or "")


def _is_meant(command: str, state: str) -> bool:
    ended = has_ended(state)
    return not ((command in _RUNNING_ONLY and ended) or (command in _ENDED_ONLY and not ended))


def _text(job: Job) -> str:
    words = (short(job.state), ago(job.create_time), job.display_name)
    return visible(", ".join(filter(None, words)))


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """End the block with WaitTimeoutError when it takes longer."""

    def give_up(_number: int, _frame: object) -> None:
        raise WaitTimeoutError("")

    previous = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
