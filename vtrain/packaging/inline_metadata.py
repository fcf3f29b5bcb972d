"""Dependencies that a script names in its own comments (PEP 723), as `uv run` and pipx install them."""

from __future__ import annotations

from itertools import takewhile

from vtrain.project_names import distribution_name
from vtrain.toml_reader import load_toml

_START, _END = "# /// script", "# ///"


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
