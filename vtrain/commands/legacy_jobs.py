"""`vtrain ai-platform jobs`: jobs that are there, by the names that AI Platform knew."""

from __future__ import annotations

import re
from operator import attrgetter

import msgspec

from vtrain.commands import jobs, watching
from vtrain.commands.session import open_session
from vtrain.errors import NotFoundError
from vtrain.flags.ai_platform_options import LegacyJobFlag
from vtrain.flags.options import CommonFlags, JobNameFlag, ListFlags, PlaceFlags, StreamFlags
from vtrain.messages.names import AI_PLATFORM_LABEL, ANY_JOB, parse_name

_OLD_NAME = re.compile(r"projects/[^/]+/jobs/([^/]+)")


def list_jobs(listing: ListFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """List the jobs of every kind."""
    jobs.list_jobs(listing, place, common, kind=ANY_JOB)


def describe(job: LegacyJobFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Print one job."""
    jobs.describe(_found(job, place, common), place, common, kind=ANY_JOB)


def cancel(job: LegacyJobFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Ask a job to end."""
    jobs.cancel(_found(job, place, common), place, common, kind=ANY_JOB)


def stream_logs(job: LegacyJobFlag, stream: StreamFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """Print a job's log, to its end."""
    watching.stream_logs(_found(job, place, common), stream, place, common, kind=ANY_JOB)


def _found(job: LegacyJobFlag, place: PlaceFlags, common: CommonFlags) -> JobNameFlag:
    """The newest job of that name, by its name on Vertex AI. Raises NotFoundError."""
    text = job.text
    if old := _OLD_NAME.fullmatch(text):
        text = old[1]
    if text.isdecimal() or parse_name(text) is not None:
        return JobNameFlag(custom_job=text)
    session = open_session(msgspec.structs.replace(common, quiet=True), place, kind=ANY_JOB)
    query = jobs.query_all(session, ANY_JOB)
    query = msgspec.structs.replace(query, labels={AI_PLATFORM_LABEL: text.lower()[:63]})
    found = [
        each
        for collection in ANY_JOB.collections
        for each in session.jobs.list(msgspec.structs.replace(query, collection=collection)).jobs
        if each.display_name == text
    ]
    if not found:
        raise NotFoundError(
            f"There is no job {text}.", hint="See what there is:\n$ vtrain ai-platform jobs list"
        )
    return JobNameFlag(custom_job=max(found, key=attrgetter("create_time")).name)
