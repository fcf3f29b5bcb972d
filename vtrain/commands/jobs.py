"""The commands about existing jobs in each group: describe, cancel, delete; and several at once."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from vtrain.backends import HoldingBackend, Holdings, Query
from vtrain.commands.job_lists import MOST_NAMED, chosen_jobs, jobs_of, warn_of_halt
from vtrain.commands.session import (
    CommandConsole,
    Session,
    confirm,
    find_target,
    open_console,
    open_named,
    resource_document,
)
from vtrain.core.references import command_about, shown_name, with_shown_names
from vtrain.errors import (
    CommandError,
    ConfigError,
    InterruptedByUser,
    OutputError,
    TerminatedBySignal,
    UsageError,
    VtrainError,
)
from vtrain.flags.options import CommonFlags, JobListFlags, JobsFlag, JobsToStopFlag, NameFlag, PlaceFlags
from vtrain.messages.names import ResourceKind, kind_of
from vtrain.messages.states import has_ended, short
from vtrain.output.console import Console
from vtrain.sizes import size_in_words

if TYPE_CHECKING:
    from vtrain.messages.resources import Job


def describe(job: NameFlag, place: PlaceFlags, common: CommonFlags, *, kind: ResourceKind) -> None:
    """Print one job."""
    session, name = open_named(common, place, job.text, kind)
    found = session.jobs.get(name)
    session.console.result(resource_document(found), "yaml")
    if not has_ended(found.state):
        warn_of_halt(session, [name])


def cancel(job: NameFlag, place: PlaceFlags, common: CommonFlags, *, kind: ResourceKind) -> None:
    """Ask a job to end; the answer for one of this machine that has ended already is its state."""
    ask_to_end(*open_named(common, place, job.text, kind, about_running=True, only_one=True))


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
        words = [job.name for job in _to_stop(console, unended_jobs(console, place, common, kind, "stop"))]
    for_each(
        console,
        words,
        lambda word: ask_to_end(
            *open_named(common, place, word, kind, about_running=True, only_one=True, console=console)
        ),
    )


def unended_jobs(
    console: CommandConsole, place: PlaceFlags, common: CommonFlags, kind: ResourceKind, command: str
) -> list[Job]:
    """All jobs of this machine that have not ended, without those that others run.

    Raises ConfigError on a service, which does not say whose a job is.
    """
    session = find_target(common, place, console=console, kind=kind).open()
    if not session.is_local:
        project = session.settings.project
        raise ConfigError(
            f"{command} --all is for jobs of this machine: those of {project} may be anybody's.",
            hint="Name those that you mean, or add --backend=local.",
        )
    jobs = chosen_jobs(JobListFlags(), frozenset(), jobs_of(session, kind, Query().page_size, []))
    going = [job for job in jobs if not has_ended(job.state)]
    if not going:
        console.status("No job is running or waiting.")
    return going


def _to_stop(console: CommandConsole, going: list[Job]) -> list[Job]:
    """The same jobs, after the user's consent. Raises ConfigError where the user does not consent."""
    if not going:
        return []
    from vtrain.output.compared import labels_of

    named = ", ".join(labels_of([(job.name, job.display_name) for job in going])[:MOST_NAMED])
    more = f" and {len(going) - MOST_NAMED} more" if len(going) > MOST_NAMED else ""
    count = "1 job" if len(going) == 1 else f"{len(going)} jobs"
    confirm(console, f"Stop {count} ({named}{more})?", otherwise="Nothing was stopped.")
    return going


def for_each(console: Console, words: Iterable[str], act: Callable[[str], None]) -> None:
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


def ask_to_end(session: Session, name: str) -> None:
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
    for_each(
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
