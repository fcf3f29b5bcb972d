"""`vtrain doctor`: what this machine and each backend need, and the commands that mend what is missing."""

from __future__ import annotations

import queue
import shutil
import sys
import textwrap
import threading
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

import msgspec

from vtrain.backends.health import Check, Finding, Health, machine_checks
from vtrain.backends.interface import Backend, CommandLine
from vtrain.backends.registry import LOCAL_CHOICE, every_backend, find_backend, is_choice, plugin_faults
from vtrain.commands.session import open_console, service_access
from vtrain.errors import UnavailableError
from vtrain.flags.options import CommonFlags, PlaceFlags
from vtrain.output.colours import Piece, Role, has_colours, painted
from vtrain.output.terminal import visible
from vtrain.settings import Choice, choose_backend, find_project, project_in_region

if TYPE_CHECKING:
    from vtrain.output.console import Console

Answers = queue.SimpleQueue[Finding | Exception | None]
MACHINE = "this machine"
LOOKING = "Checking …"
CHECK_SECONDS = 20.0
"""A check that takes longer has failed."""
INDENT = 26
"""Columns before the text of a line."""
NARROWEST = 40
"""Columns of that text, however narrow the terminal is."""
MARKS = {
    Health.OK: Piece("✓", Role.GOOD),
    Health.WARNING: Piece("!", Role.WARNING),
    Health.FAILED: Piece("✗", Role.ERROR),
    Health.SKIPPED: Piece("-", Role.DIM),
}


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """This machine, or a backend. `is_needed` by the user's jobs; only then the network `may_be_asked`."""

    name: str
    checks: Iterable[Check]
    is_needed: bool
    may_be_asked: bool


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A check of a subject and its finding."""

    subject: Subject
    name: str
    finding: Finding

    @property
    def stops(self) -> bool:
        """Whether the chosen backend cannot work because of it."""
        return self.subject.is_needed and self.finding.health is Health.FAILED

    def document(self) -> dict[str, Any]:
        """The line for `--format`."""
        return {
            "subject": self.subject.name,
            "check": self.name,
            "status": self.finding.health.value,
            "text": self.finding.text,
            "mend": self.finding.mend,
            "required": self.subject.is_needed,
        }


def doctor(place: PlaceFlags, common: CommonFlags) -> None:
    """Check everything, and end with 1 where the chosen backend cannot work."""
    console = open_console(common)
    found = find_project(common.project)
    choice = choose_backend(flag=place.backend, name="", project=project_in_region(place.region) or found)
    chosen = find_backend(choice.value)
    console.status(f"Backend: {choice.value} ({choice.origin})")
    line = CommandLine(
        region=place.region, project=project_in_region(place.region) or found, access=service_access(common)
    )
    lines = _shown(console, _examined(_subjects(choice, chosen, line)))
    if console.format is not None:
        console.results([each.document() for each in lines], "yaml")
    if stopping := [each.name for each in lines if each.stops]:
        raise UnavailableError(
            f"The backend {chosen.name} cannot work: see {', '.join(stopping)}.",
            hint="Fix these, and run vtrain doctor again.",
        )
    others = "".join(f"; {can}" for can in _others(lines, chosen.name))
    console.status(f"The backend {chosen.name} can work{others}.")


def _others(lines: Iterable[Line], chosen: str) -> Iterator[str]:
    """Whether the backends that nobody has chosen can work."""
    for name, own in groupby(lines, key=lambda line: line.subject.name):
        found = {line.finding.health: line for line in own}
        if name in (MACHINE, chosen):
            continue
        if failed := found.get(Health.FAILED):
            yield f"{name} cannot: see {failed.name}"
        else:
            yield (
                f"{name} was not asked"
                if (asked := found.get(Health.SKIPPED)) and asked.finding.mend
                else f"{name} can too"
            )


def _subjects(choice: Choice, chosen: Backend, line: CommandLine) -> Iterator[Subject]:
    yield Subject(name=MACHINE, checks=machine_checks(), is_needed=True, may_be_asked=False)
    for backend in every_backend():
        is_needed = backend.name == chosen.name
        may_be_chosen = is_choice(choice.value) and backend.name in LOCAL_CHOICE
        yield Subject(
            name=backend.name,
            checks=_checks(backend, line),
            is_needed=is_needed,
            may_be_asked=is_needed or may_be_chosen,
        )


def _checks(backend: Backend, line: CommandLine) -> tuple[Check, ...]:
    """The checks of a backend; of a plug-in that fails one that says so."""
    try:
        with plugin_faults(backend.name):
            return tuple(backend.checks(line))
    except UnavailableError as error:
        finding = Finding(text=error.message, health=Health.FAILED, mend=error.hint)
        return (Check(name="plug-in", probe=lambda: finding),)


def _examined(subjects: Iterable[Subject]) -> Iterator[Line]:
    """The lines of all subjects in order. They are examined at the same time, each in a thread of its own."""
    waiting = []
    for subject in subjects:
        checks, answers = tuple(subject.checks), Answers()
        threading.Thread(target=_examine, args=(subject, checks, answers), daemon=True).start()
        waiting.append((subject, checks, answers))
    for subject, checks, answers in waiting:
        for check in checks:
            try:
                answer = answers.get(timeout=CHECK_SECONDS)
            except queue.Empty:  # nobody waits for the rest either
                health = Health.FAILED if check.is_vital else Health.WARNING
                finding = Finding(text=f"no answer within {CHECK_SECONDS:g} s.", health=health)
                yield Line(subject=subject, name=check.name, finding=finding)
                break
            if answer is None:
                break
            if isinstance(answer, Exception):
                raise answer
            yield Line(subject=subject, name=check.name, finding=answer)


def _examine(subject: Subject, checks: Iterable[Check], answers: Answers) -> None:
    """Put the finding of each check into the queue, and None behind the last; a failure is the last."""
    try:
        for check in checks:
            if check.asks_network and not subject.may_be_asked:
                mend = f"$ vtrain doctor --backend={subject.name}"
                answers.put(
                    Finding(text="not checked: it asks the network", health=Health.SKIPPED, mend=mend)
                )
                break
            answers.put(finding := check.run())
            if finding.health is Health.FAILED:
                break
        answers.put(None)
    except Exception as error:  # the main thread reports it
        answers.put(error)


def _shown(console: Console, lines: Iterable[Line]) -> list[Line]:
    """The lines; each is printed as it comes, unless `--format` prints them all."""
    seen: list[Line] = []
    console.show_state(LOOKING)
    for line in lines:
        if console.format is None and console.user_output:
            heading = "" if seen and seen[-1].subject.name == line.subject.name else f"{line.subject.name}\n"
            console.write(f"{heading}{_text(line)}\n".encode("utf-8", "backslashreplace"))
            console.show_state(LOOKING)
        seen.append(line)
    console.close()
    return seen


def _text(line: Line) -> str:
    """`  ✓ engine  …`, and below it what mends it."""
    health = line.finding.health
    if health is Health.FAILED and not line.subject.is_needed:
        health = Health.WARNING  # of a backend that nobody has chosen
    first = painted((MARKS[health], f" {line.name:<21} "), coloured=has_colours(sys.stdout))
    text = [*_folded(line.finding.text), *chain.from_iterable(map(_folded, line.finding.mend.splitlines()))]
    return "\n".join([f"  {first}{text[0]}", *(f"{'':{INDENT}}{part}" for part in text[1:])])


def _folded(text: str) -> list[str]:
    """The lines of a sentence on a terminal of this width; a command stays whole, to be copied."""
    text = visible(text)
    if text.startswith("$ ") or not sys.stdout.isatty():
        return [text]
    width = max(shutil.get_terminal_size().columns - INDENT, NARROWEST)
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
