"""The commands about existing jobs in each group: list, describe, cancel, delete."""

from __future__ import annotations

import heapq
import shlex
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

from vtrain.backends import LOCAL_PACE, HoldingBackend, Holdings, Query
from vtrain.backends.pager import all_jobs
from vtrain.commands.session import (
    CommandConsole,
    Session,
    confirm,
    find_target,
    open_console,
    open_named,
    open_session,
    resource_document,
    wish_of,
)
from vtrain.core.references import (
    command_about,
    job_id,
    jobs_here,
    list_command,
    short_ids,
    shown_name,
    with_shown_names,
)
from vtrain.errors import (
    CommandError,
    ConfigError,
    InterruptedByUser,
    NotFoundError,
    OutputError,
    StorageError,
    TerminatedBySignal,
    UsageError,
    VtrainError,
)
from vtrain.flags.grammar import count_or_unlimited, split_list
from vtrain.flags.options import (
    CommonFlags,
    JobListFlags,
    JobsFlag,
    JobsToStopFlag,
    ListFlags,
    MetricFlags,
    NameFlag,
    PlaceFlags,
)
from vtrain.messages.names import (
    ANY_JOB,
    JOB_KINDS,
    PIPELINE_LABEL,
    TRIAL_LABEL,
    ResourceKind,
    kind_of,
)
from vtrain.messages.nearest import did_you_mean
from vtrain.messages.states import KNOWN, has_ended, names_of, short
from vtrain.output.colours import has_colours
from vtrain.output.console import Console
from vtrain.output.terminal import on_one_line
from vtrain.sizes import size_in_words

if TYPE_CHECKING:
    from vtrain.messages.resources import Job


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
    if listing.sort_by.lstrip("~").startswith(("args.", "metrics.")):  # as text 10 would come before 9
        wanted = msgspec.structs.replace(wanted, sort=wanted.sort or listing.sort_by)
        listing = msgspec.structs.replace(listing, sort_by="")
    choose = partial(_chosen, chosen, _states(chosen.state))

    def show(session: Session, jobs: Iterator[Job]) -> None:
        if wanted == MetricFlags():
            show_resources(session, kind, listing, map(resource_document, choose(jobs)))
        else:
            from vtrain.commands.comparison import show_compared

            show_compared(listing, wanted, session, choose(jobs))

    if chosen.watch:
        _watch(listing, place, common, kind, choose)
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


def _chosen(chosen: JobListFlags, states: frozenset[str], jobs: Iterable[Job]) -> Iterator[Job]:
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
    choose: Callable[[Iterable[Job]], Iterator[Job]],
) -> None:
    """Draw the list in its place until Ctrl-C. Raises UsageError where it cannot be drawn."""
    if not sys.stdout.isatty() or common.format:
        raise UsageError("--watch draws a table on a terminal.", hint="Leave out --watch, or --format.")
    from vtrain.commands.selection import LIST_TABLE, Selection
    from vtrain.output.live_table import LiveTable

    session = open_session(common, place, kind=kind)
    pause = max(getattr(session.jobs, "pace", LOCAL_PACE).slowest, LEAST_PAUSE)
    with LiveTable() as table:
        while True:
            selection = Selection(session.console, listing, default=LIST_TABLE, uri_of=session.uri_of)
            jobs = choose(_jobs_of(session, kind, page_size(session, listing), []))
            found = islice(selection.apply(map(resource_document, jobs)), shutil.get_terminal_size().lines)
            table.draw(_job_table(session, found, coloured=False).splitlines() or ["No job is listed."])
            if selection.failure is not None:
                raise selection.failure
            time.sleep(pause)


def _jobs_of(session: Session, kind: ResourceKind, size: int, damaged: list[str]) -> Iterator[Job]:
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
    jobs = _jobs_of(session, kind, page_size(session, listing), damaged)
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


def describe(job: NameFlag, place: PlaceFlags, common: CommonFlags, *, kind: ResourceKind) -> None:
    """Print one job."""
    session, name = open_named(common, place, job.text, kind)
    found = session.jobs.get(name)
    session.console.result(resource_document(found), "yaml")
    if not has_ended(found.state):
        warn_of_halt(session, [name])


def cancel(job: NameFlag, place: PlaceFlags, common: CommonFlags, *, kind: ResourceKind) -> None:
    """Ask a job to end; the answer for one of this machine that has ended already is its state."""
    _cancel(*open_named(common, place, job.text, kind, about_running=True, only_one=True))


def stop(
    jobs: JobsFlag, every: JobsToStopFlag, place: PlaceFlags, common: CommonFlags, *, kind: ResourceKind
) -> None:
    """Ask jobs to end, or all of them. Raises UsageError where none are named."""
    console = open_console(common)
    words = jobs.jobs
    if every.all and words:
        raise UsageError("stop takes names of jobs or --all.")
    if not (every.all or words):
        raise UsageError("stop needs a job.", hint="The newest:\n$ vtrain stop @last")
    if every.all:
        words = _all_going(console, place, common, kind)
    _each(
        console,
        words,
        lambda word: _cancel(
            *open_named(common, place, word, kind, about_running=True, only_one=True, console=console)
        ),
    )


