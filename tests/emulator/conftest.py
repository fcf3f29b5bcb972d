"""Cloud Storage on loopback, and its official client library."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from lib.storage_service import Http, StorageEndpoint, storage_service

if any(find_spec(name) is None for name in ("starlette", "uvicorn", "google")):
    collect_ignore_glob = ["test_*.py"]  # they need the extras emulator and vertex


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StorageEndpoint]:
    """A service with buckets of its own, shared by the tests of a module."""
    with storage_service(tmp_path_factory.mktemp("storage") / "home") as running:
        yield running


@pytest.fixture
def client(endpoint: StorageEndpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`google.cloud.storage.Client`, which finds the service as users' code does."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud.storage import Client

    monkeypatch.setenv("STORAGE_EMULATOR_HOST", endpoint.url)
    made = Client(project="demo", credentials=AnonymousCredentials())
    yield made
    made.close()


@pytest.fixture
def bucket(client: Any, request: pytest.FixtureRequest) -> Any:
    """A bucket of this test's own, with a name made of the test's."""
    letters = "".join(c if c.isalnum() else "-" for c in request.node.name.lower())
    return client.create_bucket(letters.strip("-")[:60].strip("-"))


@pytest.fixture
def http(endpoint: StorageEndpoint) -> Iterator[Http]:
    """Requests by hand."""
    made = Http(endpoint.url)
    yield made
    made.connection.close()
