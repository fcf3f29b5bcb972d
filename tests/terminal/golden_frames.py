"""Golden frames: pictures of a terminal as text that a reviewer can read, in `frames/NAME.COLUMNS.txt`.

`VTRAIN_UPDATE_FRAMES=1 pytest tests/terminal` writes them anew. Times, ids and paths are replaced. With
`colours=True` the text has marks such as `‹red bold›FAILED‹›` where the terminal shows a style.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from lib.pseudo_terminal import PseudoTerminal

FRAMES = Path(__file__).with_name("frames")
UPDATE = "VTRAIN_UPDATE_FRAMES"
_UPDATES = bool(os.environ.get(UPDATE))  # read at once: no test has such a variable
_PATTERNS = (
    (r"(?m)^(?:\S+ \S+ │)? *[~^]*~\^*~*\n", ""),  # Python 3.13 underlines more of a traceback than 3.10
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?: ?[+-]\d{4}|Z)?", "<TIME>"),
    (r"\b\d{4}-\d\d-\d\d\b", "YYYY-MM-DD"),
    (r"-\d{8}-\d{6}-\d+", "-<RUN>"),
    (r"(?m)(?<=^package )[0-9a-f]{12}\b", "<PACKAGE>   "),
    (r"\b\d\d:\d\d:\d\d\b", "hh:mm:ss"),
    (r"\b\d+:\d\d\b", "m:ss"),
    (r"\b\d+(?:\.\d+)? (?:ms|s)\b", "n s"),
    (r"\b\d+(?:\.\d+)? (?:[kMG]i?B|bytes)\b", "n kB"),
    (r"[\u2800-\u28ff]", "⠋"),
)


def compare(name: str, terminal: PseudoTerminal, *, colours: bool, places: Mapping[str, str]) -> None:
    """Compare a terminal's transcript with its golden file, or write that.

    `places` has texts to replace, such as this test's home; one may be broken at the edge of the screen.
    """
    file = FRAMES / f"{name}.{terminal.screen.columns}.txt"
    seen = _steady(_painted(terminal) if colours else terminal.transcript, places)
    if _UPDATES:
        FRAMES.mkdir(exist_ok=True)
        file.write_text(seen)
        return
    assert file.exists(), f"There is no {file.name}: write it with {UPDATE}=1.\n{seen}"
    changes = "\n".join(difflib.unified_diff(file.read_text().split("\n"), seen.split("\n"), lineterm=""))
    assert not changes, f"{file.name} differs; write it anew with {UPDATE}=1.\n{changes}"


def _steady(text: str, places: Mapping[str, str]) -> str:
    """The text without what differs from run to run, each replacement on one line."""
    for place in sorted(places, key=len, reverse=True):
        text = _replaced(text, r"\n?".join(map(re.escape, place)), places[place])
    text = _replaced(text, r"(?<!\d)\d(?:\n?\d){17,18}(?!\d)", "<ID>")
    text = _replaced(text, r"(?<![0-9a-f])[0-9a-f](?:\n?[0-9a-f]){63}(?![0-9a-f])", "<HASH>")
    text = _replaced(text, r"(?<=-)(?:\n?[0-9a-f]){16}(?![0-9a-f])", "<HASH>")
    for pattern, stand_in in _PATTERNS:
        text = re.sub(pattern, stand_in, text)
    return text + "\n"


def _replaced(text: str, pattern: str, stand_in: str) -> str:
    """A break at the screen's edge stays, behind the replacement."""
    return re.sub(pattern, lambda match: stand_in + ("\n" if "\n" in match[0] else ""), text)


def _painted(terminal: PseudoTerminal) -> str:
    lines = []
    for row in terminal.rows:
        line, now = "", ""
        end = max((column + 1 for column, cell in enumerate(row) if cell.data.strip()), default=0)
        for cell in row[:end]:
            style = _style(cell)
            if style != now:
                line, now = line + ("‹›" if now else "") + (f"‹{style}›" if style else ""), style
            line += cell.data
        lines.append(line + ("‹›" if now else ""))
    return "\n".join(lines).rstrip("\n")


def _style(cell) -> str:  # type: ignore[no-untyped-def]
    """The colours and attributes of a cell in words; empty for plain text."""
    words = [cell.fg] if cell.fg != "default" else []
    words += [f"on {cell.bg}"] if cell.bg != "default" else []
    flags = {
        "bold": cell.bold,
        "italics": cell.italics,
        "underscore": cell.underscore,
        "reverse": cell.reverse,
    }
    return " ".join([*words, *(name for name, is_set in flags.items() if is_set)])
