"""Cloud Storage on loopback, and its official client library."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from lib.emulator_service import emulator_service
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


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of the emulator that the tests of a module share."""
    return tmp_path_factory.mktemp("emulator") / "home"


@pytest.fixture(scope="module")
def url(home: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """That emulator's address; a module that wants it otherwise says so in `SERVE`."""
    with getattr(request.module, "SERVE", emulator_service)(home) as served:
        yield served


@pytest.fixture
def http(url: str) -> Iterator[Http]:
    """Requests to it by hand."""
    made = Http(url)
    yield made
    made.connection.close()
