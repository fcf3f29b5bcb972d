"""The fixture of docs/how-to/ci.md serves a test of Google's library, and its workflow parses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from snippets import ROOT, Checkout, blocks

PAGE = ROOT / "docs" / "how-to" / "ci.md"
PROGRAM = """
def test_a_job_is_listed():
    from google.cloud import aiplatform

    aiplatform.init(project="demo", location="us-central1", staging_bucket="gs://stage")
    assert aiplatform.CustomJob.list() == []
"""


def test_the_workflow_runs_tests_with_an_emulator() -> None:
    *_others, block = (block for block in blocks(PAGE) if block.language == "yaml")
    (job,) = yaml.safe_load(block.text)["jobs"].values()
    assert "emulator exec" in job["steps"][-1]["run"]


@pytest.mark.pages
def test_the_fixture_serves_a_test(checkout: Checkout, tmp_path: Path) -> None:
    for module in ("uvicorn", "grpc", "google.cloud.aiplatform"):
        pytest.importorskip(module)
    (block,) = (block for block in blocks(PAGE) if block.language == "python")
    (tmp_path / "conftest.py").write_text(block.text)
    (tmp_path / "test_program.py").write_text(PROGRAM)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "test_program.py")]
    ended = subprocess.run(
        argv, cwd=tmp_path, env=checkout.environ, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
