"""`ps`, and the lists of jobs and of other resources in each group."""

from __future__ import annotations

import heapq
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from vtrain.backends import LOCAL_PACE, Query
from vtrain.backends.pager import all_jobs
from vtrain.commands.session import Session, open_console, open_session, resource_document, wish_of
from vtrain.core.references import job_id, jobs_here, list_command, short_ids
from vtrain.errors import NotFoundError, StorageError, UsageError, VtrainError
from vtrain.flags.grammar import count_or_unlimited, split_list
from vtrain.flags.options import CommonFlags, JobListFlags, ListFlags, MetricFlags, PlaceFlags
from vtrain.messages.names import JOB_KINDS, PIPELINE_LABEL, TRIAL_LABEL, ResourceKind
from vtrain.messages.nearest import did_you_mean
from vtrain.messages.states import KNOWN, has_ended, names_of, short
from vtrain.output.colours import has_colours

if TYPE_CHECKING:
    from vtrain.messages.resources import Job
    from vtrain.output.job_table import LaidOut


MOST_NAMED = 5
"""The damaged entries that a warning names."""
LEAST_PAUSE = 1.0
"""Seconds between two pictures of a list that is watched."""
MOST_ASKED_ABOUT = 5
"""The unended jobs of a list, the oldest, about which the backend is asked whether they go on."""


def list_jobs(listing: ListFlags, place: PlaceFlags, common: CommonFlags, *, kind: ResourceKind) -> None:
    """List the jobs of a kind; where they are elsewhere, say how many are on this machine."""

    def show(session: Session, jobs: Iterator[Job]) -> None:
        show_resources(session, kind, listing, map(resource_document, jobs))

    _list(listing, place, common, kind, show)


def ps(
    listing: ListFlags,
    chosen: JobListFlags,
    wanted: MetricFlags,
    place: PlaceFlags,
    common: CommonFlags,
    *,
    kind: ResourceKind,
) -> None:
    """List the jobs of all kinds, with their arguments and metrics where these are wanted."""
    key = listing.sort_by.lstrip("~")
    is_column = wanted != MetricFlags() and key.replace("-", "_").isidentifier()
    if is_column or key.startswith(("args.", "metrics.")):  # as text 10 would come before 9
        wanted = msgspec.structs.replace(wanted, sort=wanted.sort or listing.sort_by)
        listing = msgspec.structs.replace(listing, sort_by="")
    choose = partial(chosen_jobs, chosen, _states(chosen.state))

    def laid_out(session: Session, jobs: Iterable[Job]) -> LaidOut:
        if wanted == MetricFlags():
            return map(resource_document, choose(jobs)), partial(_job_table, session)
        from vtrain.commands.comparison import compared_jobs

        return compared_jobs(wanted, session, choose(jobs))

    def show(session: Session, jobs: Iterator[Job]) -> None:
        from vtrain.commands.selection import LIST_TABLE, show_list

        documents, draw = laid_out(session, jobs)
        show_list(session.console, listing, documents, default=LIST_TABLE, uri_of=session.uri_of, draw=draw)

    if chosen.watch:
        _watch(listing, place, common, kind, laid_out)
    else:
        _list(listing, place, common, kind, show)


def _states(text: str) -> frozenset[str]:
    """The states of --state, as the API calls them; empty for all. Raises UsageError for an unknown one."""
    found: list[str] = []
    for word in split_list(text, "--state"):
        names = names_of(word)
        if len(names) == 1:
            known = sorted(short(state).lower() for state in KNOWN)
            hint = did_you_mean(word.lower(), known, otherwise=f"There is {', '.join(known)}.")
            raise UsageError(f"--state: there is no state {word!r}.", hint=hint)
        found += names
    return frozenset(found)


def chosen_jobs(chosen: JobListFlags, states: frozenset[str], jobs: Iterable[Job]) -> Iterator[Job]:
    """The jobs in these states, without those that others run, unless all are wanted."""
    for job in jobs:
        is_child = TRIAL_LABEL in job.labels or PIPELINE_LABEL in job.labels
        if (chosen.all or not is_child) and (not states or job.state in states):
            yield job


def _watch(
    listing: ListFlags,
    place: PlaceFlags,
    common: CommonFlags,
    kind: ResourceKind,
    laid_out: Callable[[Session, Iterable[Job]], LaidOut],
) -> None:
    """Draw the list in its place until Ctrl-C. Raises UsageError where it cannot be drawn."""
    if not sys.stdout.isatty() or common.format:
        hint = "Leave out --format." if sys.stdout.isatty() else "Leave out --watch."
        raise UsageError("--watch draws a table on a terminal.", hint=hint)
    from vtrain.commands.selection import LIST_TABLE, Selection
    from vtrain.output.live_table import LiveTable

    session = open_session(common, place, kind=kind)
    pause = max(getattr(session.jobs, "pace", LOCAL_PACE).slowest, LEAST_PAUSE)
    with LiveTable() as table:
        while True:
            selection = Selection(session.console, listing, default=LIST_TABLE, uri_of=session.uri_of)
            documents, draw = laid_out(session, jobs_of(session, kind, page_size(session, listing), []))
            found = islice(selection.apply(documents), shutil.get_terminal_size().lines)
            table.draw(draw(found).splitlines() or ["No job is listed."])
            if selection.failure is not None:
                raise selection.failure
            session.console.quiet, session.console.verbosity = True, "none"  # it has warned once
            time.sleep(pause)


