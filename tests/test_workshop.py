"""The README, `.ci/run` and the noxfile say the same."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from docker_engines import BASE_IMAGE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
TEST_COMMAND = re.compile(r"^ *(python3 -m venv .*&& .venv/bin/nox)$", re.MULTILINE)

USUAL_SESSIONS = ("tests", "lint", "types", "docs")


def test_ci_runs_the_test_command_of_the_readme() -> None:
    (promised,) = set(TEST_COMMAND.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    assert TEST_COMMAND.findall((ROOT / ".ci" / "run").read_text(encoding="utf-8")) == [promised]


@pytest.mark.parametrize("script", sorted((ROOT / ".ci").iterdir()), ids=lambda path: path.name)
def test_ci_can_be_run(script: Path) -> None:
    assert script.stat().st_mode & 0o111
    if script.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash"):
        subprocess.run(["bash", "-n", script], check=True)
    else:
        ast.parse(script.read_text(encoding="utf-8"))


def test_ci_makes_what_the_docker_tests_need_and_lets_none_be_skipped() -> None:
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    steps = [".ci/start-engine", ".ci/make-base-image", ".ci/install-registry", "VTRAIN_REQUIRE_DOCKER=1"]
    positions = [run.index(step) for step in (*steps, ".venv/bin/nox")]
    assert positions == sorted(positions)
    assert f"image=${{1:-{BASE_IMAGE}}}" in (ROOT / ".ci" / "make-base-image").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def noxfile() -> ast.Module:
    return ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))


def constant(noxfile: ast.Module, name: str) -> Any:
    """The value of a constant of the noxfile."""
    assignments = (node for node in noxfile.body if isinstance(node, ast.Assign))
    (value,) = (node.value for node in assignments if ast.unparse(node.targets[0]) == name)
    return ast.literal_eval(value)


def sessions(noxfile: ast.Module) -> dict[str, set[str]]:
    """Each session's name, and the texts that its function holds."""
    functions = (node for node in noxfile.body if isinstance(node, ast.FunctionDef) and node.decorator_list)
    return {
        node.name: {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
        for node in functions
    }


def test_ci_runs_every_session_that_needs_nothing_of_ones_own(noxfile: ast.Module) -> None:
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (named,) = re.findall(r"^\.venv/bin/nox -s (.+)$", run, re.MULTILINE)
    by_hand = {"live", "gpu", "mutants"}
    assert set(named.split()) | set(USUAL_SESSIONS) | by_hand == sessions(noxfile).keys()
    assert f"nox.options.sessions = {list(USUAL_SESSIONS)}" in ast.unparse(noxfile)


def test_each_marker_is_run_by_the_usual_session_or_by_its_own(noxfile: ast.Module) -> None:
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    markers = [line.partition(":") for line in configured["tool"]["pytest"]["ini_options"]["markers"]]
    alone = {name for name, _, text in markers if f"(nox -s {name})" in text}
    assert set(constant(noxfile, "OWN_SESSION")) == alone
    for name in alone:
        assert {"-m", name} <= sessions(noxfile)[name]


def test_the_closing_table_tells_results_skips_and_tests_that_were_run_again(tmp_path: Path) -> None:
    """A run of pytest that skips one test and repeats another, as `.ci/run` has it reported."""
    (tmp_path / "test_it.py").write_text(
        "import pytest\nTRIES = []\n\n"
        "def test_a():\n    pytest.skip('no crystal ball')\n\n"
        "def test_b():\n    TRIES.append(1)\n    assert len(TRIES) == 2\n"
    )
    reports = tmp_path / "reports"
    reports.mkdir()
    usual = {"name": "tests", "result": "success", "duration": 61.2, "reason": None}
    torch = {"name": "torch", "result": "skipped", "duration": 0.1, "reason": "no wheel"}
    (reports / "nox-1.json").write_text(json.dumps({"result": 1, "sessions": [usual, torch]}))
    environ = os.environ | {"VTRAIN_CI_REPORTS": str(reports), "PYTHONPATH": str(ROOT / "tests")}
    argv = [sys.executable, "-m", "pytest", "-p", "ci_report", "--reruns=1", "-p", "no:cacheprovider", "."]
    pytest_run = subprocess.run(argv, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert pytest_run.returncode == 0, pytest_run.stdout
    table = subprocess.check_output([sys.executable, ROOT / ".ci/closing-table", reports], text=True)
    assert "tests            61  success\ntorch             0  skipped: no wheel\n" in table
    assert "Skipped tests: 1\n     1  no crystal ball\n" in table
    assert "Tests that were run again: 1\n     1  test_it.py::test_b\n" in table
