"""What `google-cloud-storage` does with the service."""

from __future__ import annotations

import io
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from lib.storage_service import StorageEndpoint

MIB = 1 << 20


def test_an_object_is_a_file_and_a_file_an_object(endpoint: StorageEndpoint, bucket: Any) -> None:
    folder = endpoint.buckets / bucket.name
    bucket.blob("models/a.txt").upload_from_string("up", content_type="text/plain")
    assert (folder / "models" / "a.txt").read_text() == "up"
    (folder / "models" / "b.txt").write_text("from a job")
    assert bucket.blob("models/b.txt").download_as_bytes() == b"from a job"
    assert [blob.name for blob in bucket.list_blobs()] == ["models/a.txt", "models/b.txt"]


def test_a_file_that_changes_under_an_object_is_a_new_generation(
    endpoint: StorageEndpoint, bucket: Any
) -> None:
    blob = bucket.blob("log")
    blob.metadata = {"by": "client"}
    blob.upload_from_string("one")
    (endpoint.buckets / bucket.name / "log").write_text("one and two")
    again = bucket.get_blob("log")
    assert again.generation > blob.generation
    assert again.metadata is None
    assert (again.size, again.md5_hash) == (11, None)
    assert again.download_as_bytes() == b"one and two"


def test_metadata_stays_with_an_object(bucket: Any) -> None:
    blob = bucket.blob("page")
    blob.metadata = {"answer": "42", "ü": "ß"}
    blob.cache_control = "no-store"
    blob.upload_from_string("<p>", content_type="text/html")
    found = bucket.get_blob("page")
    assert (found.metadata, found.content_type) == ({"answer": "42", "ü": "ß"}, "text/html")
    assert found.cache_control == "no-store"
    found.metadata = {"answer": "43", "ü": None}
    found.patch(if_metageneration_match=found.metageneration)
    found.reload()
    assert (found.metadata, found.metageneration) == ({"answer": "43"}, 2)
    assert found.generation == blob.generation
    assert found.cache_control == "no-store"


@pytest.mark.parametrize("chunk", [None, 256 * 1024, MIB])
def test_uploads_of_any_chunk_size_arrive_whole(bucket: Any, chunk: int | None) -> None:
    content = os.urandom(3 * MIB + 17)
    blob = bucket.blob("big", chunk_size=chunk)
    blob.upload_from_file(io.BytesIO(content), size=len(content), checksum="md5")
    assert bucket.get_blob("big").size == len(content)
    assert bucket.blob("big").download_as_bytes(checksum="crc32c") == content
    assert bucket.blob("big").download_as_bytes(start=MIB, end=MIB + 9) == content[MIB : MIB + 10]
    assert bucket.blob("big", chunk_size=MIB).download_as_bytes() == content


def test_a_stream_of_unknown_length_arrives_whole(bucket: Any) -> None:
    content = os.urandom(MIB + 1)
    with bucket.blob("stream").open("wb", chunk_size=256 * 1024) as file:
        file.write(content)
    assert bucket.blob("stream").download_as_bytes() == content
    with bucket.blob("nothing").open("wb"):
        pass
    assert bucket.blob("nothing").download_as_bytes() == b""


def test_a_hundred_megabytes_go_up_and_down(bucket: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(os.urandom(MIB) * 100)
    bucket.blob("large").upload_from_filename(source)
    bucket.blob("large").download_to_filename(target)
    assert target.stat().st_size == 100 * MIB
    assert target.read_bytes() == source.read_bytes()


def test_a_wrong_checksum_leaves_no_object(bucket: Any) -> None:
    from google.api_core.exceptions import BadRequest

    blob = bucket.blob("bad")
    blob.md5_hash = "AAAAAAAAAAAAAAAAAAAAAA=="
    with pytest.raises(BadRequest, match="md5Hash"):
        blob.upload_from_string("content")
    assert not bucket.blob("bad").exists()


def test_of_many_writers_of_a_new_object_one_wins(bucket: Any) -> None:
    from google.api_core.exceptions import PreconditionFailed

    def write(number: int) -> bool:
        try:
            bucket.blob("once").upload_from_string(f"{number}" * 1000, if_generation_match=0)
        except PreconditionFailed:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(write, range(24)))
    assert won.count(True) == 1
    assert bucket.blob("once").download_as_text() == f"{won.index(True)}" * 1000


