"""Requests that no client library makes, or only in bad weather."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from lib.storage_service import Http, StorageEndpoint, storage_service

from vtrain.atomic import publishing_file
from vtrain.emulator.storage import object_store, stores
from vtrain.emulator.storage.bodies import LARGEST_DOCUMENT
from vtrain.messages.names import LOCAL_PROJECT_NUMBER

UNIT = 256 * 1024
ODD_NAMES = (
    "a//b",
    "folder/",
    "/absolute",
    "..",
    "../escape",
    "x/../../../escape",
    "./here",
    "x/./y",
    "x" * 300,
    "ü" * 200 + "/" + "y" * 400,
    "per%2Fcent",
    "per%cent",
    "space and + plus?#&=",
    "日本語/ключ",
    "back\\slash",
    "nul\0byte",
    "tab\tname",
    "c/o/compose",
    ".hidden",
    "~",
)


@pytest.fixture
def place(by_hand: Any, request: pytest.FixtureRequest) -> str:
    """The path of a new bucket."""
    name = "b" + str(abs(hash(request.node.name)))
    assert by_hand("POST", "/storage/v1/b?project=demo", {"name": name}).status == 200
    return f"b/{name}"


def put(by_hand: Any, place: str, name: str, content: bytes = b"content", **query: str) -> Any:
    asked = "".join(f"&{key}={quote(value, safe='')}" for key, value in query.items())
    path = f"/upload/storage/v1/{place}/o?uploadType=media&name={quote(name, safe='')}{asked}"
    return by_hand("POST", path, content, content_type="text/plain")


def object_path(place: str, name: str) -> str:
    return f"/storage/v1/{place}/o/{quote(name, safe='')}"


def everything(home: Path) -> set[Path]:
    return {path.relative_to(home) for path in home.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
def test_any_name_is_kept_and_leads_nowhere_else(
    endpoint: StorageEndpoint, by_hand: Any, place: str, name: str
) -> None:
    around = everything(endpoint.home.parent)
    reply = put(by_hand, place, name)
    if name == "..":
        assert reply.status == 400
        return
    assert reply.document["name"] == name
    assert by_hand("GET", object_path(place, name) + "?alt=media").body == b"content"
    listed = by_hand("GET", f"/storage/v1/{place}/o").document["items"]
    assert [found["name"] for found in listed] == [name]
    made = everything(endpoint.home.parent) - around
    inside = (Path("home/buckets") / place[2:], Path("home/storage"))
    assert made and all(any(path.is_relative_to(folder) for folder in inside) for path in made)
    assert by_hand("DELETE", object_path(place, name)).status == 204
    assert by_hand("GET", object_path(place, name)).status == 404
    assert by_hand("DELETE", f"/storage/v1/{place}").status == 204


@pytest.mark.parametrize("names", [("a", "a/b"), ("a/b", "a"), ("a/b/c", "a/b", "a")])
def test_a_name_may_begin_with_another(by_hand: Any, place: str, names: tuple[str, ...]) -> None:
    for name in names:
        assert put(by_hand, place, name, name.encode()).status == 200
    for name in names:
        assert by_hand("GET", object_path(place, name) + "?alt=media").body == name.encode()
    listed = by_hand("GET", f"/storage/v1/{place}/o").document["items"]
    assert [found["name"] for found in listed] == sorted(names)
    for name in names:
        assert by_hand("DELETE", object_path(place, name)).status == 204
    assert "items" not in by_hand("GET", f"/storage/v1/{place}/o").document


def test_a_file_of_a_job_takes_the_place_of_an_object_aside(
    endpoint: StorageEndpoint, by_hand: Any, place: str
) -> None:
    put(by_hand, place, "a", b"file")
    put(by_hand, place, "a/b", b"aside")
    by_hand("DELETE", object_path(place, "a"))
    folder = endpoint.buckets / place[2:] / "a"
    folder.mkdir()
    (folder / "b").write_text("of a job")
    assert by_hand("GET", object_path(place, "a/b") + "?alt=media").body == b"of a job"
    assert by_hand("DELETE", object_path(place, "a/b")).status == 204
    assert by_hand("GET", object_path(place, "a/b")).status == 404


def test_an_earlier_generation_is_not_taken_for_the_present_one(by_hand: Any, place: str) -> None:
    old = put(by_hand, place, "a", b"1").document["generation"]
    put(by_hand, place, "a", b"2")
    path = object_path(place, "a")
    assert by_hand("POST", f"{path}/copyTo/{place}/o/b?sourceGeneration={old}").status == 404
    assert by_hand("DELETE", f"{path}?generation={old}").status == 404
    assert by_hand("GET", f"{path}?alt=media").body == b"2"


def test_an_object_that_was_aside_does_not_come_back(
    endpoint: StorageEndpoint, by_hand: Any, place: str
) -> None:
    put(by_hand, place, "a/b", b"file")
    put(by_hand, place, "a", b"aside")
    by_hand("DELETE", object_path(place, "a/b"))
    put(by_hand, place, "a", b"file")
    (endpoint.buckets / place[2:] / "a").unlink()  # as a job does
    assert by_hand("GET", object_path(place, "a")).status == 404


def test_a_generation_grows_whatever_the_clock_says(
    endpoint: StorageEndpoint, by_hand: Any, place: str
) -> None:
    file = endpoint.buckets / place[2:] / "a"
    file.touch()
    os.utime(file, (2**32, 2**32))
    assert put(by_hand, place, "a").document["generation"] == f"{2**32 * 10**9 + 1}"


def test_a_file_of_a_job_is_told_from_the_object_of_the_same_time(
    endpoint: StorageEndpoint, by_hand: Any, place: str
) -> None:
    put(by_hand, place, "a", b"before")
    file = endpoint.buckets / place[2:] / "a"
    moment = file.stat().st_mtime_ns
    file.write_bytes(b"of a job")
    os.utime(file, ns=(moment, moment))  # a file system may count in seconds
    found = by_hand("GET", object_path(place, "a")).document
    assert (found["size"], "md5Hash" in found) == ("8", False)


def test_links_are_no_objects_and_lead_nowhere(
    endpoint: StorageEndpoint, by_hand: Any, place: str, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("secret")
    folder = endpoint.buckets / place[2:]
    (folder / "file").symlink_to(tmp_path / "secret")
    (folder / "folder").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder)
    for name in ("file", "folder/secret", "loop/file"):
        assert by_hand("GET", object_path(place, name) + "?alt=media").status == 404
    assert "items" not in by_hand("GET", f"/storage/v1/{place}/o").document
    assert put(by_hand, place, "file", b"new").status == 200
    assert put(by_hand, place, "folder/secret", b"new").status == 200
    assert (tmp_path / "secret").read_text() == "secret"
    assert by_hand("GET", object_path(place, "folder/secret") + "?alt=media").body == b"new"


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a second file system")
def test_a_bucket_on_another_disk(endpoint: StorageEndpoint, by_hand: Any, place: str) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        folder = endpoint.buckets / place[2:]
        folder.rmdir()
        folder.symlink_to(other)
        for content in (b"first", b"second"):
            made = put(by_hand, place, "a/b", content)
            assert made.status == 200, made.body
            assert (Path(other) / "a" / "b").read_bytes() == content
        found = by_hand("GET", object_path(place, "a/b"))
        assert found.document == made.document
        assert [path.name for path in Path(other).rglob("*")] == ["a", "b"]
        assert by_hand("DELETE", object_path(place, "a/b")).status == 204


def test_a_file_that_is_being_staged_is_no_object(
    endpoint: StorageEndpoint, by_hand: Any, place: str
) -> None:
    with publishing_file(endpoint.buckets / place[2:] / "staged", mode=None) as temporary:
        temporary.write_bytes(b"half")
        assert "items" not in by_hand("GET", f"/storage/v1/{place}/o").document
        assert by_hand("GET", object_path(place, temporary.name)).status == 404
        assert put(by_hand, place, temporary.name, b"of a client").status == 200
        assert temporary.read_bytes() == b"half"
        assert by_hand("GET", object_path(place, temporary.name) + "?alt=media").body == b"of a client"
        assert len(by_hand("GET", f"/storage/v1/{place}/o").document["items"]) == 1
    assert len(by_hand("GET", f"/storage/v1/{place}/o").document["items"]) == 2


def test_links_of_the_user_are_not_removed(endpoint: StorageEndpoint, by_hand: Any, place: str) -> None:
    folder = endpoint.buckets / place[2:]
    (folder / "a").mkdir()
    (folder / "a" / "link").symlink_to(endpoint.home)
    assert put(by_hand, place, "a", b"aside").status == 200
    assert (folder / "a" / "link").is_symlink()
    assert by_hand("DELETE", object_path(place, "a")).status == 204
    assert by_hand("DELETE", f"/storage/v1/{place}").status == 409
    assert (folder / "a" / "link").is_symlink()


def test_a_name_that_becomes_a_folder_and_back(endpoint: StorageEndpoint, place: str) -> None:
    strange: list[Any] = []

    def work(number: int) -> None:
        by_hand = Http(endpoint.url)
        for _ in range(40):
            for reply, usual in (
                (put(by_hand, place, "race", b"%d" % number * 1000), {200}),
                (by_hand("GET", object_path(place, "race") + "?alt=media"), {200, 404}),
                (by_hand("DELETE", object_path(place, "race")), {204, 404}),
                (put(by_hand, place, f"race/{number}"), {200}),
                (by_hand("GET", f"/storage/v1/{place}/o"), {200}),
                (by_hand("DELETE", object_path(place, f"race/{number}")), {204}),
            ):
                if reply.status not in usual:
                    strange.append(reply)
        by_hand.connection.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert strange == []


def test_a_bucket_in_the_place_of_a_file_is_refused(
    endpoint: StorageEndpoint, by_hand: Any, place: str
) -> None:
    (endpoint.buckets / f"{place[2:]}-file").write_text("a file")
    made = by_hand("POST", "/storage/v1/b", {"name": f"{place[2:]}-file"})
    assert (made.status, made.document["error"]["errors"][0]["reason"]) == (409, "conflict")


def test_names_that_no_object_has_are_refused(by_hand: Any, place: str) -> None:
    for name in ("", ".", "..", "new\nline", "x" * 1025):
        assert put(by_hand, place, name).status == 400
    for name in ("ab", "UPPER", "a/b", "../up", "-dash", ""):
        assert by_hand("POST", "/storage/v1/b", {"name": name}).status == 400
    assert by_hand("GET", "/storage/v1/b/..%2F..").status == 404


@pytest.mark.parametrize(
    ("asked", "status", "part"),
    [
        ("bytes=0-3", 206, slice(0, 4)),
        ("bytes=4-", 206, slice(4, None)),
        ("bytes=-3", 206, slice(-3, None)),
        ("bytes=8-99", 206, slice(8, None)),
        ("bytes=-99", 206, slice(None)),
        ("bytes=10-", 416, None),
        ("bytes=0-1,4-5", 200, slice(None)),
        ("lines=1-2", 200, slice(None)),
    ],
)
def test_ranges(by_hand: Any, place: str, asked: str, status: int, part: slice | None) -> None:
    content = b"0123456789"
    put(by_hand, place, "digits", content)
    reply = by_hand("GET", f"/download{object_path(place, 'digits')}?alt=media", range=asked)
    assert reply.status == status
    if part is None:
        assert reply.document["error"]["errors"][0]["reason"] == "requestedRangeNotSatisfiable"
        return
    assert reply.body == content[part]
    assert reply.headers["x-goog-hash"] == "crc32c=KAwGng==,md5=eB5eJF1ptWaXm4bijSPyxw=="
    if status == 206:
        start, stop, _ = part.indices(10)
        assert reply.headers["content-range"] == f"bytes {start}-{stop - 1}/10"


def start(by_hand: Any, place: str, name: str = "upload", **query: str) -> str:
    """Begin a resumable upload; the path to send its content to."""
    asked = "".join(f"&{key}={value}" for key, value in query.items())
    reply = by_hand("POST", f"/upload/storage/v1/{place}/o?uploadType=resumable{asked}", {"name": name})
    assert reply.status == 200
    location = urlsplit(reply.headers["location"])
    return f"{location.path}?{location.query}"


def test_a_resumable_upload_goes_on_where_it_broke_off(by_hand: Any, place: str) -> None:
    content = bytes(range(256)) * 4096
    where = start(by_hand, place)
    total = len(content)
    asked = by_hand("PUT", where, b"", content_range=f"bytes */{total}")
    assert (asked.status, asked.headers.get("range")) == (308, None)
    first = by_hand("PUT", where, content[:UNIT], content_range=f"bytes 0-{UNIT - 1}/{total}")
    assert (first.status, first.headers["range"]) == (308, f"bytes=0-{UNIT - 1}")
    assert by_hand("PUT", where, b"", content_range="bytes */*").headers["range"] == f"bytes=0-{UNIT - 1}"
    assert by_hand("GET", object_path(place, "upload")).status == 404
    again = content[UNIT - 100 :]  # an answer was lost, and some is sent again
    last = by_hand("PUT", where, again, content_range=f"bytes {UNIT - 100}-{total - 1}/{total}")
    assert (last.status, last.document["size"]) == (200, str(total))
    assert by_hand("GET", object_path(place, "upload") + "?alt=media").body == content
    repeated = by_hand("PUT", where, b"", content_range=f"bytes */{total}")
    assert repeated.document["generation"] == last.document["generation"]


def test_what_arrived_before_a_connection_broke_is_kept(
    endpoint: StorageEndpoint, by_hand: Any, place: str
) -> None:
    where, total = start(by_hand, place), 4 * UNIT
    parts = urlsplit(endpoint.url)
    with socket.create_connection((parts.hostname, parts.port)) as broken:
        head = f"PUT {where} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: {total}\r\n"
        head += f"Content-Range: bytes 0-{total - 1}/{total}\r\n\r\n"
        broken.sendall(head.encode() + b"x" * UNIT)
    asked = by_hand("PUT", where, b"", content_range=f"bytes */{total}")
    assert asked.status == 308
    held = int(asked.headers.get("range", "bytes=0--1").removeprefix("bytes=0-")) + 1
    rest = b"x" * (total - held)
    done = by_hand("PUT", where, rest, content_range=f"bytes {held}-{total - 1}/{total}")
    assert done.document["size"] == str(total)


def test_bad_chunks_are_refused(by_hand: Any, place: str) -> None:
    where = start(by_hand, place)
    for content, span in (
        (b"x" * 100, "bytes 0-99/1000"),
        (b"x" * 100, "bytes 0-99/*"),
        (b"x" * UNIT, f"bytes {UNIT}-{2 * UNIT - 1}/{2 * UNIT}"),
        (b"x", "octets 0-0/1"),
        (b"x", "bytes 0-x/1"),
        (b"x" * 5, "bytes 0-4/3"),
        (b"x" * 3, "bytes 0-2/2"),
        (b"", "bytes 1-0/*"),
        (b"x", "bytes 5-*/*"),
        (b"x", "bytes *-5/*"),
        (b"x", f"bytes 0-{10**19 - 1}/*"),
    ):
        assert by_hand("PUT", where, content, content_range=span).status == 400
    assert by_hand("PUT", where, b"all of it").document["size"] == "9"


def test_uploads_that_begin_at_once_push_out_old_ones_and_each_other_no_further(
    endpoint: StorageEndpoint, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(number: int) -> int:
        by_hand = Http(endpoint.url)
        path = f"/upload/storage/v1/{place}/o?uploadType=resumable&name={number}"
        with closing(by_hand.connection):
            return by_hand("POST", path, {"name": str(number)}).status

    assert {*map(begin, range(6))} == {200}
    monkeypatch.setattr(stores, "MOST_SESSIONS", 4)
    with ThreadPoolExecutor(16) as pool:
        assert {*pool.map(begin, range(80))} == {200}
    partials = [path for path in (endpoint.home / "storage" / "uploads").rglob("*") if path.is_file()]
    assert len(partials) <= 4


def test_a_list_reads_no_file_unless_its_checksum_is_asked_for(
    endpoint: StorageEndpoint, by_hand: Any, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What trainers have written may be of any size."""
    read: list[object] = []
    compute = object_store.file_crc32c
    monkeypatch.setattr(object_store, "file_crc32c", lambda file: (read.append(file), compute(file))[1])
    (endpoint.buckets / place.partition("/")[2] / "model").write_bytes(b"12345")
    (item,) = by_hand("GET", f"/storage/v1/{place}/o").document["items"]
    assert (item["name"], item["size"], "crc32c" in item, read) == ("model", "5", False, [])
    (item,) = by_hand("GET", f"/storage/v1/{place}/o?fields=items(name,crc32c)").document["items"]
    assert (item["crc32c"], len(read)) == (by_hand("GET", object_path(place, "model")).document["crc32c"], 1)
    (item,) = by_hand("GET", f"/storage/v1/{place}/o").document["items"]
    assert item["crc32c"], "it is known now"


