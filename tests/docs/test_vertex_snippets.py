"""The snippets that send jobs to Vertex AI, against services on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from google_cloud import google_cloud
from snippets import ROOT, Checkout, commands, run_all

for module in ("google.cloud.aiplatform_v1.gapic_version", "google.cloud.storage", "uvicorn"):
    pytest.importorskip(module)

VERTEX = "vertex"
PAGES = [
    ROOT / "docs/tutorial/pytorch-on-vertex.md",
    ROOT / "docs/how-to/move-from-gcloud.md",
    ROOT / "docs/how-to/run-on-vertex.md",
    ROOT / "docs/how-to/tune.md",
]


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a shell that reaches them."""
    with google_cloud(tmp_path / "cloud") as environ:
        yield environ


@pytest.mark.pages
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_snippets_that_need_google_cloud(page: Path, checkout: Checkout, cloud: dict[str, str]) -> None:
    """All of a page, one after the other in one shell."""
    run_all(commands(page, notes=(VERTEX,)), checkout.folder, checkout.environ | cloud)


def test_every_block_that_needs_google_cloud_runs() -> None:
    noted = {
        page
        for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        if commands(page, notes=(VERTEX,))
    }
    assert noted == set(PAGES)
