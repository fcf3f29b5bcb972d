"""Tests share through tests/lib: one way to wait, one fixture of a name, no import from another test."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
MODULES = {path: ast.parse(path.read_bytes()) for path in sorted(TESTS.rglob("*.py"))}
LIB = TESTS / "lib"
CLOCKS = ("time.monotonic", "time.time", "monotonic")


def fixtures(path: Path) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(MODULES[path]):
        if isinstance(node, ast.FunctionDef) and "fixture" in "".join(map(ast.unparse, node.decorator_list)):
            yield node


def place(path: Path, node: ast.stmt) -> str:
    return f"{path.relative_to(TESTS)}:{node.lineno}"


def deadline_loops(tree: ast.AST) -> Iterator[ast.While]:
    for node in ast.walk(tree):
        if isinstance(node, ast.While):
            called = [ast.unparse(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)]
            if set(called) & {*CLOCKS}:
                yield node


def test_no_test_waits_in_a_loop_of_its_own() -> None:
    found = [
        place(path, loop)
        for path, tree in MODULES.items()
        if LIB not in path.parents
        for loop in deadline_loops(tree)
    ]
    assert found == [], "take lib.waiting.wait_until"


def test_no_test_module_imports_another() -> None:
    found = [
        place(path, node)
        for path, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (getattr(node, "module", None) or "", *(alias.name for alias in node.names))
        if name.rpartition(".")[2].startswith("test_")
    ]
    assert found == [], "put what both need into tests/lib, or into a module beside them"


def test_no_fixture_stands_twice() -> None:
    """Two modules may have fixtures of one name, which make different things for them alone."""
    bodies = defaultdict(list)
    for path in MODULES:
        for node in fixtures(path):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            bodies[node.name, "\n".join(map(ast.unparse, body))].append(place(path, node))
    assert [places for places in bodies.values() if len(places) > 1] == []


def test_no_fixture_hides_another() -> None:
    shared = {
        path: {node.name for node in fixtures(path)}
        for path in MODULES
        if path.name == "conftest.py" or path.parent == LIB
    }
    found = [
        f"{place(path, node)} {node.name}"
        for path in MODULES
        for node in fixtures(path)
        for other, names in shared.items()
        if other != path and node.name in names
        if other.parent == LIB or other.parent in path.parents
    ]
    assert found == [], found


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("while not reached():\n    assert time.monotonic() < deadline\n    time.sleep(1)", True),
        ("while time.time() < end:\n    pass", True),
        ("while not reached():\n    wait()", False),
    ],
)
def test_a_deadline_loop_is_found(text: str, is_one: bool) -> None:
    assert bool([*deadline_loops(ast.parse(text))]) is is_one