def test_the_parts_of_an_upload_may_come_by_post(by_hand: Any, place: str) -> None:
    """As gcsfs sends them."""
    for name, parts in (("large", (b"x" * UNIT, b"end")), ("empty", (b"",))):
        where, position, total = start(by_hand, place, name), 0, sum(map(len, parts))
        for part in parts:
            end = position + len(part)
            span = f"{position}-{end - 1}" if part else "*"
            whole = str(total) if end == total else "*"
            reply = by_hand("POST", where, part, content_range=f"bytes {span}/{whole}")
            position = end
        assert (reply.status, reply.document["size"]) == (200, str(total))
        assert by_hand("GET", object_path(place, name) + "?alt=media").body == b"".join(parts)


def test_of_a_chunk_whole_units_are_kept_unless_it_is_the_last(by_hand: Any, place: str) -> None:
    """gcsfs up to 2026.4 sends whatever it has, and goes on from the `Range` of the answer."""
    content = bytes(range(256)) * 4096 + b"end"
    where, held = start(by_hand, place), 0
    while held + UNIT < len(content):
        part = content[held : held + UNIT + 12345]
        reply = by_hand("POST", where, part, content_range=f"bytes {held}-{held + len(part) - 1}/*")
        held += UNIT
        assert (reply.status, reply.headers["range"]) == (308, f"bytes=0-{held - 1}")
    last = by_hand(
        "POST", where, content[held:], content_range=f"bytes {held}-{len(content) - 1}/{len(content)}"
    )
    assert (last.status, last.document["size"]) == (200, str(len(content)))
    assert by_hand("GET", object_path(place, "upload") + "?alt=media").body == content


