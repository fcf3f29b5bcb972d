"""The README, `.ci/run` and the noxfile say the same."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEST_COMMAND = re.compile(r"^ *(python3 -m venv .*&& .venv/bin/nox)$", re.MULTILINE)


def test_ci_runs_the_test_command_of_the_readme() -> None:
    (promised,) = set(TEST_COMMAND.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    assert TEST_COMMAND.findall((ROOT / ".ci" / "run").read_text(encoding="utf-8")) == [promised]


def test_ci_can_be_run() -> None:
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_the_sessions_that_ci_names_are_there() -> None:
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    sessions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) if node.decorator_list}
    named = re.findall(r"nox -s (.+)", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert {name for line in named for name in line.split()} <= sessions
