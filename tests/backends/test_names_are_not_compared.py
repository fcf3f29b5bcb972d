"""A backend answers for itself: outside `vtrain.backends` the code compares no backend's name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import vtrain
from vtrain.backends.registry import NAMES

ROOT = Path(vtrain.__file__).parent
FREE_TO_COMPARE = (ROOT / "backends", ROOT / "settings.py", ROOT / "containers")
"""The backends themselves, the choice of one where the command line names none, and Docker's own client."""


def compared(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The texts that are compared, or looked up in a table, and their lines."""
    for node in ast.walk(tree):
        parts: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.match_case):
            parts = [node.pattern]
        elif isinstance(node, ast.Dict):
            parts = [key for key in node.keys if key is not None]
        for part in parts:
            for inner in ast.walk(part):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    yield inner.lineno, inner.value


def test_no_command_flag_or_workflow_compares_a_name() -> None:
    files = [file for file in ROOT.rglob("*.py") if not any(map(file.is_relative_to, FREE_TO_COMPARE))]
    assert len(files) > 100
    found = [
        f"{file}:{line}: {text!r}"
        for file in files
        for line, text in compared(ast.parse(file.read_text(encoding="utf-8")))
        if text in NAMES
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "code",
    [
        'session.backend_name != "docker"',
        'name in ("process", "docker")',
        'LAUNCHERS = {"process": None}',
        'match name:\n    case "vertex":\n        pass',
    ],
)
def test_the_check_sees_what_it_is_to_refuse(code: str) -> None:
    assert {text for _, text in compared(ast.parse(code))} & set(NAMES)
