"""Cloud Storage on loopback with a relay in front, and buckets that speak to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lib.storage_relay import QUICK, StorageRelay, storage_relay
from lib.storage_service import StorageEndpoint, storage_service

from vtrain.staging.cloud import CloudBuckets


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[StorageEndpoint]:
    pytest.importorskip("google.cloud.storage")
    pytest.importorskip("uvicorn")
    with storage_service(tmp_path / "service") as endpoint:
        yield endpoint


@pytest.fixture
def relay(storage: StorageEndpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[StorageRelay]:
    with storage_relay(storage.url) as found:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", found.url)
        yield found


def no_credentials() -> object:
    raise AssertionError("an emulator needs no credentials")


@pytest.fixture
def cloud(relay: StorageRelay, make_bucket: Callable[..., None]) -> CloudBuckets:
    """Buckets for jobs of us-central1, and the bucket gs://stage in it."""
    make_bucket("stage")
    relay.requests.clear()
    return CloudBuckets("demo", "us-central1", no_credentials, QUICK)


@pytest.fixture
def make_bucket(relay: StorageRelay) -> Callable[..., None]:
    def make(name: str, location: str = "us-central1", pair: tuple[str, ...] = ()) -> None:
        import requests

        body: dict[str, object] = {"name": name, "location": location}
        if pair:
            body["customPlacementConfig"] = {"dataLocations": list(pair)}
        requests.post(f"{relay.url}/storage/v1/b?project=demo", json=body, timeout=10).raise_for_status()

    return make
