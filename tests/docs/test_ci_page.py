"""The snippets of docs/how-to/ci.md: they parse, and what they run works in a clone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from snippets import ROOT, Checkout, Command, blocks, run_all

PAGE = ROOT / "docs" / "how-to" / "ci.md"


def github_steps() -> list[str]:
    """The scripts of the workflow, in order."""
    workflow = yaml.safe_load(_block("yaml", 0))
    (job,) = workflow["jobs"].values()
    return [step["run"] for step in job["steps"] if "run" in step]


def gitlab_steps() -> list[str]:
    (job,) = yaml.safe_load(_block("yaml", 1)).values()
    script: list[str] = job["script"]
    return script


def _block(language: str, index: int) -> str:
    return [block for block in blocks(PAGE) if block.language == language][index].text


def test_steps_of_the_workflow_say_what_they_do() -> None:
    workflow = yaml.safe_load(_block("yaml", 0))
    (job,) = workflow["jobs"].values()
    assert all(("uses" in step) != ("run" in step) for step in job["steps"])
    assert job["env"]["VTRAIN_HOME"].endswith("/.vtrain")


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_makefile_parses(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(_block("make", 0))
    plan = subprocess.run(["make", "-n"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "vtrain run" in plan.stdout


@pytest.mark.readme
@pytest.mark.timeout(1800)
def test_every_snippet_works_in_a_clone(clone: Checkout) -> None:
    """One after the other, so that vtrain is installed once."""
    environ = clone.environ | {"CI": "true"}
    run_all([Command(step, None, 0) for step in github_steps()], clone.folder, environ)
    _forget_output(clone.folder)
    run_all([Command(step, None, 0) for step in gitlab_steps()], clone.folder, environ)
    _forget_output(clone.folder)
    (clone.folder / "Makefile").write_text(_block("make", 0))
    run_all([Command("make", None, 0)], clone.folder, environ)
    assert (clone.folder / "output/model/metrics.json").exists()


def _forget_output(folder: Path) -> None:
    for file in (folder / "output/model").iterdir():
        file.unlink()
