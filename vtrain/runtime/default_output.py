"""The output folders of jobs that name no base output directory: one for each job, named after it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from vtrain.messages.custom_job import CustomJob
from vtrain.messages.structs import GcsDestination
from vtrain.rooted import Root
from vtrain.staging import LocalBuckets, join_uri

BUCKET = "gs://local-runs"
_FOLDER = r"[a-z0-9-]{1,130}-[0-9]{19}"
"""NAME-ID."""
_NAME = re.compile(_FOLDER)
_URI = re.compile(f"{re.escape(BUCKET)}/{_FOLDER}")


def with_output(job: CustomJob, job_id: str) -> CustomJob:
    """The job with a base output directory, where it names none."""
    if job.job_spec.output_uri:
        return job
    slug = re.sub(r"[^a-z0-9]+", "-", job.display_name.lower()).strip("-") or "run"
    output = GcsDestination(output_uri_prefix=join_uri(BUCKET, f"{slug}-{job_id}"))
    spec = msgspec.structs.replace(job.job_spec, base_output_directory=output)
    return msgspec.structs.replace(job, job_spec=spec)


def is_default_output(uri: str) -> bool:
    """Whether a base output directory was chosen here for one job, and so is not another job's."""
    return _URI.fullmatch(uri) is not None


def default_outputs(home: Path) -> Iterator[Path]:
    """The folders of a home that jobs without a base output directory have written to, by name."""
    bucket = LocalBuckets(home).local_path(BUCKET)
    yield from sorted(path for path in bucket.glob("*") if _NAME.fullmatch(path.name) and path.is_dir())


def remove_if_empty(output: Root, home: Path) -> None:
    """Remove the output folder of a job that has written nothing there; any other folder stays."""
    path = output.path
    if path.parent == LocalBuckets(home).root(BUCKET).path and _NAME.fullmatch(path.name):
        with suppress(OSError):  # somebody else removes it, or writes to it just now
            output.remove_empty()
