from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec
import pytest
from lib.storage_relay import QUICK, StorageRelay
from lib.storage_service import StorageEndpoint

from vtrain.errors import StorageError
from vtrain.staging import Staged
from vtrain.staging.cloud import CloudBuckets
from vtrain.staging.cloud_client import Settings

FOLDER = "gs://stage/packages/0a1b2c"
URI = f"{FOLDER}/trainer.tar.gz"
UNIT = 256 * 1024


def silent(_text: str) -> None:
    """Show nothing."""


def file_of(folder: Path, content: bytes, name: str = "trainer.tar.gz") -> Path:
    file = folder / name
    file.write_bytes(content)
    return file


def stored(storage: StorageEndpoint, uri: str) -> bytes:
    return (storage.buckets / uri.removeprefix("gs://")).read_bytes()


def test_a_file_is_sent_once(
    cloud: CloudBuckets, relay: StorageRelay, storage: StorageEndpoint, tmp_path: Path
) -> None:
    file = file_of(tmp_path, b"package")
    assert cloud.stage_all({file: URI}, silent) == (Staged(uri=URI, written=True),)
    assert stored(storage, URI) == b"package"
    assert "ifGenerationMatch=0" in relay.uploads[0].target
    relay.requests.clear()
    assert cloud.stage_all({file: URI}, silent) == (Staged(uri=URI, written=False),)
    assert [passed.method for passed in relay.requests] == ["GET"]


def test_many_files_are_sent_and_keep_their_order(
    cloud: CloudBuckets, relay: StorageRelay, storage: StorageEndpoint, tmp_path: Path
) -> None:
    files = {
        file_of(tmp_path, os.urandom(size), f"part-{size}"): f"{FOLDER}/part-{size}" for size in range(40)
    }
    staged = cloud.stage_all(files, silent)
    assert [item.uri for item in staged] == list(files.values())
    assert all(stored(storage, uri) == file.read_bytes() for file, uri in files.items())
    relay.requests.clear()
    assert not any(item.written for item in cloud.stage_all(files, silent))
    assert relay.bytes_up == 0
    assert len(relay.requests) == 1


@pytest.mark.parametrize("there", [b"pack", b"another", b"", b"package and more"])
def test_what_is_there_with_other_content_is_replaced(
    cloud: CloudBuckets, storage: StorageEndpoint, tmp_path: Path, there: bytes
) -> None:
    cloud.stage_all({file_of(tmp_path, there): URI}, silent)
    assert cloud.stage_all({file_of(tmp_path, b"package"): URI}, silent)[0].written
    assert stored(storage, URI) == b"package"


@pytest.mark.parametrize("name", ["größe/文件.tar.gz", "a b+c%20.tar.gz", "x#?.whl", "~!@$&'()*,;=.whl"])
def test_names_of_any_letters(
    cloud: CloudBuckets, storage: StorageEndpoint, tmp_path: Path, name: str
) -> None:
    file, uri = file_of(tmp_path, b"package"), f"{FOLDER}/{name}"
    assert cloud.stage_all({file: uri}, silent)[0].written
    assert stored(storage, uri) == b"package"
    assert not cloud.stage_all({file: uri}, silent)[0].written


def test_an_empty_file(cloud: CloudBuckets, storage: StorageEndpoint, tmp_path: Path) -> None:
    file = file_of(tmp_path, b"")
    assert cloud.stage_all({file: URI}, silent)[0].written
    assert stored(storage, URI) == b""
    assert not cloud.stage_all({file: URI}, silent)[0].written


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_service_in_trouble_is_asked_again(
    cloud: CloudBuckets, relay: StorageRelay, storage: StorageEndpoint, tmp_path: Path, status: int
) -> None:
    relay.refuse(status, times=2)
    assert cloud.stage_all({file_of(tmp_path, b"package"): URI}, silent)[0].written
    assert [passed.status for passed in relay.uploads] == [status, status, 200]
    assert stored(storage, URI) == b"package"


def chunked(**fields: object) -> CloudBuckets:
    settings = Settings(
        chunk=UNIT, first_wait=0.01, longest_wait=0.02, give_up_after=10.0, timeout=10.0, **fields
    )  # type: ignore[arg-type]
    return CloudBuckets("demo", "us-central1", lambda: None, settings)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("fault", ["cut at once", "cut in the middle", "answer lost", "refused"])
