"""What every group does with resources that are there: list, describe, cancel, delete."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from vtrain.backends import Page, Query
from vtrain.commands.kinds import CUSTOM_JOB, ResourceKind
from vtrain.commands.session import Session, open_session, resource_document
from vtrain.errors import ServiceError
from vtrain.flags.options import CommonFlags, JobNameFlag, ListFlags, PlaceFlags

if TYPE_CHECKING:
    from vtrain.messages.resources import Job

MOST_NAMED = 5
"""How many damaged entries a warning names."""


def list_jobs(listing: ListFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """List custom jobs."""
    list_kind(CUSTOM_JOB, listing, place, common)


def describe(job: JobNameFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Print one custom job."""
    describe_job(CUSTOM_JOB, job.custom_job, place, common)


def cancel(job: JobNameFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Ask a custom job to end."""
    cancel_job(CUSTOM_JOB, job.custom_job, place, common)


def delete(job: JobNameFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Remove an ended custom job."""
    delete_job(CUSTOM_JOB, job.custom_job, place, common)


# the same for every kind of job


def list_kind(kind: ResourceKind, listing: ListFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """List the jobs of a kind."""
    session = open_session(common, place, kind=kind)
    query = msgspec.structs.replace(query_all(session, kind), page_size=page_size(session, listing))
    damaged: list[str] = []
    jobs = all_jobs(session.backend.list, query, damaged)
    show_resources(session, kind, listing, map(resource_document, jobs))
    if damaged:
        session.console.warn(_damage(damaged))


def _damage(names: list[str]) -> str:
    """A sentence about jobs whose entries cannot be read."""
    if len(names) == 1:
        return f"The entry of {names[0]} in the store is damaged: that job is not listed."
    shown = ", ".join(names[:MOST_NAMED]) + (" and others" if len(names) > MOST_NAMED else "")
    return f"{len(names)} entries in the store are damaged: these jobs are not listed: {shown}."


def describe_job(kind: ResourceKind, text: str, place: PlaceFlags, common: CommonFlags) -> None:
    """Print the job that `text` names."""
    session = open_session(common, place, name=text, kind=kind)
    session.console.result(resource_document(session.backend.get(session.full_name(text, kind))), "yaml")


def cancel_job(kind: ResourceKind, text: str, place: PlaceFlags, common: CommonFlags) -> None:
    """Ask the job that `text` names to end."""
    session = open_session(common, place, name=text, kind=kind)
    name = session.full_name(text, kind)
    session.backend.cancel(name)
    session.console.status(f"Request to cancel {kind.noun} [{name}] has been sent.")
    session.console.progress(f"\n$ vtrain {kind.group} wait {name}\n")
    session.console.result({})


def delete_job(kind: ResourceKind, text: str, place: PlaceFlags, common: CommonFlags) -> None:
    """Remove the ended job that `text` names."""
    session = open_session(common, place, name=text, kind=kind)
    name = session.full_name(text, kind)
    session.backend.delete(name)
    session.console.status(f"Deleted {kind.noun} [{name}].")


# lists


class AnyPage(Protocol):
    """One answer of many; an empty token ends them."""

    @property
    def next_page_token(self) -> str: ...


P = TypeVar("P", bound=AnyPage)
MOST_PAGES = 10_000
"""Pages of a list; a page has up to 100 jobs."""


def query_all(session: Session, kind: ResourceKind) -> Query:
    """Asks for all resources of a kind in the session's region; for those that live here, in every one."""
    settings = session.settings
    location = "" if session.is_local else settings.region
    return Query(collection=kind.collection, project=settings.project, location=location)


def page_size(session: Session, listing: ListFlags) -> int:
    """How many to ask for at a time: here no more than are shown, where it is known beforehand which."""
    usual = Query().page_size
    if not session.is_local or listing.filter or listing.sort_by or not listing.limit.isdecimal():
        return usual
    return min(max(int(listing.limit), 1), usual)


def pages(ask: Callable[[Query], P], query: Query) -> Iterator[P]:
    """All pages; one is asked for when it is needed. Raises ServiceError where they do not end."""
    token, seen = "", {""}
    while len(seen) <= MOST_PAGES:
        page = ask(msgspec.structs.replace(query, page_token=token))
        yield page
        token = page.next_page_token
        if not token:
            return
        if token in seen:
            raise ServiceError("The service repeats a page of its list, which does not end.")
        seen.add(token)
    raise ServiceError(f"The list has more than {MOST_PAGES} pages.", hint="Ask for fewer with --limit.")


def all_jobs(ask: Callable[[Query], Page], query: Query, damaged: list[str] | None = None) -> Iterator[Job]:
    """The jobs of all pages; the names of those that cannot be read are appended to `damaged`."""
    for page in pages(ask, query):
        if damaged is not None:
            damaged += page.damaged
        yield from page.jobs


def show_resources(
    session: Session, kind: ResourceKind, listing: ListFlags, documents: Iterable[dict[str, Any]]
) -> None:
    """Print resources as the flags of a list command say: filtered, sorted, limited, formatted."""
    from vtrain.commands.selection import show_list

    default = kind.list_table if sys.stdout.isatty() else "yaml"
    show_list(session.console, listing, documents, default=default, uri_of=session.uri_of)
