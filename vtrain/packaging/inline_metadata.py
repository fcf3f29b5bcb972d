"""Dependencies that a script names in its own comments (PEP 723), as `uv run` and pipx install them."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

from vtrain.packaging.module_imports import LARGEST_SOURCE
from vtrain.project_names import distribution_name
from vtrain.toml_reader import load_toml

_START, _END = "# /// script", "# ///"


def has_inline_metadata(script: Path) -> bool:
    """Whether a line of a script begins a block of metadata, in a file of usual size."""
    try:
        with script.open("rb") as file:
            return _START.encode() in file.read(LARGEST_SOURCE).splitlines()
    except OSError:  # which is an error where the script is read
        return False


def inline_dependencies(text: str) -> tuple[str, ...]:
    """The dependencies in a script's text; () without a block of metadata, or with one that is damaged."""
    lines = iter(text.splitlines())
    if _START not in lines:
        return ()
    block = list(takewhile(lambda line: line == "#" or line.startswith("# "), lines))
    while block and block[-1] != _END:
        block.pop()
    try:
        dependencies = load_toml("\n".join(line[2:] for line in block[:-1])).get("dependencies")
    except (ValueError, RecursionError):
        return ()
    named = dependencies if isinstance(dependencies, list) else []
    return tuple(each for each in named if isinstance(each, str) and distribution_name(each))