@pytest.mark.parametrize("content", [b"", b"x" * 5, bytes(3 * UNIT + 7)], ids=len)
@pytest.mark.parametrize("known", [True, False])
def test_the_body_may_say_where_the_content_ends(
    by_hand: Any, place: str, content: bytes, known: bool
) -> None:
    """As Node's client streams: `bytes 0-*/*`, and from where it broke off after that."""
    where, total = start(by_hand, place), len(content) if known else "*"
    held = UNIT if len(content) > UNIT else 0
    if held:
        by_hand("PUT", where, content[:held], content_range=f"bytes 0-{held - 1}/*")
    done = by_hand("PUT", where, content[held:], content_range=f"bytes {held}-*/{total}")
    assert (done.status, done.document["size"]) == (200, str(len(content)))
    assert by_hand("GET", object_path(place, "upload") + "?alt=media").body == content


def test_a_client_that_takes_308_for_a_redirect_gets_200(by_hand: Any, place: str) -> None:
    """As Go's asks for: https://github.com/googleapis/google-api-go-client, `gensupport/resumable.go`."""
    where, asks = start(by_hand, place), {"X_GUploader_No_308": "yes"}
    part = by_hand("POST", where, b"x" * UNIT, content_range=f"bytes 0-{UNIT - 1}/*", **asks)
    assert (part.status, part.headers["range"], part.body) == (200, f"bytes=0-{UNIT - 1}", b"")
    assert part.headers["x-http-status-code-override"] == "308"
    last = by_hand("POST", where, b"", content_range=f"bytes */{UNIT}", **asks)
    assert (last.status, last.document["size"]) == (200, str(UNIT))
    assert "x-http-status-code-override" not in last.headers


