"""The part of another program's output that says why it failed, for messages with room for a few lines."""

from __future__ import annotations

import re
from collections.abc import Iterable

TRACEBACK_HEAD = "Traceback (most recent call last):"
MOST_LINES = 15
"""How many lines of an output a message shows at most."""
_FEWEST_LINES = 5
"""So many are shown of a longer output, those before the error if need be."""
_LONGEST_LINE = 300
_LAST_LINES = 4
"""How many of a long reason's last lines are shown below its first ones."""

_ERROR = re.compile(
    r"(?:^|[\s:])(?:[\w.]*(?:Error|Exception|Failure)|E|(?i:fatal(?: error)?|error|panic))(?:\[\w+\])?: "
    r"|^\s*(?:[\w.]+Error$|npm ERR!|CMake Error)"
)
"""A line that says what went wrong: of Python, compilers, installers, git, apt, npm, CMake."""
_WRAPPING = re.compile(
    r"non-zero exit status|exit (?:status|code)[: ] ?\d+|returned \d+ exit status|returned an error$"
    r"|did not (?:run|complete) successfully|-exited-with-error|-generation-failed|failed-wheel-build"
    r"|Failed (?:to build|building) |Could not build wheels|Encountered error while|[Bb]uild failures usually"
    r"|[Tt]his (?:error originates|is an issue with)|See above for|end of output\]|\d+ lines? of output\]"
    r"|^\s*\[std(?:out|err)\]$"
)
"""A line that says no more than that another program failed, or where its words are."""
_NOISE = re.compile(r"\s*\[notice\] |Using Python \S+ environment")


def reason(output: Iterable[str]) -> list[str]:
    """The lines from the last error on, without blank ones; the last lines of an output that names no error.

    Few lines get those before them, and many lose some in the middle.
    """
    lines, errors, wrapping = _read(output)
    start = errors[-1] if errors else wrapping
    shown = lines[max(min(start, len(lines) - _FEWEST_LINES), 0) :]
    if len(shown) > MOST_LINES:
        shown = [*shown[: MOST_LINES - _LAST_LINES - 1], "…", *shown[-_LAST_LINES:]]
    return [line[:_LONGEST_LINE] for line in shown]


def reason_line(output: Iterable[str]) -> str:
    """The last error's own line, or else the last line; empty where the output is."""
    lines, errors, _ = _read(output)
    return lines[errors[-1] if errors else -1].strip()[:_LONGEST_LINE] if lines else ""


def _read(output: Iterable[str]) -> tuple[list[str], list[int], int]:
    """The lines that are not blank and do not wrap others, which of them are errors, and the wrapping's end.

    Where a program wraps the words of another, those stand below its first line about it; without any, the
    last lines count.
    """
    lines = [text for line in output if (text := line.rstrip()) and not _NOISE.match(text)]
    kept = [line for line in lines if not _WRAPPING.search(line)] or lines
    first = next((n for n, line in enumerate(lines) if _WRAPPING.search(line)), len(lines) - MOST_LINES)
    errors: list[int] = []
    margin: str | None = None
    for number, line in enumerate(kept):
        head = line.find(TRACEBACK_HEAD)
        if head >= 0:
            margin = line[:head]
        elif margin is not None and line.startswith(margin) and line[len(margin) :][:1].strip():
            # Below its frames, a traceback ends with an exception, whatever that is called.
            errors.append(number)
            margin = None
        elif _ERROR.search(line):
            errors.append(number)
    return kept, errors, first
