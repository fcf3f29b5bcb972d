"""Where these tests run: on Vertex AI itself (`nox -s live`), or rehearsed on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from lib.logging_service import serve_logs
from lib.vertex_service import serve_vertex
from live_place import Place
from live_stage import Stage

from vtrain.backends import BackendSettings

CALLER = dict(os.environ)
"""The environment before a test has changed it: with the credentials of whoever runs the tests."""
OWN = ("HOME", "GOOGLE_APPLICATION_CREDENTIALS", "GCE_METADATA_HOST", "REQUESTS_CA_BUNDLE")
HINT = (
    "set VTRAIN_LIVE_PROJECT=PROJECT_ID, VTRAIN_LIVE_BUCKET=gs://BUCKET (and VTRAIN_LIVE_REGION) to your own"
)

if find_spec("google") is None or find_spec("google.cloud.aiplatform_v1") is None:
    collect_ignore_glob = ["test_*.py"]  # they need the extra vertex


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of the contract that are not meant for a service: they are none of these."""
    dear = [item for item in items if _is_dear(item)]
    config.hook.pytest_deselected(items=dear)
    items[:] = [item for item in items if item not in dear]


def _is_dear(item: pytest.Item) -> bool:
    cheap = getattr(getattr(item, "cls", None), "CHEAP", None)
    return cheap is not None and getattr(item, "originalname", "") not in cheap


@pytest.fixture(
    params=[
        "rehearsal",
        pytest.param("live", marks=[pytest.mark.live, pytest.mark.network, pytest.mark.timeout(7200)]),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """The service itself, with the caller's credentials; or the emulator, with a stage that runs its jobs."""
    if request.param == "live":
        yield _on_the_service(tmp_path, monkeypatch)
        return
    with serve_vertex() as service, serve_logs() as logs, Stage(service, logs, tmp_path):
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", service.url)
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING", logs.url)
        monkeypatch.setenv("CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "true")
        yield _place(
            tmp_path,
            "demo",
            "us-central1",
            "gs://demo-bucket",
            monkeypatch,
            patience=60.0,
            pause=0.05,
            linger=0.2,
        )


def _on_the_service(home: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    project, bucket = CALLER.get("VTRAIN_LIVE_PROJECT", ""), CALLER.get("VTRAIN_LIVE_BUCKET", "")
    if not (project and bucket):
        pytest.skip(HINT)
    for name in (*OWN, *(name for name in CALLER if name.startswith("CLOUDSDK_"))):
        monkeypatch.delenv(name, raising=False)
        if name in CALLER:
            monkeypatch.setenv(name, CALLER[name])
    if "CLOUDSDK_CONFIG" not in CALLER:
        monkeypatch.delenv("CLOUDSDK_CONFIG", raising=False)
    region = CALLER.get("VTRAIN_LIVE_REGION") or "us-central1"
    return _place(
        home, project, region, bucket.rstrip("/"), monkeypatch, patience=3600.0, pause=15.0, linger=120.0
    )


def _place(
    home: Path,
    project: str,
    region: str,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    patience: float,
    pause: float,
    linger: float,
) -> Place:
    monkeypatch.setenv("CLOUDSDK_CORE_PROJECT", project)
    monkeypatch.setenv("CLOUDSDK_AI_REGION", region)
    settings = BackendSettings(home=home / "home", project=project, region=region)
    return Place(settings=settings, bucket=bucket, patience=patience, pause=pause, linger=linger)