def test_a_post_may_name_another_method(by_hand: Any, place: str) -> None:
    """Java's client cannot send PATCH."""
    put(by_hand, place, "a/b")
    path, changes = object_path(place, "a/b"), {"contentType": "text/x-own"}
    assert by_hand("POST", path, changes).status == 405
    assert by_hand("POST", path, changes, X_HTTP_Method_Override="PATCH").status == 200
    assert by_hand("GET", path).document["contentType"] == "text/x-own"
    assert by_hand("GET", path, X_HTTP_Method_Override="DELETE").status == 200
    assert by_hand("POST", path, X_HTTP_Method_Override="no such").status == 405
    assert by_hand("POST", path, X_HTTP_Method_Override="DELETE").status == 204
    assert by_hand("GET", path).status == 404


def test_the_policy_of_a_bucket_is_kept(by_hand: Any, place: str) -> None:
    path = f"/storage/v1/{place}/iam"
    first = by_hand("GET", path + "?optionsRequestedPolicyVersion=3").document
    roles = [one["role"].rpartition(".")[2] for one in first["bindings"]]
    assert roles == ["legacyBucketOwner", "legacyBucketReader"]
    bindings = [{"role": "roles/storage.objectViewer", "members": ["allUsers"]}]
    kept = by_hand("PUT", path, {**first, "bindings": bindings}).document
    assert (kept["bindings"], kept == by_hand("GET", path).document) == (bindings, True)
    assert by_hand("PUT", path, {"bindings": [], "etag": first["etag"]}).status == 412
    assert by_hand("PUT", path, {"bindings": []}).document["bindings"] == []
    assert by_hand("DELETE", f"/storage/v1/{place}").status == 204
    assert by_hand("GET", path).status == 404


