"""The page about the storage emulator: its Python, and its gcloud, against a service that runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.storage_service import StorageEndpoint, storage_service
from snippets import ROOT, blocks, clean_environ

for module in ("uvicorn", "google.cloud.storage"):
    pytest.importorskip(module)

PAGE = ROOT / "docs" / "how-to" / "data-and-buckets.md"


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[StorageEndpoint]:
    """A service with no buckets."""
    with storage_service(tmp_path) as running:
        yield running


def run(argv: list[str], text: str, endpoint: StorageEndpoint, **variables: str) -> str:
    """A block's text as a program's input; what it prints."""
    environ = clean_environ(STORAGE_EMULATOR_HOST=endpoint.url, **variables)
    ended = subprocess.run(
        argv, input=text, env=environ, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_client_librarys_block(endpoint: StorageEndpoint) -> None:
    (block,) = (block for block in blocks(PAGE) if block.language == "python" and not block.note)
    assert run([sys.executable, "-"], block.text, endpoint).startswith("digits/labels.txt 9 ")
    assert (endpoint.buckets / "models" / "digits" / "labels.txt").read_text() == "zero\none\n"


def test_a_trainers_block(endpoint: StorageEndpoint) -> None:
    (block,) = (block for block in blocks(PAGE) if block.note == "trainer")
    (endpoint.buckets / "models").mkdir(parents=True)
    run([sys.executable, "-"], block.text, endpoint, AIP_MODEL_DIR="gs://models/7/model/")
    assert (endpoint.buckets / "models/7/model/model.bin").read_bytes() == b"weights"


@pytest.mark.gcloud
def test_gclouds_block(endpoint: StorageEndpoint) -> None:
    (block,) = (block for block in blocks(PAGE) if block.note == "gcloud")
    printed = run(["bash", "-e"], block.text, endpoint, TMPDIR=str(endpoint.home))
    assert printed == "gs://datasets/code/train.py\n"