def _all_going(
    console: CommandConsole, place: PlaceFlags, common: CommonFlags, kind: ResourceKind
) -> list[str]:
    """The names of all jobs that have not ended, without those that others run; after the user's consent.

    Raises ConfigError where the user does not consent, and on a service, which does not say whose a job is.
    """
    session = find_target(common, place, console=console, kind=kind).open()
    if not session.is_local:
        raise ConfigError(
            f"stop --all is for jobs of this machine: those of {session.settings.project} may be anybody's.",
            hint="Name those to stop, or add --backend=local.",
        )
    jobs = _chosen(JobListFlags(), frozenset(), _jobs_of(session, kind, Query().page_size, []))
    going = [job for job in jobs if not has_ended(job.state)]
    if not going:
        console.status("No job is running or waiting.")
        return []
    named = ", ".join(on_one_line(job.display_name) for job in going[:MOST_NAMED])
    more = f" and {len(going) - MOST_NAMED} more" if len(going) > MOST_NAMED else ""
    count = "1 job" if len(going) == 1 else f"{len(going)} jobs"
    confirm(console, f"Stop {count} ({named}{more})?", otherwise="Nothing was stopped.")
    return [job.name for job in going]


def _each(console: Console, words: Iterable[str], act: Callable[[str], None]) -> None:
    """Do the same to each job. Of several, one that fails keeps nobody from the next; CommandError tells."""
    wanted = [*dict.fromkeys(words)]
    code = 0
    for word in wanted:
        try:
            act(word)
        except (OutputError, InterruptedByUser, TerminatedBySignal):
            raise
        except VtrainError as error:
            if len(wanted) == 1:
                raise
            error.message, error.hint = with_shown_names(error.message), with_shown_names(error.hint)
            console.error(error)
            code = code or error.exit_code
    if code:
        raise CommandError("", code)


def _cancel(session: Session, name: str) -> None:
    state = session.jobs.get(name).state if session.is_local else ""
    if has_ended(state):
        noun = kind_of(name).noun
        session.console.status(f"{noun} [{shown_name(name)}] has ended already: {short(state)}.")
    else:
        session.jobs.cancel(name)
        session.console.status(f"Request to cancel {kind_of(name).noun} [{shown_name(name)}] has been sent.")
        session.console.progress(f"\n$ {command_about(name, 'wait')}\n")
    session.console.result({})


def delete(job: NameFlag, place: PlaceFlags, common: CommonFlags, *, kind: ResourceKind) -> None:
    """Remove an ended job."""
    _delete(*open_named(common, place, job.text, kind, only_one=True))


def remove(jobs: JobsFlag, place: PlaceFlags, common: CommonFlags, *, kind: ResourceKind) -> None:
    """Remove ended jobs. Raises UsageError where none are named."""
    console = open_console(common)
    if not jobs.jobs:
        raise UsageError("rm needs a job.", hint="See what there is:\n$ vtrain ps")
    _each(
        console,
        jobs.jobs,
        lambda word: _delete(*open_named(common, place, word, kind, only_one=True, console=console)),
    )


def _delete(session: Session, name: str) -> None:
    held = session.jobs.holdings(name) if isinstance(session.jobs, HoldingBackend) else None
    shown = shown_name(name)
    session.jobs.delete(name)
    session.console.status(f"Deleted {kind_of(name).noun} [{shown}].")
    if held is not None:
        _say_what_went(session.console, held)


def _say_what_went(console: Console, held: Holdings) -> None:
    """Say what was removed of a job, and where its output is, which stays."""
    left = ", also those that the trainer left in its working directory" if held.left_files else ""
    console.progress(f"Removed its record, its log and its files ({size_in_words(held.size)}){left}.")
    if held.output is not None and held.output.exists():
        folder = shlex.quote(str(held.output))
        console.progress(f"Its output stays. To remove that too:\n$ rm -r {folder}")


# lists of any resources


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

    is_drawn = kind == ANY_JOB or sys.stdout.isatty()  # gcloud's own lists are YAML in a pipe
    draw = partial(_job_table, session) if is_drawn and kind in (ANY_JOB, *JOB_KINDS) else None
    default = LIST_TABLE if is_drawn else "yaml"
    show_list(session.console, listing, documents, default=default, uri_of=session.uri_of, draw=draw)


def _job_table(session: Session, documents: Iterable[dict[str, Any]], *, coloured: bool | None = None) -> str:
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
    coloured = has_colours(sys.stdout) if coloured is None else coloured
    return job_table(rows, width=width, coloured=coloured) if rows else ""
