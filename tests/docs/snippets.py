"""Takes the shell snippets out of a page, and runs them as a reader would who pastes them one by one.

    ```sh         commands, run as they stand; each block has to end with 0
    ```console    `$ command` lines, each followed by what it prints; `…` stands for anything in a
                  line, and alone for any number of lines. A command may fail when `$ echo $?` follows.

A comment `<!-- test: … -->` right above a block is a note to the test about it.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]

PUBLIC_IMAGE = "python:3.11-slim"
"""The image of the pages' containers. Tests reach no registry, and have an image of their own for it."""
_FENCE = re.compile(r"```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NOTE = re.compile(r"<!-- test: (.*?) -->\n\Z")
_MARK = "@@ command {number} ended with {code} @@"
_MARKED = re.compile(r"(.*?)@@ command \d+ ended with (\d+) @@\n", re.DOTALL)


class Checkout(NamedTuple):
    """A copy of the project, and the environment of a shell in it."""

    folder: Path
    environ: dict[str, str]


class Block(NamedTuple):
    """A fenced block of a page. `line` is that of its first line in the page."""

    language: str
    text: str
    note: str
    line: int


class Command(NamedTuple):
    """A command of a page, and what it is to print; None where the page does not say."""

    text: str
    expected: str | None
    line: int


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        note = _NOTE.search(text[: match.start()])
        line = text.count("\n", 0, match.start()) + 2
        found.append(Block(match[1], match[2], note[1] if note else "", line))
    return found


def commands(
    page: Path, *, skipped_notes: tuple[str, ...] = (), notes: tuple[str, ...] | None = None
) -> list[Command]:
    """The commands of a page, in order: of the blocks with one of these notes, or of all but some."""
    chosen = [
        block
        for block in blocks(page)
        if block.note not in skipped_notes and (notes is None or block.note in notes)
    ]
    return [command for block in chosen for command in _commands_of(block)]


def in_image(command: Command, image: str) -> Command:
    """The command with an image that is here, in the place of the one that readers pull."""
    expected = command.expected and command.expected.replace(PUBLIC_IMAGE, image)
    return command._replace(text=command.text.replace(PUBLIC_IMAGE, image), expected=expected)


def _commands_of(block: Block) -> Iterator[Command]:
    if block.language == "sh":
        yield Command(block.text, None, block.line)
    if block.language == "console":
        parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
        assert parts[0] == "", f"line {block.line}: a console block begins with a command"
        line = block.line
        for part in parts[1:]:
            text, _, expected = part.partition("\n")
            yield Command(text, expected, line)
            line += part.count("\n")


def run_all(page_commands: list[Command], folder: Path, environ: dict[str, str]) -> None:
    """Run commands in one shell and compare; raises AssertionError with the line of the page."""
    script = "".join(_with_mark(number, command.text) for number, command in enumerate(page_commands))
    shell = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    output = shell.stdout.decode("utf-8", "replace")
    results = _MARKED.findall(output)
    assert len(results) == len(page_commands), f"the shell ended early:\n{output}"
    followers = [*page_commands, None][1:]
    for command, follower, (printed, code) in zip(page_commands, followers, results, strict=True):
        if follower is None or follower.text != "echo $?":
            assert code == "0", f"line {command.line}: `{command.text.strip()}` ended with {code}:\n{printed}"
        if command.expected is not None:
            compare(command, printed)


def _with_mark(number: int, text: str) -> str:
    mark = _MARK.format(number=number, code="$__code")
    return f'{text.rstrip()}\n__code=$?; echo "{mark}"; (exit $__code)\n'


def compare(command: Command, printed: str) -> None:
    """Raise AssertionError unless a command printed what its page says."""
    assert command.expected is not None
    lines = command.expected.splitlines()
    pattern = "".join(r"(?:.*\n)*?" if line == "…" else _line_pattern(line) for line in lines)
    assert re.fullmatch(pattern, printed), (
        f"line {command.line}: `{command.text}` should print\n{command.expected}\nand prints\n{printed}"
    )


def _line_pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split("…")) + "\n"


def clean_environ(**changes: str) -> dict[str, str]:
    """This process's environment, without what would let a snippet find more than a reader's shell has."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "PYTEST_", "COVERAGE_")
    return {name: value for name, value in os.environ.items() if not name.startswith(hidden)} | changes