def test_preconditions_hold_for_every_verb(bucket: Any) -> None:
    from google.api_core.exceptions import NotModified, PreconditionFailed

    blob = bucket.blob("state")
    blob.upload_from_string("1")
    stale = blob.generation
    blob.upload_from_string("2", if_generation_match=stale)
    for refused in (
        lambda: blob.delete(if_generation_match=stale),
        lambda: blob.patch(if_metageneration_match=7),
        lambda: blob.download_as_bytes(if_generation_match=stale),
        lambda: blob.reload(if_generation_match=stale),
        lambda: blob.upload_from_string("3", if_generation_not_match=blob.generation),
        lambda: bucket.copy_blob(blob, bucket, "copy", if_source_generation_match=stale),
        lambda: bucket.copy_blob(blob, bucket, "state", if_generation_match=0),
        lambda: bucket.blob("new").upload_from_string("3", if_generation_match=stale),
        lambda: bucket.blob("new").upload_from_string("3", if_metageneration_match=1),
    ):
        with pytest.raises(PreconditionFailed):
            refused()
    with pytest.raises(NotModified):
        blob.reload(if_generation_not_match=blob.generation)
    assert blob.download_as_bytes(if_generation_match=blob.generation) == b"2"
    blob.delete(if_generation_match=blob.generation)
    assert not blob.exists()


def test_a_resumable_upload_is_refused_before_its_content(bucket: Any) -> None:
    from google.api_core.exceptions import PreconditionFailed

    bucket.blob("there").upload_from_string("1")
    blob = bucket.blob("there", chunk_size=256 * 1024)
    with pytest.raises(PreconditionFailed):
        blob.upload_from_file(io.BytesIO(bytes(MIB)), size=MIB, if_generation_match=0)


def test_an_older_generation_is_not_there(bucket: Any) -> None:
    from google.api_core.exceptions import NotFound

    blob = bucket.blob("versioned")
    blob.upload_from_string("1")
    old = blob.generation
    blob.upload_from_string("2")
    with pytest.raises(NotFound):
        bucket.blob("versioned", generation=old).download_as_bytes()
    assert bucket.blob("versioned", generation=blob.generation).download_as_bytes() == b"2"


def test_lists_have_pages_prefixes_and_globs(client: Any, bucket: Any) -> None:
    names = ["a/1", "a/2", "a/b/3", "a/b/4.txt", "b/5.txt", "z"]
    for name in names:
        bucket.blob(name).upload_from_string(name)

    def listed(**asked: Any) -> tuple[list[str], list[str]]:
        found = client.list_blobs(bucket, **asked)
        return [blob.name for blob in found], sorted(found.prefixes)

    assert listed(page_size=1) == (names, [])
    assert listed(page_size=4) == (names, [])
    assert listed(max_results=2) == (names[:2], [])
    assert listed(delimiter="/") == (["z"], ["a/", "b/"])
    assert listed(delimiter="/", page_size=1) == (["z"], ["a/", "b/"])
    assert listed(prefix="a/", delimiter="/") == (["a/1", "a/2"], ["a/b/"])
    assert listed(prefix="a/b") == (["a/b/3", "a/b/4.txt"], [])
    assert listed(start_offset="a/2", end_offset="b/5.txt") == (["a/2", "a/b/3", "a/b/4.txt"], [])
    assert listed(match_glob="*/*.txt") == (["b/5.txt"], [])
    assert listed(match_glob="**/*.txt") == (["a/b/4.txt", "b/5.txt"], [])
    assert listed(match_glob="a/{1,b/?}") == (["a/1", "a/b/3"], [])
    assert listed(prefix="nothing") == ([], [])