@pytest.mark.parametrize("bindings", [{}, [{"members": []}], [{"role": "r", "members": [1]}]])
def test_a_policy_of_another_shape_is_refused(by_hand: Any, place: str, bindings: Any) -> None:
    assert by_hand("PUT", f"/storage/v1/{place}/iam", {"bindings": bindings}).status == 400
    assert len(by_hand("GET", f"/storage/v1/{place}/iam").document["bindings"]) == 2


def test_a_bucket_has_the_number_that_jobs_have(by_hand: Any, place: str) -> None:
    assert by_hand("GET", f"/storage/v1/{place}").document["projectNumber"] == LOCAL_PROJECT_NUMBER


def test_a_cancelled_upload_is_gone(endpoint: StorageEndpoint, by_hand: Any, place: str) -> None:
    where = start(by_hand, place)
    by_hand("PUT", where, b"x" * UNIT, content_range=f"bytes 0-{UNIT - 1}/*")
    assert by_hand("DELETE", where).status == 499
    assert by_hand("PUT", where, b"", content_range="bytes */*").status == 404
    assert by_hand("GET", object_path(place, "upload")).status == 404


def test_the_condition_of_an_upload_counts_at_its_end(by_hand: Any, place: str) -> None:
    where = start(by_hand, place, ifGenerationMatch="0")
    put(by_hand, place, "upload", b"somebody was faster")
    late = by_hand("PUT", where, b"late")
    assert (late.status, late.document["error"]["errors"][0]["reason"]) == (412, "conditionNotMet")
    assert by_hand("GET", object_path(place, "upload") + "?alt=media").body == b"somebody was faster"


