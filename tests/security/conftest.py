"""A trainer that tells what it sees, and a service that records what it is sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.vertex_service import VertexService, serve_vertex

TRAINER = """
import json, os, sys
seen = {"env": dict(os.environ), "argv": sys.argv[1:]}
if file := os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
    seen |= {"credentials": open(file).read(), "mode": oct(os.stat(file).st_mode & 0o777)}
print(json.dumps({"message": "seen", **seen}))
if "fail" in sys.argv:
    raise ValueError("the password is " + os.environ["DB_PASSWORD"])
"""


@pytest.fixture
def trainer(tmp_path: Path) -> Path:
    """A folder with the module `trainer.task`, which prints its environment."""
    file = tmp_path / "source" / "trainer" / "task.py"
    file.parent.mkdir(parents=True)
    file.write_text(TRAINER)
    return file.parents[1]


@pytest.fixture
def vertex(monkeypatch: pytest.MonkeyPatch) -> Iterator[VertexService]:
    """The emulator behind a wire, where command lines go without `--backend`."""
    pytest.importorskip("google.cloud.aiplatform_v1.gapic_version", reason="needs the extra vertex")
    with serve_vertex() as service:
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", service.url)
        monkeypatch.setenv("CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "true")
        monkeypatch.setenv("CLOUDSDK_CORE_PROJECT", "demo")
        monkeypatch.setenv("CLOUDSDK_AI_REGION", "us-central1")
        yield service
