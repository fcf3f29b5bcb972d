"""`vtrain help` and `vtrain version`; and the manual page, made of the same pages of help."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from vtrain import __version__
from vtrain.commands import GROUPS
from vtrain.commands.reference import exit_codes, filled, pages_below
from vtrain.errors import UsageError
from vtrain.flags.command import Invocation, common_flags
from vtrain.flags.help_page import HelpPage, Section, common_page, shown
from vtrain.flags.options import CommonFlags, HelpFlags
from vtrain.flags.synonyms import COMMANDS as SYNONYMS
from vtrain.flags.topics import page_of, pages_about, topics
from vtrain.flags.variables import VARIABLES
from vtrain.messages.nearest import did_you_mean, nearest
from vtrain.output.markdown import show_markdown
from vtrain.output.writing import print_text

COMMON_FLAGS = ["flags"]
"""The page of the common flags; there is no command of this name."""
TOPICS = "topics"
"""The list of the documentation's pages; nor is there one of this name."""
MOST_PAGES = 5
_ALL_PAGES = "Run vtrain help topics, which lists all."


def show_help(flags: HelpFlags, common: CommonFlags, make_root: Callable[[], Any]) -> None:  # noqa: ARG001
    """Print the page of the command that the words name, else the page of the documentation, else of vtrain.

    For a word that names neither, print the only page about it, or list the pages that it is on. Raises
    UsageError where there is none.
    """
    root = make_root()
    context = root.context_class(root, info_name="vtrain", obj=Invocation())
    word = flags.words[0] if len(flags.words) == 1 and not flags.man else ""
    if word == TOPICS:
        print_text("\n".join(topics()))
    elif word and root.get_command(context, word) is None and (page := page_of(word)) is not None:
        show_markdown(filled(page, root))
    elif "/" in word:
        last, names = word.rpartition("/")[2], {name.partition("/")[2]: name for name in topics()}
        near = next(iter(pages_about(last)), names.get(nearest(last, names))) if last else ""
        hint = f"Did you mean {near}?" if near else _ALL_PAGES
        raise UsageError(f"There is no page {word!r}.", hint=hint)
    elif flags.words == COMMON_FLAGS:
        print_text(shown(common_page(common_flags())))
    elif flags.man:
        print_text(manual(list(pages_below(*_find(root, context, list(flags.words))))))
    elif word and not _may_name_command(word, root, context):
        _show_pages_about(word, root, context)
    else:
        command, context = _find(root, context, list(flags.words))
        print_text(shown(command.page(context)))


def show_version(common: CommonFlags) -> None:  # noqa: ARG001
    """Print the version."""
    print_text(f"vtrain {__version__}")


def manual(pages: list[HelpPage]) -> str:
    """Return a manual page in roff: the first page, those of the commands below it, and what all share."""
    first, *others = pages
    title = first.title.replace(" ", "-")
    summary = first.texts[0].rstrip(".")
    lines = [f'.TH {title.upper()} 1 "" "vtrain {__version__}" "Manual of vtrain"']
    lines += [".SH NAME", _escaped(f"{title} - {summary[:1].lower()}{summary[1:]}"), ".SH SYNOPSIS"]
    lines += [_bold(first.usage), ".SH DESCRIPTION", *_paragraphs(first.texts), *_body(first)]
    if others:
        lines.append(".SH COMMANDS")
    for page in others:
        lines += [f'.SS "{_escaped(page.title)}"', _bold(page.usage), *_paragraphs(page.texts), *_body(page)]
    lines += [".SH COMMON FLAGS", *_rows(common_page(common_flags()).sections)]
    lines += [".SH ENVIRONMENT", *_entries(VARIABLES.items())]
    return "\n".join([*lines, ".SH EXIT STATUS", *_entries(exit_codes())])


def _may_name_command(word: str, root: Any, context: Any) -> bool:
    """Whether a word is a command, a part of its name, one of a group, or one of another program."""
    inner = [info.name for info in GROUPS["custom-jobs"].commands()]
    parts = [part for name in root.list_commands(context) for part in name.split("-")]
    return word in (*SYNONYMS, *inner, *parts) or root.get_command(context, word) is not None


def _show_pages_about(word: str, root: Any, context: Any) -> None:
    found = pages_about(word)
    if len(found) == 1:
        show_markdown(filled(page_of(*found) or "", root))
    elif found:
        rows = [f"vtrain help {name} — {title}" for name, title in found.items()]
        print_text("\n".join(rows[:MOST_PAGES]))
    else:
        hint = did_you_mean(word, root.list_commands(context), otherwise=_ALL_PAGES)
        raise UsageError(f"There is no command {word!r}, and no page about it.", hint=hint)


def _find(command: Any, context: Any, words: list[str]) -> tuple[Any, Any]:
    if not words:
        return command, context
    if not hasattr(command, "resolve_command"):
        raise UsageError(f"{context.command_path} has no commands.", hint=f"Found: {words[0]}")
    name, found, rest = command.resolve_command(context, words)
    return _find(found, found.context_class(found, info_name=name, parent=context), rest)


def _body(page: HelpPage) -> Iterator[str]:
    for text, command in page.examples:
        yield from (
            ".PP",
            _escaped(f"{text}:"),
            ".PP",
            ".RS 4",
            ".EX",
            f"$ {_escaped(command)}",
            ".EE",
            ".RE",
        )
    for section in page.sections:
        yield from (".PP", _bold(section.heading))
        yield from _rows([section])


def _rows(sections: Iterable[Section]) -> Iterator[str]:
    for section in sections:
        for row in section.rows:
            yield from (".TP", _bold(row.label), _escaped(row.text))


def _entries(texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Texts below their names, of which several may have one text."""
    for names, text in texts:
        yield from (".TP", "\n.TQ\n".join(map(_bold, names.split())), _escaped(text.replace("`", "")))


def _paragraphs(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from (".PP", _escaped(text))


def _bold(text: str) -> str:
    return rf"\fB{_escaped(text)}\fR"


def _escaped(text: str) -> str:
    """The text as roff takes it: a plain hyphen is drawn as another character, a first dot is a request."""
    plain = text.replace("\\", r"\e").replace("-", r"\-").replace("…", r"\[u2026]").replace('"', r"\(dq")
    return rf"\&{plain}" if plain.startswith((".", "'")) else plain
