"""`--idempotency-key`: a step that is run again, or twice at once, finds the job that its first run made.

The key is a label of the job. So a label of that name is a key too, wherever it stands: in `--labels`, in a
file, in the project's table.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from vtrain.backends import LOCAL_PACE, Query
from vtrain.backends.pager import all_jobs
from vtrain.command_log import is_repeated
from vtrain.commands.kinds import ResourceKind
from vtrain.commands.session import Session
from vtrain.errors import ConfigError, KeyTakenError, NotFoundError, UsageError
from vtrain.flags.options import KeyFlag
from vtrain.messages.names import KEY_LABEL
from vtrain.messages.rules import check_labels
from vtrain.messages.states import UNSUCCESSFUL, job_state

if TYPE_CHECKING:
    from vtrain.core.compose import Draft
    from vtrain.messages.resources import Job

LOOKS = 2
"""Looks, after a create at a service, for a job that another command made at the same time."""


def check_key(once: KeyFlag) -> None:
    """Raise UsageError for a key that no label can hold, and for a flag that means nothing without a key."""
    key = once.idempotency_key
    try:
        check_labels({KEY_LABEL: key or "none"})
    except ConfigError:
        key = ""
    if key == "":
        raise UsageError(
            "--idempotency-key: expected 1 to 63 of a-z, 0-9, '_' and '-'.", hint="A commit's hash will do."
        )
    if once.reuse_failed and key is None:
        raise UsageError("--reuse-failed goes with --idempotency-key.")


def with_key(draft: Draft, given: str | None, *, always_new: bool = False) -> tuple[Draft, str | None]:
    """The draft with its key among the labels, and the key: the one that is `given`, else that of a label.

    Neither where a new job is wanted whatever there is: with `always_new`, and for a line that `rerun` runs.
    """
    labels: dict[str, str] = draft.document.get("labels", {})
    others = {name: value for name, value in labels.items() if name != KEY_LABEL}
    key = None if always_new or is_repeated() else given or labels.get(KEY_LABEL)
    if key:
        others = dict(sorted((others | {KEY_LABEL: key}).items()))
    if others == labels:
        return draft, key
    return msgspec.structs.replace(draft, document=draft.document | {"labels": others}), key


def create_once(
    session: Session, kind: ResourceKind, key: str | None, create: Callable[[], Job], *, reuse_failed: bool
) -> tuple[Job, bool]:
    """The one job with this key, and whether it is new. Without a key `create` always makes one.

    A local backend compares keys in the step that stores the job. A service cannot: there the oldest job
    stays, and whoever made a later one cancels it.
    """
    if key is None:
        return create(), True
    if (earlier := _earlier_job(session, kind, key, failed_too=reuse_failed)) is not None:
        return earlier, False
    try:
        job = create()
    except KeyTakenError as taken:
        return session.jobs.get(taken.name), False
    oldest = job if session.is_local else _oldest(session, kind, key, job)
    if oldest.name == job.name:
        return job, True
    with suppress(NotFoundError):  # somebody has deleted it
        session.jobs.cancel(job.name)
    return oldest, False


def _oldest(session: Session, kind: ResourceKind, key: str, job: Job) -> Job:
    """The oldest job with this key after `job` was created, by all that `LOOKS` looks have shown."""
    pause = getattr(session.jobs, "pace", LOCAL_PACE).fastest
    for look in range(LOOKS):
        time.sleep(pause if look else 0)
        found = _earlier_job(session, kind, key, failed_too=False)
        job = min(job, found or job, key=_age)
    return job


def _earlier_job(session: Session, kind: ResourceKind, key: str, *, failed_too: bool) -> Job | None:
    """The oldest job with this key that counts; with `failed_too`, else the newest that does not."""
    settings = session.settings
    query = Query(
        collection=kind.collection,
        project=settings.project,
        location=settings.region,
        labels={KEY_LABEL: key},
    )
    found = list(all_jobs(session.jobs.list, query))
    counting = [job for job in found if job_state(job.state) not in UNSUCCESSFUL]
    if counting or not failed_too:
        return min(counting, key=_age, default=None)
    return max(found, key=_age, default=None)


def _age(job: Job) -> tuple[str, str]:
    """The order of creation; jobs of one moment by their names."""
    return job.create_time, job.name