def test_a_large_file_goes_on_where_it_broke_off(
    cloud: CloudBuckets, relay: StorageRelay, storage: StorageEndpoint, tmp_path: Path, fault: str
) -> None:
    content = os.urandom(5 * UNIT + 1234)
    seen: list[str] = []

    def third_part(method: str, _target: str) -> bool:
        seen.append(method)
        return method == "PUT" and seen.count("PUT") == 3

    if fault == "refused":
        relay.refuse(503, fits=third_part)
    else:
        relay.cut({"cut at once": 0, "cut in the middle": UNIT // 2, "answer lost": UNIT}[fault], third_part)
    assert chunked().stage_all({file_of(tmp_path, content): URI}, silent)[0].written
    assert stored(storage, URI) == content
    assert relay.bytes_up < len(content) + 2 * UNIT


def test_a_lost_last_answer_is_no_failure(
    cloud: CloudBuckets, relay: StorageRelay, storage: StorageEndpoint, tmp_path: Path
) -> None:
    relay.lose_answer()
    cloud.stage_all({file_of(tmp_path, b"package"): URI}, silent)
    assert stored(storage, URI) == b"package"


def stage_in_a_process(file: Path) -> bool:
    buckets = CloudBuckets("demo", "us-central1", lambda: None, QUICK)  # type: ignore[arg-type,return-value]
    return buckets.stage_all({file: URI}, silent)[0].written


def test_of_two_that_stage_the_same_one_writes(
    cloud: CloudBuckets, relay: StorageRelay, storage: StorageEndpoint, tmp_path: Path
) -> None:
    import threading

    file = file_of(tmp_path, os.urandom(1000))
    both = threading.Barrier(2)
    relay.before = lambda method, target: both.wait(60) and None if "/upload/" in target else None  # type: ignore[func-returns-value]
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as processes:
        found = list(processes.map(stage_in_a_process, [file, file], timeout=60))
    assert sorted(found) == [False, True]
    assert sorted(passed.status for passed in relay.uploads) == [200, 412]
    assert stored(storage, URI) == file.read_bytes()


@pytest.mark.parametrize("change", [b"another", b"p", b"package and more"])
def test_a_file_that_changes_meanwhile_is_not_left_there(
    cloud: CloudBuckets, relay: StorageRelay, storage: StorageEndpoint, tmp_path: Path, change: bytes
) -> None:
    file = file_of(tmp_path, b"package")
    relay.before = lambda method, _target: method == "POST" and file.write_bytes(change)  # type: ignore[assignment,return-value]
    with pytest.raises(StorageError, match="changed while it was staged"):
        cloud.stage_all({file: URI}, silent)
    assert not (storage.buckets / URI.removeprefix("gs://")).exists()


def test_who_may_only_create_learns_from_the_upload(
    cloud: CloudBuckets, relay: StorageRelay, storage: StorageEndpoint, tmp_path: Path
) -> None:
    def is_look(method: str, _target: str) -> bool:
        return method == "GET"

    file = file_of(tmp_path, b"package")
    for written in (True, False):
        relay.refuse(403, times=1 if written else 2, fits=is_look)
        assert cloud.stage_all({file: URI}, silent)[0].written is written
    assert stored(storage, URI) == b"package"


def test_how_far_it_is(cloud: CloudBuckets, relay: StorageRelay, tmp_path: Path) -> None:
    relay.delay = 0.15
    shown: list[str] = []
    cloud.settings = msgspec.structs.replace(QUICK, workers=1)
    files = {file_of(tmp_path, bytes(500_000), f"part{n}"): f"{FOLDER}/part{n}" for n in range(4)}
    cloud.stage_all(files, shown.append)
    assert shown[0] == f"Staging 0 of 4 files  {'.' * 24}  0.0 of 2.0 MB"
    assert f"Staging 2 of 4 files  {'#' * 12}{'.' * 12}  1.0 of 2.0 MB" in shown
    assert shown == sorted(shown, key=lambda text: int(text.split()[1]))


@pytest.mark.parametrize("body", [b"<html>Sign in</html>", b"[]", b"{}", b'{"generation": "x"}'])
@pytest.mark.parametrize("size", [100, 3 * 256 * 1024])
def test_an_answer_that_is_none_of_the_service_is_told(
    cloud: CloudBuckets, relay: StorageRelay, tmp_path: Path, body: bytes, size: int
) -> None:
    """A proxy that wants a sign-in first answers everything with 200."""
    cloud.settings = msgspec.structs.replace(QUICK, chunk=256 * 1024, give_up_after=0.1)
    for _ in range(20):
        relay.answer(body, lambda method, target: "/upload/" in target)
    with pytest.raises(StorageError, match=r"gs://stage/|cannot be reached"):
        cloud.stage_all({file_of(tmp_path, bytes(size)): URI}, silent)


@pytest.mark.parametrize("body", [b"<html>Sign in</html>", b"[]", b"{}", b'{"permissions": 3}'])
def test_an_examination_that_is_answered_by_another_is_told(
    cloud: CloudBuckets, relay: StorageRelay, body: bytes
) -> None:
    for _ in range(20):
        relay.answer(body, lambda method, target: True)
    with pytest.raises(StorageError):
        cloud.examine("gs://stage/x")
