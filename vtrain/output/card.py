"""The end of a job on stderr: a summary, or the card of a failure; on GitHub Actions also an annotation."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vtrain.core.verdict import Failure, ReplicaUse, failure_of, replica_uses
from vtrain.failure import folded
from vtrain.messages import states
from vtrain.output.colours import Piece, Role, dim, name, state
from vtrain.output.console import Console
from vtrain.output.terminal import in_width, message_columns, on_one_line
from vtrain.sizes import size_in_words
from vtrain.times import took_in_words

if TYPE_CHECKING:
    from vtrain.messages.resources import Job

RULE_COLUMNS = 72
MAX_USES = 8
"""How many replicas the summary lists."""
MAX_LAST_LINES = 10
"""How many lines of stderr the card shows where there is no traceback."""

Line = tuple[str | Piece, ...]
Pointer = tuple[str, str]
"""A label, and what it stands for: `model`, and the folder of the model."""


def show_end(console: Console, job: Job, places: Sequence[Pointer] = ()) -> None:
    """Print how an ended job ended; `places` are where its model and other outputs are."""
    failure = failure_of(job)
    if failure is None:
        show = console.progress if states.job_state(job.state) in _SUCCESSFUL else console.status
        show(*_joined(end_lines(console, job, places)))
        return
    rule = dim("─" * min(RULE_COLUMNS, message_columns() or RULE_COLUMNS))
    lines = [(rule,), *end_lines(console, job, places), (rule,)]
    console.status(*_joined(lines))
    if os.environ.get("GITHUB_ACTIONS") == "true":
        console.status(_annotation(failure))
        if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
            try:
                _add_summary(Path(summary), failure, job)
            except OSError as error:
                console.warn(f"GITHUB_STEP_SUMMARY cannot be written: {error.strerror}.")


def end_lines(console: Console, job: Job, pointers: Sequence[Pointer]) -> list[Line]:
    """The state of a job, why it failed, what it took, and then the pointers."""
    failure = failure_of(job)
    lines = _summary_lines(job, pointers) if failure is None else _card_lines(console, failure, job, pointers)
    return [*lines]


_SUCCESSFUL = (states.SUCCEEDED, states.PARTIALLY_SUCCEEDED)


def _joined(lines: Sequence[Line]) -> Line:
    first, *others = lines
    return (*first, *(piece for line in others for piece in ("\n", *line)))


def _summary_lines(job: Job, places: Sequence[Pointer]) -> list[Line]:
    """The summary of a job that did not fail: state, name, time, use and places."""
    pointers = [*_use_pointers(job), *places]
    reason = job.error.message.splitlines()[0] if job.error and job.error.message else ""
    reason = reason.removeprefix("CANCELED").removeprefix(": ")
    head = (state(job.state), "  ", name(on_one_line(job.display_name or job.name)))
    return [(*head, f": {reason}" if reason else ""), *map(_pointer_line, pointers)]


def _card_lines(console: Console, failure: Failure, job: Job, places: Sequence[Pointer]) -> Iterator[Line]:
    """The card: what failed, where, why as far as this terminal has not just shown it, and where to look."""
    uses = replica_uses(job)
    headline, called = failure.headline(is_alone=len(uses) == 1), on_one_line(job.display_name)
    begun = len(f"FAILED  {called}: ")
    yield (
        *(state(states.FAILED), "  ", name(called), ": "),
        in_width(headline, before=begun, indent=" " * len("FAILED  ")),
    )
    quoted = _quoted(console, failure)
    if quoted:
        yield ("",)
        yield from ((f"  {line}",) for line in quoted)
        yield ("",)
    pointers = [*_failure_pointers(failure, is_quoted=bool(quoted)), *_use_pointers(job), *places]
    yield from map(_pointer_line, pointers)


def _quoted(console: Console, failure: Failure) -> list[str]:
    """The traceback, the last lines of stderr or the rest of the message, unless they were just shown."""
    if failure.traceback:
        ends = [failure.traceback[0], failure.traceback[-1]]
        return [] if console.has_just_shown(ends) else folded(failure.traceback, failure.file)
    if failure.replica == "":
        return _said_below(failure.message)
    lines = [] if failure.explained else last_lines(failure.message)
    return [] if console.has_just_shown(lines) else lines


def last_lines(message: str) -> list[str]:
    """The last lines of stderr that the message of a failed replica quotes."""
    return [line for line in _said_below(message) if line.strip()][-MAX_LAST_LINES:]


def _said_below(message: str) -> list[str]:
    """The lines below a message's first one, without the service's advice, which the card's pointers give."""
    quoted = message.partition("\n")[2].partition("\nTo find out more")[0]
    return quoted.strip("\n").splitlines()


