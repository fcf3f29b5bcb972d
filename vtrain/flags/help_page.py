"""The help of a command or a group: a page, made of its flags, and the page as text.

Rich would cost more to import than all of vtrain, so the text is laid out here.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import starmap
from typing import Any, NamedTuple

import msgspec

from vtrain.flags.options import COMMON, HEADINGS, JOB, CommandHelp
from vtrain.flags.topics import topic_of

MAX_WIDTH = 120
"""Columns; longer lines are hard to read."""
MIN_WIDTH = 40
LABEL_WIDTH = 31
"""Columns for a flag and its value; the text of a longer one begins on the next line."""
NARROW = 72
"""Columns; below, each text stands under its flag."""
COMMON_NOTE = "Common flags: --project, --format, --quiet, --verbosity, … ('vtrain help flags')"


class HelpRow(NamedTuple):
    """A flag, an argument or a command, and its text."""

    label: str
    text: str


class Section(NamedTuple):
    """Rows below a heading."""

    heading: str
    rows: tuple[HelpRow, ...]


class HelpPage(msgspec.Struct, frozen=True, kw_only=True):
    """The help of one command or group, before it is laid out."""

    title: str
    """The command as it is typed."""
    usage: str
    texts: tuple[str, ...] = ()
    examples: tuple[tuple[str, str], ...] = ()
    sections: tuple[Section, ...] = ()
    notes: tuple[str, ...] = ()
    is_group: bool = False
    """Whether the sections list commands, which come first."""


def command_page(info: CommandHelp, params: Sequence[Any], path: str) -> HelpPage:
    """The page of one command; `path` is the command as it is typed."""
    arguments = [param for param in params if param.param_type_name == "argument"]
    rows = tuple(HelpRow(param.metavar, _sentence(param)) for param in arguments)
    words = [path, *(param.metavar for param in arguments)]
    words += [_label(param) for param in params if _is_required(param, info)]
    words += ["[FLAGS]", *([f"[-- {info.remainder}]"] if info.takes_remainder else ())]
    return HelpPage(
        title=path,
        usage=" ".join(words),
        texts=tuple(filter(None, (info.summary, *info.details.split("\n\n")))),
        examples=info.examples,
        sections=(*((Section("Arguments", rows),) if rows else ()), *_flag_sections(info, params)),
        notes=(COMMON_NOTE, f"Read more: vtrain help {topic_of(path)}"),
    )


def group_page(
    path: str,
    text: str,
    commands: Mapping[str, Iterable[tuple[str, str]]],
    *,
    examples: tuple[tuple[str, str], ...] = (),
    notes: tuple[str, ...] = (),
) -> HelpPage:
    """The page of a group; `commands` are names and summaries by their headings."""
    sections = (Section(heading, tuple(starmap(HelpRow, rows))) for heading, rows in commands.items())
    return HelpPage(
        title=path,
        usage=f"{path} COMMAND [FLAGS]",
        texts=(text,),
        examples=examples,
        sections=tuple(sections),
        notes=(COMMON_NOTE, f"Read more: vtrain help {topic_of(path)}", *notes),
        is_group=True,
    )


def common_page(params: Sequence[Any]) -> HelpPage:
    """The page of the flags that every command takes."""
    rows = tuple(HelpRow(_label(param), _sentence(param)) for param in params)
    text = "Every command takes these flags. They stand before the command's name or after it."
    return HelpPage(
        title="vtrain",
        usage="vtrain COMMAND [FLAGS]",
        texts=(text,),
        sections=(Section(f"{COMMON} flags", rows),),
    )


def page_text(page: HelpPage, *, width: int, bold: Callable[[str], str] = str) -> str:
    """The page in lines of at most `width` columns, where its words allow it; `bold` marks headings."""
    labels = [row.label for section in page.sections for row in section.rows]
    limit = LABEL_WIDTH if width >= NARROW else 4
    column = 4 + max((len(label) for label in labels if len(label) <= limit), default=limit)
    usage = _indented(f"Usage: {page.usage}", width, 0, 7)
    blocks = [[usage.replace("Usage:", bold("Usage:"), 1)]]
    blocks += [[_indented(text, width, 2, 2)] for text in page.texts]
    examples = [line for example in page.examples for line in _example_lines(*example, width)]
    shown_examples = [[bold("Examples:"), *examples]] if examples else []
    sections = [
        [bold(f"{section.heading}:"), *(_row_lines(row, column, width) for row in section.rows)]
        for section in page.sections
    ]
    blocks += [*sections, *shown_examples] if page.is_group else [*shown_examples, *sections]
    blocks += [[_indented(note, width, 0, 0)] for note in page.notes]
    return "\n\n".join("\n".join(block) for block in blocks)


def shown(page: HelpPage) -> str:
    """The page as stdout takes it: as wide as the terminal, with its colours; plain through a pipe."""
    from vtrain.output.colours import Role, has_colours, paint

    coloured = has_colours(sys.stdout)
    width = max(MIN_WIDTH, min(shutil.get_terminal_size().columns, MAX_WIDTH))
    return page_text(page, width=width, bold=lambda text: paint(text, Role.NAME) if coloured else text)


def _flag_sections(info: CommandHelp, params: Sequence[Any]) -> list[Section]:
    headings = {name: group.heading for group in info.groups for name in group.__struct_fields__}
    found: dict[str, list[Any]] = {}
    for param in params:
        if param.param_type_name == "option" and not param.hidden:
            heading = getattr(param, "rich_help_panel", None) or headings[param.name]
            found.setdefault(heading, []).append(param)
    found.pop(COMMON, None)
    order = {heading: number for number, heading in enumerate(HEADINGS)}
    ordered = sorted(found, key=lambda heading: order.get(heading, order[JOB]))
    return [Section(heading, tuple(_rows(info, found[heading]))) for heading in ordered]


def _rows(info: CommandHelp, params: Sequence[Any]) -> list[HelpRow]:
    """One row for each flag; neighbours that share a text share a row."""
    rows: list[HelpRow] = []
    for param in sorted(params, key=lambda param: not _is_required(param, info)):
        required = " (required)" if _is_required(param, info) else ""
        row = HelpRow(_label(param), _sentence(param) + required)
        if rows and rows[-1].text == row.text:
            row = HelpRow(f"{rows.pop().label}, {row.label}", row.text)
        rows.append(row)
    return rows


def _is_required(param: Any, info: CommandHelp) -> bool:
    return param.param_type_name == "option" and (param.required or param.opts[0] in info.required)


def _label(param: Any) -> str:
    """A flag as it is written: `--flag=VALUE`, `--[no-]switch`, `-q, --[no-]quiet`."""
    names = sorted(param.opts, key=len)
    if f"--no-{names[-1][2:]}" in param.secondary_opts:
        names[-1] = f"--[no-]{names[-1][2:]}"
    value = f"={param.metavar}" if param.metavar and not param.is_flag else ""
    return ", ".join(names) + value


def _sentence(param: Any) -> str:
    default = param.default
    tells = isinstance(default, str) and default and "default" not in param.help
    return f"{param.help} (default: {default})" if tells else str(param.help)


def _row_lines(row: HelpRow, column: int, width: int) -> str:
    text = _indented(row.text, width, column, column)
    if len(row.label) > column - 4:
        line = f"  {row.label}  {row.text}"
        if len(line) <= width:
            return line
        return f"{_indented(row.label, width, 2, 4)}\n{text}"
    return f"  {row.label}".ljust(column) + text.lstrip()


def _example_lines(text: str, command: str, width: int) -> list[str]:
    """A comment and a command line, which `\\` continues where it is too long."""
    lexer = shlex.shlex(command, posix=False)  # the words keep their quotes
    lexer.whitespace_split = True
    lexer.commenters = ""
    lines = ["  $"]
    for word in lexer:
        if len(lines[-1]) + 1 + len(word) > width - 2 and not lines[-1].endswith("$"):
            lines[-1] += " \\"
            lines.append("     ")
        lines[-1] += f" {word}"
    return [_indented(f"# {text}", width, 2, 4), *lines]


def _indented(text: str, width: int, first: int, following: int) -> str:
    import textwrap

    return textwrap.fill(
        text,
        max(width, following + 20),
        initial_indent=" " * first,
        subsequent_indent=" " * following,
        break_long_words=False,
        break_on_hyphens=False,
    )