def test_copies_compositions_and_batches(client: Any, bucket: Any) -> None:
    first, second = bucket.blob("first"), bucket.blob("second")
    first.metadata = {"k": "v"}
    first.upload_from_string("one ", content_type="text/plain")
    second.upload_from_string("two")
    copy = bucket.copy_blob(first, bucket, "folder/copy")
    assert (copy.metadata, copy.content_type, copy.md5_hash) == ({"k": "v"}, "text/plain", first.md5_hash)
    token, written, size = bucket.blob("rewritten").rewrite(second)
    assert (token, written, size) == (None, 3, 3)
    joined = bucket.blob("joined")
    joined.content_type = "text/x-joined"
    joined.compose([first, second], if_generation_match=0)
    assert (joined.component_count, joined.md5_hash) == (2, None)
    assert joined.download_as_bytes(checksum="crc32c") == b"one two"
    assert joined.content_type == "text/x-joined"
    with client.batch():
        for name in ("first", "second", "rewritten"):
            bucket.delete_blob(name)
    assert [blob.name for blob in bucket.list_blobs()] == ["folder/copy", "joined"]


def test_a_batch_tells_which_of_its_requests_failed(client: Any, bucket: Any) -> None:
    from google.api_core.exceptions import NotFound

    bucket.blob("there").upload_from_string("1")
    with pytest.raises(NotFound), client.batch():
        bucket.delete_blob("there")
        bucket.delete_blob("not there")
    assert not bucket.blob("there").exists()


def test_many_files_at_once(bucket: Any, tmp_path: Path) -> None:
    from google.cloud.storage import transfer_manager

    contents = {f"part/{number}": os.urandom(4096) for number in range(40)}
    for name, content in contents.items():
        file = tmp_path / "up" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    manage = {"worker_type": transfer_manager.THREAD, "max_workers": 8, "raise_exception": True}
    transfer_manager.upload_many_from_filenames(
        bucket, list(contents), source_directory=str(tmp_path / "up"), **manage
    )
    transfer_manager.download_many_to_path(
        bucket, list(contents), destination_directory=str(tmp_path / "down"), **manage
    )
    assert {name: (tmp_path / "down" / name).read_bytes() for name in contents} == contents
    big = os.urandom(5 * MIB)
    bucket.blob("big").upload_from_string(big)
    del manage["raise_exception"]
    transfer_manager.download_chunks_concurrently(
        bucket.blob("big"), str(tmp_path / "big"), chunk_size=MIB, **manage
    )
    assert (tmp_path / "big").read_bytes() == big


def test_content_that_is_compressed_stays_so(bucket: Any) -> None:
    import gzip

    blob = bucket.blob("page.gz")
    blob.content_encoding = "gzip"
    packed = gzip.compress(b"text" * 100)
    blob.upload_from_string(packed, content_type="text/plain")
    assert bucket.blob("page.gz").download_as_bytes(raw_download=True) == packed
    assert bucket.blob("page.gz").download_as_bytes() == b"text" * 100


def test_buckets_keep_what_they_are_told(client: Any) -> None:
    from google.api_core.exceptions import Conflict, NotFound

    made = client.bucket("kept")
    made.labels = {"team": "ml"}
    made.storage_class = "NEARLINE"
    made.create(location="europe-west1")
    found = client.get_bucket("kept")
    assert (found.location, found.location_type) == ("EUROPE-WEST1", "region")
    assert (found.storage_class, found.labels) == ("NEARLINE", {"team": "ml"})
    found.labels = {"phase": "2"}
    found.patch()
    assert client.get_bucket("kept").labels == {"phase": "2"}
    with pytest.raises(Conflict):
        client.create_bucket("kept")
    made.blob("x").upload_from_string("x")
    with pytest.raises(Conflict):
        made.delete()
    made.delete(force=True)
    for missing in (made.reload, made.delete, made.blob("x").download_as_bytes):
        with pytest.raises(NotFound):
            missing()
    assert client.lookup_bucket("kept") is None


def test_a_folder_that_a_job_made_is_a_bucket(endpoint: StorageEndpoint, client: Any) -> None:
    (endpoint.buckets / "job-output" / "empty" / "folder").mkdir(parents=True)
    assert "job-output" in [found.name for found in client.list_buckets()]
    found = client.get_bucket("job-output")
    assert found.test_iam_permissions(["storage.objects.create"]) == ["storage.objects.create"]
    assert list(found.list_blobs()) == []
    found.delete()
    assert not (endpoint.buckets / "job-output").exists()