def jobs_of(session: Session, kind: ResourceKind, size: int, damaged: list[str]) -> Iterator[Job]:
    """The jobs of a kind's collections, newest first; names of those that cannot be read go to `damaged`."""
    queries = [
        msgspec.structs.replace(query_all(session, kind), page_size=size, collection=collection)
        for collection in kind.collections
    ]
    lists = [all_jobs(session.jobs.list, query, damaged) for query in queries]
    yield from heapq.merge(*lists, key=attrgetter("create_time"), reverse=True)


def _list(
    listing: ListFlags,
    place: PlaceFlags,
    common: CommonFlags,
    kind: ResourceKind,
    show: Callable[[Session, Iterator[Job]], None],
) -> None:
    with suppress(VtrainError):  # what follows fails for the same reason, and says more
        _tell_of_jobs_here(common, place, kind)
    session = open_session(common, place, kind=kind)
    damaged: list[str] = []
    jobs = jobs_of(session, kind, page_size(session, listing), damaged)
    going: list[str] = []
    show(session, _noting_unended(jobs, going))
    if damaged:
        session.console.warn(_damage(damaged))
    warn_of_halt(session, going[-MOST_ASKED_ABOUT:])


def _tell_of_jobs_here(common: CommonFlags, place: PlaceFlags, kind: ResourceKind) -> None:
    """Say how to see the jobs that a project hides: first, as a terminal may be asked for a region next."""
    count = len(jobs_here(*kind.collections)) if wish_of(common, place).is_configured_elsewhere else 0
    if count:
        what = "1 job is" if count == 1 else f"{count} jobs are"
        open_console(common).progress(f"{what} on this machine: {list_command(kind.group)} --backend=local")


def _noting_unended(jobs: Iterable[Job], names: list[str]) -> Iterator[Job]:
    """The same jobs; the names of those that have not ended are appended to `names`."""
    for job in jobs:
        if not has_ended(job.state):
            names.append(job.name)
        yield job


def warn_of_halt(session: Session, names: Iterable[str]) -> None:
    """Warn once where jobs that have not ended do not go on: the home is a copy, or the disk is full."""
    look_after: Callable[[str], None] = getattr(session.jobs, "look_after", lambda _name: None)
    for name in names:
        try:
            look_after(name)
        except NotFoundError:  # deleted meanwhile
            continue
        except StorageError as error:
            session.console.warn(" ".join(filter(None, (error.message, error.hint))))
            return


def _damage(names: list[str]) -> str:
    """A sentence about jobs whose entries cannot be read."""
    if len(names) == 1:
        return f"The entry of {names[0]} in the store is damaged: that job is not listed."
    shown = ", ".join(names[:MOST_NAMED]) + (" and others" if len(names) > MOST_NAMED else "")
    return f"{len(names)} entries in the store are damaged: these jobs are not listed: {shown}."


def query_all(session: Session, kind: ResourceKind) -> Query:
    """Asks for all resources of a kind in the session's region; for those that live here, in every one."""
    settings = session.settings
    location = "" if session.is_local else settings.region
    return Query(collection=kind.collection, project=settings.project, location=location)


def page_size(session: Session, listing: ListFlags) -> int:
    """The size of a page: here at most --limit, unless a filter or an order needs all jobs."""
    usual = Query().page_size
    limit = count_or_unlimited(listing.limit, "--limit")
    if not session.is_local or listing.filter or listing.sort_by or limit is None:
        return usual
    return min(limit, usual)


def show_resources(
    session: Session, kind: ResourceKind, listing: ListFlags, documents: Iterable[dict[str, Any]]
) -> None:
    """Print resources as the flags of a list command say: filtered, sorted, limited, formatted."""
    from vtrain.commands.selection import LIST_TABLE, show_list

    is_drawn = sys.stdout.isatty()  # gcloud's own lists are YAML in a pipe
    draw = partial(_job_table, session) if is_drawn and kind in JOB_KINDS else None
    default = LIST_TABLE if is_drawn else "yaml"
    show_list(session.console, listing, documents, default=default, uri_of=session.uri_of, draw=draw)


def _job_table(session: Session, documents: Iterable[dict[str, Any]]) -> str:
    """The jobs as a table for a terminal, those of this machine with short ids."""
    from vtrain.output.job_table import job_row, job_table

    backends = jobs_here() if session.is_local else {}
    ids = short_ids(backends)
    rows = []
    for document in documents:
        name = str(document.get("name", ""))
        backend = backends.get(name, session.backend.name)
        rows.append(job_row(document, shown_id=ids.get(name, job_id(name)), backend=backend))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    return job_table(rows, width=width, coloured=has_colours(sys.stdout)) if rows else ""
