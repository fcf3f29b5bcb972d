"""Folders of Cloud Storage, copied to this machine."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from lib.privileges import mounted_tmpfs
from lib.storage_relay import QUICK
from lib.storage_service import StorageEndpoint

from vtrain.errors import ConfigError, StorageError
from vtrain.staging.cloud import CloudBuckets, _place

UNIT = 256 * 1024


def put(storage: StorageEndpoint, name: str, content: bytes) -> None:
    file = storage.buckets / "stage" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def files_below(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.mark.parametrize("uri", ["gs://stage/models/a", "gs://stage/models/a/"])
def test_a_folder_is_copied_with_what_is_below_it(
    cloud: CloudBuckets, storage: StorageEndpoint, tmp_path: Path, uri: str
) -> None:
    put(storage, "models/a/model.pkl", b"a model")
    put(storage, "models/a/assets/words.txt", b"words")
    put(storage, "models/ab/other.txt", b"another")
    cloud.fetch(uri, tmp_path / "copied")
    assert files_below(tmp_path / "copied") == {"model.pkl": b"a model", "assets/words.txt": b"words"}


def test_a_whole_bucket_is_copied(cloud: CloudBuckets, storage: StorageEndpoint, tmp_path: Path) -> None:
    put(storage, "model.pkl", b"a model")
    cloud.fetch("gs://stage", tmp_path / "copied")
    assert files_below(tmp_path / "copied") == {"model.pkl": b"a model"}


def test_large_files_come_in_parts(cloud: CloudBuckets, storage: StorageEndpoint, tmp_path: Path) -> None:
    content = os.urandom(3 * UNIT + 7)
    put(storage, "models/a/model.pkl", content)
    cloud.settings = msgspec.structs.replace(QUICK, chunk=UNIT)
    cloud.fetch("gs://stage/models/a", tmp_path / "copied")
    assert files_below(tmp_path / "copied") == {"model.pkl": content}


def test_what_is_not_there_is_told(cloud: CloudBuckets, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="There are no files in gs://stage/models/a"):
        cloud.fetch("gs://stage/models/a", tmp_path / "copied")
    with pytest.raises(StorageError, match="gs://missing"):
        cloud.fetch("gs://missing/models/a", tmp_path / "copied")
    for uri in ("s3://stage/models/a", "file:///models/a"):
        with pytest.raises(ConfigError):
            cloud.fetch(uri, tmp_path / "copied")


@pytest.mark.parametrize("name", ["a/../../x", "a/..", "a//etc/passwd"])
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    blob = SimpleNamespace(name=name, bucket=SimpleNamespace(name="stage"))
    with pytest.raises(StorageError, match="leads out of the folder"):
        _place(tmp_path, blob, "a/")  # type: ignore[arg-type]


@pytest.mark.child
def test_a_full_disk_is_not_taken_for_a_lost_network(
    cloud: CloudBuckets, storage: StorageEndpoint, tmp_path: Path
) -> None:
    put(storage, "models/a/model.pkl", bytes(2 * UNIT))
    with (
        mounted_tmpfs(tmp_path / "small", "size=64k") as disk,
        pytest.raises(
            StorageError, match=r"Cannot write the copy of gs://stage/models/a/model\.pkl: No space"
        ),
    ):
        cloud.fetch("gs://stage/models/a", disk)


def test_a_file_in_the_place_of_a_folder_is_named(
    cloud: CloudBuckets, storage: StorageEndpoint, tmp_path: Path
) -> None:
    put(storage, "models/a/assets/words.txt", b"words")
    (tmp_path / "assets").write_bytes(b"")
    with pytest.raises(StorageError, match=r"Cannot write .*/assets/words\.txt: File exists\."):
        cloud.fetch("gs://stage/models/a", tmp_path)