@pytest.mark.parametrize("newline", [b"\r\n", b"\n"], ids=["crlf", "lf"])
@pytest.mark.parametrize("content", [b"", b"x", b"\r\n--bo\r\n", b"ends\r", b"\n" * 9, bytes(3 << 20)])
def test_multipart_bodies_of_any_line_ending(
    by_hand: Any, place: str, newline: bytes, content: bytes
) -> None:
    body = newline.join(
        [
            b"--bound'ary",
            b"Content-Type: application/json",
            b"",
            b'{"name": "both", "metadata": {"k": "v"}}',
            b"--bound'ary",
            b"Content-Type: text/x-own",
            b"Content-Transfer-Encoding: binary",
            b"",
            content,
            b"--bound'ary--",
            b"",
        ]
    )
    path = f"/upload/storage/v1/{place}/o?uploadType=multipart"
    found = by_hand("POST", path, body, content_type='multipart/related; boundary="bound\'ary"')
    assert (found.status, found.document["contentType"]) == (200, "text/x-own")
    assert found.document["metadata"] == {"k": "v"}
    assert by_hand("GET", object_path(place, "both") + "?alt=media").body == content
    broken = by_hand(
        "POST", path, body.removesuffix(b"--bound'ary--" + newline), content_type="multipart/related"
    )
    assert broken.status == 400


def test_checksums_in_headers_count(by_hand: Any, place: str) -> None:
    path = f"/upload/storage/v1/{place}/o?uploadType=media&name=sum"
    assert by_hand("POST", path, b"x", content_md5="AAAAAAAAAAAAAAAAAAAAAA==").status == 400
    assert by_hand("POST", path, b"x", x_goog_hash="crc32c=AAAAAA==").status == 400
    good = {"x_goog_hash": "crc32c=KAwGng==,md5=eB5eJF1ptWaXm4bijSPyxw=="}
    assert by_hand("POST", path, b"0123456789", **good).status == 200


def test_a_refusal_is_read_by_a_client_that_is_still_sending(by_hand: Any) -> None:
    path = "/upload/storage/v1/b/no-such-bucket/o?uploadType=media&name=x"
    reply = by_hand("POST", path, bytes(20 << 20))
    assert reply.status == 404
    assert by_hand("GET", "/storage/v1/b").status == 200


def test_a_body_has_a_limit_however_it_comes(by_hand: Any, place: str) -> None:
    document = b'{"name": "' + b"x" * LARGEST_DOCUMENT + b'"}'
    assert by_hand("POST", "/storage/v1/b", document).status == 413
    where = start(by_hand, place)
    assert by_hand("PUT", where, b"x" * UNIT, content_range="bytes 0-9/10").status == 413


