"""Google Cloud as the pages about it need it, on loopback: services that answer, machines that run jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lib.logging_service import LoggingService, serve_logs, written
from lib.storage_service import storage_service
from lib.vertex_service import VertexService, serve_vertex

BUCKET = "my-bucket"
PROJECTS = {"default": "my-project", "work": "our-project"}
"""The projects of gcloud's named configurations."""
LINES = ("1437 scans to learn from, 360 held out", "accuracy 0.97 on held-out scans")
"""What every job says."""
FAILING = "broken"
"""The display name of jobs that fail."""
AGE = 60.0
"""Seconds ago that every job ended, so that nobody waits for lines that may be late."""


@contextmanager
def google_cloud(home: Path) -> Iterator[dict[str, str]]:
    """The environment of a shell in which these services are taken for Google's; a bucket is there."""
    (home / "buckets" / BUCKET).mkdir(parents=True)
    _configure(home / "gcloud")
    with (
        serve_vertex() as vertex,
        serve_logs() as logs,
        storage_service(home) as storage,
        _machines(vertex, logs),
    ):
        yield {
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM": vertex.url,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": logs.url,
            "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
            "CLOUDSDK_CONFIG": str(home / "gcloud"),
            "STORAGE_EMULATOR_HOST": storage.url,
        }


def _configure(folder: Path) -> None:
    """What `gcloud config set` writes."""
    (folder / "configurations").mkdir(parents=True)
    (folder / "active_config").write_text("default")
    for name, project in PROJECTS.items():
        text = f"[core]\nproject = {project}\n\n[ai]\nregion = us-central1\n"
        (folder / "configurations" / f"config_{name}").write_text(text)


@contextmanager
def _machines(vertex: VertexService, logs: LoggingService) -> Iterator[None]:
    """Run what is created, until the block ends."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.05):
            for name in list(vertex.resources):
                _advance(name, vertex, logs)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _advance(name: str, vertex: VertexService, logs: LoggingService) -> None:
    vertex.move(name, "PROVISIONING", state="RUNNING")
    resource = vertex.resources[name]
    if resource["state"] == "JOB_STATE_PENDING":
        for line in LINES:
            logs.write(line, age=AGE, job=name.rpartition("/")[2], severity="INFO")
        ending = _ending(resource["displayName"])
        vertex.move(name, "JOB_STATE_PENDING", endTime=written(time.time() - AGE), **ending)


def _ending(display_name: str) -> dict[str, Any]:
    if display_name != FAILING:
        return {"state": "JOB_STATE_SUCCEEDED"}
    message = "The replica workerpool0-0 exited with a non-zero status of 1. Termination reason: Error."
    return {"state": "JOB_STATE_FAILED", "error": {"code": 3, "message": message}}
