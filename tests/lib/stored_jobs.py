"""Ended jobs in a local store, as if they had run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vtrain.messages import states
from vtrain.messages.names import CUSTOM_JOBS
from vtrain.runtime.store import Record, Store


def local_name(job_id: str, region: str = "us-central1", collection: str = CUSTOM_JOBS) -> str:
    """The full name of a job of this machine."""
    return f"projects/local/locations/{region}/{collection}/{job_id}"


def add_job(
    home: Path,
    job_id: str,
    display_name: str,
    *,
    region: str = "us-central1",
    state: str = states.SUCCEEDED,
    created: str = "2026-11-01T10:00:00Z",
    ended: str = "2026-11-01T10:00:01Z",
    backend: str = "process",
    collection: str = CUSTOM_JOBS,
    fields: dict[str, Any] | None = None,
) -> str:
    """Put a job into the store of a home; `fields` are laid over its document. Its full name."""
    name = local_name(job_id, region, collection)
    document = {
        "name": name,
        "displayName": display_name,
        "state": state,
        "createTime": created,
        "startTime": created,
        "endTime": ended,
        "jobSpec": {"workerPoolSpecs": [{"replicaCount": 1}]},
    }
    record = Record(
        name=name,
        collection=collection,
        state=state,
        create_time=created,
        end_time=ended,
        backend=backend,
        document=json.dumps(document | (fields or {})),
    )
    store = Store.open(home)
    store.insert(record)
    store.close()
    return name
