"""`vtrain custom-jobs` about jobs that are there: list, describe, cancel, delete."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from vtrain.backends import Query
from vtrain.commands.session import Session, job_document, open_session
from vtrain.flags.grammar import count_or_unlimited
from vtrain.flags.options import (
    CommonFlags,
    JobNameFlag,
    ListFlags,
    PlaceFlags,
)

LIST_TABLE = (
    "table(name.basename():label=ID, displayName:label=NAME, state:label=STATE, createTime:label=CREATED)"
)


def list_jobs(listing: ListFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """List custom jobs, newest first: as a table on a terminal, as YAML elsewhere."""
    session = open_session(common, place)
    limit = count_or_unlimited(listing.limit, "--limit")
    page_size = count_or_unlimited(listing.page_size, "--page-size") or 100
    documents: Iterable[dict[str, Any]] = _all_jobs(session, page_size)
    if listing.filter or listing.sort_by:
        from vtrain.commands.selection import Selection

        documents = Selection(listing).apply(documents, session.console)
    found = list(islice(documents, limit))
    if not found and session.console.format is None:
        session.console.status("Listed 0 items.")
    elif listing.uri:
        session.console.write("".join(f"{document['name']}\n" for document in found).encode())
    else:
        session.console.results(found, LIST_TABLE if sys.stdout.isatty() else "yaml")


def _all_jobs(session: Session, page_size: int) -> Iterator[dict[str, Any]]:
    query = Query(project=session.settings.project, page_size=page_size)
    token = ""
    while True:
        page = session.backend.list(msgspec.structs.replace(query, page_token=token))
        yield from map(job_document, page.jobs)
        token = page.next_page_token
        if not token:
            return


def describe(job: JobNameFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Print one custom job."""
    session = open_session(common, place, name=job.custom_job)
    session.console.result(job_document(session.backend.get(session.full_name(job.custom_job))), "yaml")


def cancel(job: JobNameFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Ask a custom job to end. Its replicas get SIGTERM, and SIGKILL after a grace period."""
    session = open_session(common, place, name=job.custom_job)
    name = session.full_name(job.custom_job)
    session.backend.cancel(name)
    session.console.status(f"Request to cancel CustomJob [{name}] has been sent.")
    session.console.progress(f"\n$ vtrain custom-jobs wait {name}\n")
    if session.console.format is not None:
        session.console.result({})


def delete(job: JobNameFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Remove an ended custom job: its record, its log and its files."""
    session = open_session(common, place, name=job.custom_job)
    name = session.full_name(job.custom_job)
    session.backend.delete(name)
    session.console.status(f"Deleted CustomJob [{name}].")
