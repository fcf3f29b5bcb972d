"""What `gcloud storage` does with the service."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from lib.storage_service import StorageEndpoint

pytestmark = [pytest.mark.gcloud, pytest.mark.timeout(300)]
Gcloud = Callable[..., str]


@pytest.fixture
def gcloud(endpoint: StorageEndpoint, own_home: Path) -> Gcloud:
    """Runs `gcloud storage …`, which has to end with 0; its stdout."""
    settings = {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{endpoint.url}/storage/v1/",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_PROJECT": "demo",
    }

    def run(*words: str) -> str:
        ended = subprocess.run(
            ["gcloud", "storage", *words],
            env=os.environ | settings,
            cwd=own_home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    return run


@pytest.fixture
def folder(own_home: Path) -> Path:
    """A folder with an empty file, a small one, one that gcloud uploads resumably, and a name of letters."""
    made = own_home / "data"
    (made / "sub").mkdir(parents=True)
    (made / "empty").touch()
    (made / "1.txt").write_text("one\n")
    (made / "big").write_bytes(os.urandom(9 << 20))
    (made / "sub" / "ü 2.txt").write_text("two\n")
    return made


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_folders_go_up_and_come_down(
    endpoint: StorageEndpoint, gcloud: Gcloud, folder: Path, own_home: Path
) -> None:
    gcloud("buckets", "create", "gs://up-and-down", "--location=us-central1")
    gcloud("cp", "--recursive", "data", "gs://up-and-down/")
    assert tree(endpoint.buckets / "up-and-down" / "data") == tree(folder)
    down = own_home / "down"
    down.mkdir()
    gcloud("cp", "--recursive", "gs://up-and-down/data", str(down))
    assert tree(down / "data") == tree(folder)
    assert gcloud("cat", "gs://up-and-down/data/sub/ü 2.txt") == "two\n"
    assert (
        "us-central1" in gcloud("buckets", "describe", "gs://up-and-down", "--format=value(location)").lower()
    )


def test_listing_moving_and_removing(endpoint: StorageEndpoint, gcloud: Gcloud) -> None:
    bucket = endpoint.buckets / "tidy"
    (bucket / "runs").mkdir(parents=True)
    for name in ("a", "b"):
        (bucket / "runs" / name).write_text(name)
    assert gcloud("ls", "gs://tidy/runs").split() == ["gs://tidy/runs/a", "gs://tidy/runs/b"]
    gcloud("mv", "gs://tidy/runs/a", "gs://tidy/kept")
    assert tree(bucket) == {"runs/b": b"b", "kept": b"a"}
    gcloud("objects", "update", "gs://tidy/kept", "--custom-metadata=k=v")
    fields = gcloud("objects", "describe", "gs://tidy/kept", "--format=value(custom_fields.k,metageneration)")
    assert fields.split() == ["v", "2"]
    gcloud("rm", "--recursive", "gs://tidy")
    assert not bucket.exists()


def test_rsync_sends_what_changed_and_removes_what_is_gone(
    endpoint: StorageEndpoint, gcloud: Gcloud, folder: Path
) -> None:
    target = endpoint.buckets / "synced"
    target.mkdir(parents=True)
    gcloud("rsync", "--recursive", "data", "gs://synced")
    assert tree(target) == tree(folder)
    before = (target / "big").stat().st_mtime_ns
    (folder / "1.txt").write_text("changed\n")
    (folder / "sub" / "ü 2.txt").unlink()
    gcloud("rsync", "--recursive", "--delete-unmatched-destination-objects", "data", "gs://synced")
    assert tree(target) == tree(folder)
    assert (target / "big").stat().st_mtime_ns == before


def test_a_composed_upload_arrives_whole(
    endpoint: StorageEndpoint, gcloud: Gcloud, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gcloud cuts a large file up, sends the parts side by side, and has them composed."""
    (endpoint.buckets / "parts").mkdir(parents=True)
    (own_home / "large").write_bytes(os.urandom(20 << 20))
    setting = "CLOUDSDK_STORAGE_PARALLEL_COMPOSITE_UPLOAD"
    monkeypatch.setenv(f"{setting}_ENABLED", "true")
    monkeypatch.setenv(f"{setting}_THRESHOLD", "9M")
    monkeypatch.setenv(f"{setting}_COMPONENT_SIZE", "10M")
    gcloud("cp", "large", "gs://parts/large")
    assert (endpoint.buckets / "parts" / "large").read_bytes() == (own_home / "large").read_bytes()
    count = gcloud("objects", "describe", "gs://parts/large", "--format=value(component_count)")
    assert int(count) > 1