def test_nonsense_is_refused_in_the_words_of_the_api(by_hand: Any, place: str) -> None:
    uploads = f"/upload/storage/v1/{place}/o"
    for method, path, body, status in (
        ("POST", "/storage/v1/b", b"{", 400),
        ("POST", "/storage/v1/b", b"[]", 400),
        ("POST", "/storage/v1/b", b"{}", 400),
        ("POST", f"{uploads}?uploadType=magic&name=x", b"", 400),
        ("POST", f"{uploads}?uploadType=media", b"", 400),
        ("POST", f"{uploads}?uploadType=multipart&name=x", b"no multipart", 400),
        ("POST", f"{uploads}?uploadType=media&name=x&ifGenerationMatch=one", b"", 400),
        ("PUT", f"{uploads}?upload_id=unknown", b"", 404),
        ("GET", f"/storage/v1/{place}/o?pageToken=%FF", None, 400),
        ("GET", f"/storage/v1/{place}/o?maxResults=few", None, 400),
        ("GET", f"/storage/v1/{place}/o?matchGlob=%5Bz-a%5D", None, 400),
        ("POST", object_path(place, "x") + "/compose", b"{}", 400),
        ("POST", "/batch/storage/v1", b"", 400),
        ("GET", "/storage/v2/anything", None, 404),
    ):
        reply = by_hand(method, path, body)
        assert reply.status == status, (path, reply.body)
        assert reply.document["error"]["code"] == status
        assert reply.document["error"]["errors"][0]["domain"] == "global"


def test_a_service_leaves_the_uploads_of_another_for_a_week(tmp_path: Path) -> None:
    with closing(stores.StorageService(tmp_path)):
        (uploads,) = (tmp_path / "storage" / "uploads").iterdir()
        for hours, stays in ((167, True), (169, False)):
            os.utime(uploads, (time.time() - hours * 3600,) * 2)
            stores.StorageService(tmp_path).close()
            assert uploads.exists() is stays


def test_a_service_that_ends_leaves_no_unfinished_upload(tmp_path: Path) -> None:
    with storage_service(tmp_path) as running:
        by_hand = Http(running.url)
        by_hand("POST", "/storage/v1/b", {"name": "bucket"})
        where = start(by_hand, "b/bucket")
        by_hand("PUT", where, b"x" * UNIT, content_range=f"bytes 0-{UNIT - 1}/*")
        assert everything(tmp_path / "storage" / "uploads")
        by_hand.connection.close()
    assert not everything(tmp_path / "storage" / "uploads")


def test_a_service_that_ends_does_not_wait_for_an_upload_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("vtrain.emulator.http_server.SHUTDOWN_SECONDS", 0.1)
    with storage_service(tmp_path) as running:
        by_hand = Http(running.url)
        by_hand("POST", "/storage/v1/b", {"name": "bucket"})
        connection = by_hand.connection
        connection.putrequest("POST", "/upload/storage/v1/b/bucket/o?uploadType=media&name=a")
        connection.putheader("Content-Length", "10")
        connection.endheaders(b"half")
        other = Http(running.url)
        while not everything(tmp_path / "storage" / "uploads"):
            other("GET", "/storage/v1/b/bucket/o")
        other.connection.close()
    assert connection.getresponse().status == 503
    connection.close()
    assert not [record for record in caplog.records if record.exc_info]


