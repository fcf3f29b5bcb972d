"""Hooks of mkdocs: the pages lie beside mkdocs.yml, and the page of commands is made of their help."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from vtrain.cli import command_alone
from vtrain.commands.help import pages_below
from vtrain.flags.command import Invocation, common_flags
from vtrain.flags.help_page import HelpPage, Section, common_page

COMMANDS = "reference/commands.md"


def on_config(config: Any) -> Any:
    """Read pages from the folder in which mkdocs.yml lies.

    mkdocs refuses the folder of its own configuration as `docs_dir`, for fear of publishing the
    configuration; `exclude_docs` keeps that out.
    """
    config.docs_dir = str(Path(config.config_file_path).parent)
    return config


def on_page_markdown(markdown: str, *, page: Any, **_others: Any) -> str:
    """The page of commands, with what `vtrain help COMMAND` prints."""
    return f"{markdown}\n{commands()}" if page.file.src_uri == COMMANDS else markdown


def commands() -> str:
    """The help of every command in Markdown. Flags that several commands share stand with the first."""
    root = command_alone("help").fixed["make_root"]()
    _all, *pages = pages_below(root, root.context_class(root, info_name="vtrain", obj=Invocation()))
    pages.sort(key=lambda page: page.is_group or len(page.title.split()) > 2)  # the short commands come first
    pages.append(replace(common_page(common_flags()[0]), title="Common flags"))
    shown: dict[Section, str] = {}
    return "\n".join(line for page in pages for line in _lines(page, shown))


def _lines(page: HelpPage, shown: dict[Section, str]) -> Iterator[str]:
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
        yield f"**{section.heading}**\n\n| | |\n|---|---|"
        yield from (f"| `{row.label}` | {_text(row.text)} |" for row in section.rows)
        yield ""


def _text(text: str) -> str:
    """Words of a terminal as Markdown: what it would take for markup is escaped."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", text)
