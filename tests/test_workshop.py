"""The README, `.ci/run` and the noxfile say the same."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest
from docker_engines import BASE_IMAGE

ROOT = Path(__file__).parents[1]
TEST_COMMAND = re.compile(r"^ *(python3 -m venv .*&& .venv/bin/nox)$", re.MULTILINE)


def test_ci_runs_the_test_command_of_the_readme() -> None:
    (promised,) = set(TEST_COMMAND.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    assert TEST_COMMAND.findall((ROOT / ".ci" / "run").read_text(encoding="utf-8")) == [promised]


@pytest.mark.parametrize("script", sorted((ROOT / ".ci").iterdir()), ids=lambda path: path.name)
def test_ci_can_be_run(script: Path) -> None:
    assert script.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", script], check=True)


def test_ci_makes_what_the_docker_tests_need_and_lets_none_be_skipped() -> None:
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    steps = [".ci/start-engine", ".ci/make-base-image", ".ci/install-registry", "VTRAIN_REQUIRE_DOCKER=1"]
    positions = [run.index(step) for step in (*steps, ".venv/bin/nox")]
    assert positions == sorted(positions)
    assert f"image=${{1:-{BASE_IMAGE}}}" in (ROOT / ".ci" / "make-base-image").read_text(encoding="utf-8")


def test_the_sessions_that_ci_names_are_there() -> None:
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    sessions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) if node.decorator_list}
    named = re.findall(r"nox -s (.+)", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert {name for line in named for name in line.split()} <= sessions


def test_what_has_a_session_of_its_own_is_not_in_the_usual_one() -> None:
    noxfile = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    alone = re.findall(r'"-m", "(\w+)"', noxfile)
    assert f'USUAL = "{" and ".join(f"not {marker}" for marker in alone)}"' in noxfile
