"""The card that says why a job failed; on GitHub Actions also an annotation and a step summary."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from vtrain.output.console import Console
from vtrain.output.controls import on_one_line
from vtrain.verdict import Failure, ReplicaUse, failure_of, replica_uses

if TYPE_CHECKING:
    from vtrain.messages.resources import Job

RULE = "─" * 72
MAX_USES = 8
"""How many replicas the card lists."""


def show_failure(console: Console, job: Job) -> None:
    """Draw the card of a failed job on stderr; nothing for any other job."""
    failure = failure_of(job)
    if failure is None:
        return
    console.status("\n".join(card_lines(failure, job.display_name, replica_uses(job))))
    if os.environ.get("GITHUB_ACTIONS") == "true":
        console.status(_annotation(failure))
        _add_summary(failure, job)


def card_lines(failure: Failure, title: str, uses: tuple[ReplicaUse, ...] = ()) -> list[str]:
    """The card as lines of text; `uses` are the replicas of a job that ran here."""
    lines = [RULE, f"FAILED  {on_one_line(title)}: {_headline(failure)}"]
    if failure.traceback:
        lines += ["", *(f"  {line}" for line in without_launcher(failure.traceback))]
    elif failure.replica == "":
        further = failure.message.splitlines()[1:]
        lines += ["", *(f"  {line}" for line in further)] if further else []
    pointers = [*_pointers(failure), *_use_lines(uses)]
    return [*lines, *([""] if pointers or len(lines) > 2 else []), *pointers, RULE]


def _pointers(failure: Failure) -> Iterator[str]:
    """Where to look, and what to do."""
    if failure.file:
        yield f"  at    {failure.file}:{failure.line}"
    if failure.log:
        yield f"  log   {failure.log}"
    if failure.hint:
        yield f"  hint  {failure.hint}"


def _use_lines(uses: tuple[ReplicaUse, ...]) -> Iterator[str]:
    """What each replica has used, and how often it was started."""
    for use in uses[:MAX_USES]:
        yield f"  used  {use.name}: {', '.join(_use_words(use))}"
    if len(uses) > MAX_USES:
        yield f"        and {len(uses) - MAX_USES} more replicas, which `describe` shows"


def _use_words(use: ReplicaUse) -> Iterator[str]:
    codes = " ".join(map(str, use.exit_codes))
    count = len(use.exit_codes)
    exits = f"{count} attempts, exit codes {codes}" if count > 1 else f"exit code {codes}"
    yield exits if count else "no exit code"
    if use.peak_memory_bytes:
        yield f"{use.peak_memory_bytes / 1e6:.0f} MB of memory at the peak"
    if use.cpu_seconds:  # 0: not known
        yield f"{use.cpu_seconds:.1f} s of processor time"


def without_launcher(traceback: tuple[str, ...]) -> list[str]:
    """A traceback without the frames of `python -m`, which are in every one."""
    return [line for line in traceback if not line.startswith('  File "<frozen runpy>"')]


def _headline(failure: Failure) -> str:
    if failure.replica and failure.exit_code is not None and not failure.explained:
        return f"{failure.replica} failed first, with exit code {failure.exit_code} ({failure.meaning})."
    return failure.message.splitlines()[0] if failure.message else "the job failed."


def _annotation(failure: Failure) -> str:
    """`::error file=…,line=…::message`, escaped as GitHub's workflow commands demand."""
    headline = _headline(failure)
    text = f"{failure.traceback[-1]} ({headline})" if failure.traceback else headline
    file = os.path.relpath(failure.file) if failure.file else ""
    place = f" file={_property(file)},line={failure.line}" if file else ""
    return f"::error{place}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _add_summary(failure: Failure, job: Job) -> None:
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    quoted = without_launcher(failure.traceback) or failure.message.splitlines()
    if quoted[:1] == [_headline(failure)]:
        quoted = quoted[1:]
    fence = "\n".join(["", "```text", *quoted, "```", ""]) if quoted else ""
    hint = f"\n{failure.hint}\n" if failure.hint else ""
    text = f"### {on_one_line(job.display_name)} failed\n\n{_headline(failure)}\n{fence}{hint}"
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(text)