def _failure_pointers(failure: Failure, *, is_quoted: bool) -> Iterator[Pointer]:
    """The exception where its traceback is not quoted, its file and line, the log, and a hint."""
    if failure.traceback and not is_quoted:
        yield "error", failure.traceback[-1].strip()
    if failure.file:
        yield "at", f"{_from_here(failure.file)}:{failure.line}"
    if failure.log:
        yield "log", failure.log
    if failure.hint:
        yield "hint", failure.hint


def _from_here(file: str) -> str:
    """The path from the current folder, if the file is below it."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, FileNotFoundError):  # it is elsewhere, or the current folder was removed
        return file


def _use_pointers(job: Job) -> Iterator[Pointer]:
    """How long the job took, and what each replica used."""
    uses = replica_uses(job)
    took = took_in_words(job.start_time or job.create_time, job.end_time)
    if job.end_time and took:
        parts = _use_parts(uses[0], job) if len(uses) == 1 else ()
        yield "took", ", ".join([took, *parts])
    if len(uses) == 1:
        return
    for use in uses[:MAX_USES]:
        yield "used", f"{use.name}: {', '.join(_use_parts(use, job))}"
    if len(uses) > MAX_USES:
        yield "", f"and {len(uses) - MAX_USES} more replicas, which `describe` shows"


_SENTENCES = ("error", "hint", "args", "metric", "took", "used", "best", "with")
"""The labels of texts that are broken between words."""


def _pointer_line(pointer: Pointer) -> Line:
    label, text = pointer
    role = Role.WARNING if label == "hint" else Role.DIM
    shown = in_width(text, before=10, indent=" " * 10) if label in _SENTENCES else text
    return ("  ", Piece(f"{label:<6}", role), "  ", shown)


def _use_parts(use: ReplicaUse, job: Job) -> Iterator[str]:
    """The attempts, memory and processor time of a replica; the card's first line has a single exit code."""
    codes = " ".join(map(str, use.exit_codes))
    count = len(use.exit_codes)
    if count > 1:
        yield f"{count} attempts, exit codes {codes}"
    elif count == 0:
        yield "no exit code"
    elif states.job_state(job.state) == states.SUCCEEDED and use.exit_codes[0]:
        yield f"stopped when the primary replica had ended, exit code {codes}"
    elif states.job_state(job.state) != states.FAILED or len(replica_uses(job)) > 1:
        yield f"exit code {codes}"
    if use.peak_memory_bytes:
        yield f"peak memory {size_in_words(use.peak_memory_bytes)}"
    if use.cpu_seconds:  # 0: not known
        yield f"processor time {use.cpu_seconds:.1f} s"


def _annotation(failure: Failure) -> str:
    """`::error file=…,line=…::message`, escaped as GitHub's workflow commands demand."""
    headline = failure.headline()
    text = f"{failure.traceback[-1]} ({headline})" if failure.traceback else headline
    file = _escaped(_from_here(failure.file)).replace(":", "%3A").replace(",", "%2C")
    place = f" file={file},line={failure.line}" if file else ""
    return f"::error{place}::{_escaped(text)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _add_summary(path: Path, failure: Failure, job: Job) -> None:
    quoted = folded(failure.traceback, failure.file) or failure.message.splitlines()
    if quoted[:1] == [failure.headline()]:
        quoted = quoted[1:]
    fence = "\n".join(["", "```text", *quoted, "```", ""]) if quoted else ""
    hint = f"\n{failure.hint}\n" if failure.hint else ""
    text = f"### {on_one_line(job.display_name)} failed\n\n{failure.headline()}\n{fence}{hint}"
    with path.open("a", encoding="utf-8", errors="replace") as file:
        file.write(text)
