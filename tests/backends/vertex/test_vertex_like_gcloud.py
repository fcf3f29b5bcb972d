"""The backend's requests beside those of the real gcloud."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from lib.vertex_jobs import CLUSTER, CUSTOM_JOB, PARENT
from lib.vertex_service import VertexService

from vtrain.backends import Query
from vtrain.backends.vertex.vertex_backend import VertexBackend

JOB = f"{PARENT}/customJobs/1"
RESOURCE = f"{PARENT}/persistentResources/p"
POOL = "machine-type=n1-standard-4"

pytestmark = pytest.mark.gcloud


@pytest.mark.parametrize(
    ("line", "verb"),
    [
        (
            [
                "custom-jobs",
                "create",
                "--display-name=train",
                f"--worker-pool-spec={POOL},container-image-uri=gcr.io/demo/image",
            ],
            lambda backend: backend.submit(backend.plan(CUSTOM_JOB)),
        ),
        (["custom-jobs", "describe", "1"], lambda backend: backend.get(JOB)),
        (["custom-jobs", "cancel", "1"], lambda backend: backend.cancel(JOB)),
        (["custom-jobs", "list"], lambda backend: backend.list(Query(project="demo"))),
        (
            [
                "persistent-resources",
                "create",
                "--persistent-resource-id=c",
                f"--resource-pool-spec={POOL},replica-count=2,disk-type=pd-ssd,disk-size=100",
            ],
            lambda backend: backend.create_resource("c", CLUSTER, {}),
        ),
        (["persistent-resources", "reboot", "p"], lambda backend: backend.reboot_resource(RESOURCE)),
        (["persistent-resources", "delete", "p"], lambda backend: backend.delete_resource(RESOURCE)),
    ],
    ids=["create", "describe", "cancel", "list", "create-resource", "reboot", "delete"],
)
def test_the_same_request(
    vertex: VertexService, backend: VertexBackend, tmp_path: Path, line: list[str], verb: Any
) -> None:
    environment = {
        **os.environ,
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_PROJECT": "demo",
        "CLOUDSDK_AI_REGION": "us-central1",
    }
    sent = []
    for ask in (lambda: gcloud(line, environment), lambda: verb(backend)):
        vertex.resources.clear()
        vertex.requests.clear()
        vertex.put(JOB, state="JOB_STATE_RUNNING")
        vertex.put(RESOURCE, state="RUNNING")
        ask()
        sent.append([(r.method, r.path, r.query, r.body) for r in vertex.requests])
    assert sent[0] == sent[1]
    assert len(sent[0]) == 1


def gcloud(line: list[str], environment: dict[str, str]) -> None:
    """One line of gcloud that succeeds."""
    subprocess.run(["gcloud", "ai", *line], env=environment, check=True, capture_output=True)