def test_two_services_of_one_home_keep_each_others_conditions(
    endpoint: StorageEndpoint, by_hand: Any, place: str
) -> None:
    """The second runs in a process of its own."""
    program = (
        "import sys; from pathlib import Path; from vtrain.emulator.storage.guard import Admission; "
        "from vtrain.emulator.storage.storage_app import make_app; "
        "from vtrain.emulator.http_server import serve_app\n"
        "app = make_app(Path(sys.argv[1]), Admission())\n"
        "serve_app(app, '127.0.0.1', 0, lambda url: print(url, flush=True), print)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(endpoint.home)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        urls = [endpoint.url, other.stdout.readline().strip()]
        try:
            won: list[int] = []
            threads = [
                threading.Thread(target=lambda url=url: won.append(_put_once(url, place))) for url in urls * 8
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            other.terminate()
    assert sorted(won) == [200] + [412] * 15


def _put_once(url: str, place: str) -> int:
    by_hand = Http(url)
    try:
        return int(put(by_hand, place, "once", b"x" * 10_000, ifGenerationMatch="0").status)
    finally:
        by_hand.connection.close()


def test_a_composition_may_remove_its_parts(by_hand: Any, place: str) -> None:
    for name in ("1", "2"):
        put(by_hand, place, name, name.encode())
    parts = {"sourceObjects": [{"name": "1"}, {"name": "2"}], "deleteSourceObjects": True}
    assert by_hand("POST", object_path(place, "1") + "/compose", parts).document["size"] == "2"
    assert by_hand("GET", object_path(place, "1") + "?alt=media").body == b"12"
    assert by_hand("GET", object_path(place, "2")).status == 404


def test_a_disk_that_refuses_is_an_error_of_the_service(
    endpoint: StorageEndpoint, by_hand: Any, place: str, tmp_path: Path
) -> None:
    uploads = endpoint.home / "storage" / "uploads"
    uploads.rename(tmp_path / "kept")
    uploads.write_text("a file where a folder has to be")
    try:
        reply = put(by_hand, place, "x")
    finally:
        uploads.unlink()
        (tmp_path / "kept").rename(uploads)
    assert reply.status == 500
    assert reply.document["error"]["errors"][0]["reason"] == "backendError"
    assert put(by_hand, place, "x").status == 200


def test_readers_of_an_object_that_is_overwritten_get_one_whole_version(
    endpoint: StorageEndpoint, by_hand: Any, place: str
) -> None:
    versions = {bytes([letter]) * (1 << 20) for letter in b"abc"}
    put(by_hand, place, "busy", min(versions))
    writing = threading.Event()

    def write() -> None:
        other = Http(endpoint.url)
        for _ in range(10):
            for version in versions:
                put(other, place, "busy", version)
        other.connection.close()
        writing.set()

    thread = threading.Thread(target=write)
    thread.start()
    while not writing.is_set():
        reply = by_hand("GET", object_path(place, "busy") + "?alt=media")
        assert reply.status == 200 and reply.body in versions
        found = by_hand("GET", object_path(place, "busy")).document
        assert "md5Hash" in found and found["contentType"] == "text/plain"
    thread.join()


def test_a_head_request_tells_size_and_checksum(by_hand: Any, place: str) -> None:
    put(by_hand, place, "x", b"0123456789")
    reply = by_hand("HEAD", f"/download{object_path(place, 'x')}")
    assert (reply.status, reply.body, reply.headers["content-length"]) == (200, b"", "10")


@pytest.mark.parametrize("name", ["%ff", "a%C3", "%ed%a0%80"])
def test_a_name_that_is_not_utf8_is_refused(
    endpoint: StorageEndpoint, by_hand: Any, place: str, name: str
) -> None:
    around = everything(endpoint.home)
    upload = f"/upload/storage/v1/{place}/o"
    for method, path in (
        ("POST", f"{upload}?uploadType=media&name={name}"),
        ("POST", f"{upload}?uploadType=resumable&name={name}"),
        ("GET", f"/storage/v1/{place}/o/{name}"),
        ("DELETE", f"/storage/v1/{place}/o/{name}"),
        ("GET", f"/storage/v1/{place}/o?prefix={name}"),
    ):
        reply = by_hand(method, path, b"x" if method == "POST" else None)
        assert (reply.status, "not UTF-8" in reply.document["error"]["message"]) == (400, True), path
    assert everything(endpoint.home) == around


WRONG_TYPES: tuple[dict[str, Any], ...] = (
    {"metadata": "text"},
    {"metadata": ["list"]},
    {"metadata": {"a": 1}},
    {"metadata": {"a": {"b": "c"}}},
    {"contentType": 5},
    {"contentType": {"a": "b"}},
    {"cacheControl": ["no-store"]},
    {"temporaryHold": "yes"},
)


@pytest.mark.parametrize("fields", WRONG_TYPES, ids=str)
def test_metadata_of_another_type_is_refused(by_hand: Any, place: str, fields: dict[str, Any]) -> None:
    put(by_hand, place, "x")
    before = by_hand("GET", object_path(place, "x")).document
    upload = f"/upload/storage/v1/{place}/o?uploadType=resumable"
    assert by_hand("PATCH", object_path(place, "x"), fields).status == 400
    assert by_hand("PUT", object_path(place, "x"), fields).status == 400
    assert by_hand("POST", upload, {"name": "y", **fields}).status == 400
    assert by_hand("POST", f"{object_path(place, 'x')}/copyTo/{place}/o/y", fields).status == 400
    assert by_hand("GET", object_path(place, "x")).document == before
    assert by_hand("GET", object_path(place, "y")).status == 404
