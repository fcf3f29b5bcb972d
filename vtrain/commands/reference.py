"""The parts of the documentation that the program writes: commands, exit codes, keys, variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from vtrain import errors
from vtrain.flags.command import Invocation, common_flags
from vtrain.flags.help_page import HelpPage, Section, common_page
from vtrain.flags.variables import VARIABLES
from vtrain.pyproject import FLAGS, ProjectJob, ProjectSettings

PLACE = re.compile(r"^<!-- from the program: (.+) -->$", re.MULTILINE)


def filled(page: str, root: Any) -> str:
    """A page in Markdown, with what its lines `<!-- from the program: NAME -->` stand for."""
    made: dict[str, Callable[[Any], Iterable[str]]] = {
        "commands": _commands,
        "exit codes": lambda _root: _table(("exit code", "meaning"), exit_codes()),
        "[tool.vtrain]": _settings,
        "[tool.vtrain.job]": _job,
        "variables": _variables,
    }
    return PLACE.sub(lambda place: "\n".join(made[place[1]](root)), page)


def pages_below(command: Any, context: Any) -> Iterator[HelpPage]:
    """The page of a command, and those of the commands below it."""
    yield command.page(context)
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        below = command.get_command(context, name)
        yield from pages_below(below, below.context_class(below, info_name=name, parent=context))


def exit_codes() -> list[tuple[str, str]]:
    """Each exit code and its meaning, which the classes of errors have."""
    found: dict[int, str] = {0: "success"}
    waiting = [errors.VtrainError]
    while waiting:
        cls = waiting.pop(0)
        found.setdefault(cls.exit_code, cls.meaning)
        waiting += [child for child in cls.__subclasses__() if child.__module__ == errors.__name__]
    return [(str(code), meaning) for code, meaning in sorted(found.items())]


def _variables(_root: Any) -> Iterator[str]:
    rows = ((", ".join(f"`{name}`" for name in names.split()), text) for names, text in VARIABLES.items())
    return _table(("variable", "meaning"), rows)


def _settings(_root: Any) -> Iterator[str]:
    rows = []
    for key, text in _keys(ProjectSettings):
        variable = f"VTRAIN_{key.replace('-', '_').upper()}"
        rows.append((f"`{key}`", text, f"`{variable}`" if variable in VARIABLES else ""))
    return _table(("key", "meaning", "variable"), rows)


def _job(root: Any) -> Iterator[str]:
    """Keys with the flag that wins over each, of the same name or of another."""
    command = root.get_command(root.context_class(root, obj=Invocation()), "run")
    flags = {name[2:] for param in command.params for name in param.opts if name.startswith("--")}
    named = {key: flag for flag, key in reversed(FLAGS.items())} | {flag: flag for flag in flags}
    rows = [
        (f"`{key}`", text, f"`--{named[key]}`" if key in named else "") for key, text in _keys(ProjectJob)
    ]
    return _table(("key", "meaning", "flag"), rows)


def _keys(table: type[msgspec.Struct]) -> Iterator[tuple[str, str]]:
    for key, schema in msgspec.json.schema(table)["$defs"][table.__name__]["properties"].items():
        yield key, schema["description"].rstrip(".")


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    for cells in (heads, ("---",) * len(heads), *rows):
        yield f"| {' | '.join(cells)} |"


def _commands(root: Any) -> Iterator[str]:
    """The help of every command. Flags that several commands share stand with the first."""
    _all, *pages = pages_below(root, root.context_class(root, info_name="vtrain", obj=Invocation()))
    pages.sort(key=lambda page: page.is_group or len(page.title.split()) > 2)  # the short commands come first
    pages.append(msgspec.structs.replace(common_page(common_flags()), title="Common flags"))
    shown: dict[Section, str] = {}
    for page in pages:
        yield from _command(page, shown)


def _command(page: HelpPage, shown: dict[Section, str]) -> Iterator[str]:
    yield f"\n## {page.title}\n\n```text\n{page.usage}\n```\n"
    yield "\n\n".join(map(_text, page.texts)) + "\n"
    if page.examples:
        yield "```text"
        for text, command in page.examples:
            yield from filter(None, (text and f"# {text}", f"$ {command}"))
        yield "```\n"
    for section in page.sections:
        if first := shown.get(section):
            yield f"**{section.heading}**: as of [{first}](#{first.replace(' ', '-')}).\n"
            continue
        shown[section] = page.title
        yield from _table(
            (section.heading, ""), ((f"`{row.label}`", _text(row.text)) for row in section.rows)
        )
        yield ""


def _text(text: str) -> str:
    """Words of a terminal as Markdown: what it would take for markup is escaped."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", text)
