"""`--idempotency-key`: a step that is run again finds the job that its first run made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from vtrain.backends import Query
from vtrain.commands.jobs import all_jobs
from vtrain.commands.kinds import ResourceKind
from vtrain.commands.session import Session
from vtrain.errors import ConfigError, UsageError
from vtrain.messages.rules import check_labels

if TYPE_CHECKING:
    from vtrain.messages.resources import Job

LABEL = "vtrain-idempotency-key"


def check_key(key: str | None) -> None:
    """Raise UsageError for a key that no label can hold."""
    try:
        check_labels({LABEL: key or "none"})
    except ConfigError:
        key = ""
    if key == "":
        raise UsageError(
            "--idempotency-key: expected 1 to 63 of a-z, 0-9, '_' and '-'.", hint="A commit's hash will do."
        )


def with_key(labels: Mapping[str, str], key: str | None) -> dict[str, str]:
    """The labels of a job that carries the key, if there is one."""
    return dict(sorted({**labels, LABEL: key}.items())) if key else dict(labels)


def first_job(session: Session, kind: ResourceKind, key: str | None) -> Job | None:
    """The oldest job with this key where the session would make one; None without a key."""
    if key is None:
        return None
    settings = session.settings
    query = Query(
        collection=kind.collection,
        project=settings.project,
        location=settings.region,
        labels={LABEL: key},
    )
    found = list(all_jobs(session.backend.list, query))
    return min(found, key=lambda job: job.create_time, default=None)
