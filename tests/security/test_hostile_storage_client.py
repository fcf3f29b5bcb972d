"""A hostile client of `vtrain emulator storage`: 100 names, and each kind of request with every one."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

pytest.importorskip("starlette", reason="needs the extra emulator")
pytest.importorskip("uvicorn")
pytest.importorskip("google_crc32c")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lib.link_swapper import swapped_with_link
from lib.storage_service import Http, Reply, StorageEndpoint, storage_service

from vtrain.emulator.storage.object_files import BucketFolders
from vtrain.emulator.storage.storage_refusals import StorageRefusal

SECRET = b"the secret of this machine"
OUTSIDE = "OUTSIDE"
"""Stands for the absolute path of the folder that nobody may reach."""
BUCKET_NAMES = (
    *("..", ".", "../..", "./good", "good/..", "good/../..", "good/../../../outside", "good/../good"),
    *("good/.", "good/", "good//", "/good", "good/folder", "good/x", "../buckets/good", "../outside"),
    *(f"good/../../..{OUTSIDE}", OUTSIDE, f"/{OUTSIDE}", "/etc", "etc/passwd", "~", "~root"),
    *("%2e%2e", "..%2f..", "..%5c..", "..\\..", "good\\..\\..", "good%00", "good\0", "\0"),
    *("good\n", "good\r\nX-Evil: 1", "good ", " good", "GOOD", "g\u00f6od", "g\u200bood", "\ufeffgood"),
    *("go", "g" * 64, "g" * 300, "a..b", ".good", "good.", "-good", "_good", "192.168.0.1"),
    *("good?x", "good#x", "good*", "$(id)", "good;ls", "goog-mine", "g00gle", "file:///etc", "gs://good"),
    *("out/secret", "good/out", "good/out/secret", "good/up", "good/loop/.."),
)
OBJECT_NAMES = (
    *("../secret", "../../secret", "../../../outside/secret", "../../outside/secret", "..", ".", "./.."),
    *(f"{OUTSIDE}/secret", f"/{OUTSIDE}/secret", f"..{OUTSIDE}/secret", "/etc/passwd", "//etc/passwd"),
    *("out/secret", "out", "out/", "out/./secret", "out//secret", "out/../secret", "folder/out/secret"),
    *("file", "up/../outside/secret", "up", "loop/loop/loop/out/secret", "loop", "folder/../out/secret"),
    *("dangling", "dangling/x", "fifo", "fifo/x", "..\\..\\outside\\secret", "%2e%2e/secret", "..%2fsecret"),
    *("out\0/secret", "\0", "a\nb", "-rf", "~/.ssh/id_rsa", "$(id)", "\u202e", "x" * 1024, "x" * 1025),
    *("a/" * 511 + "b", "/" * 1024, "../" * 300 + "outside/secret", "C:\\x", "/dev/stdin"),
)
assert len(BUCKET_NAMES) + len(OBJECT_NAMES) >= 100


class Target(NamedTuple):
    """A service with a bucket `good`, and a folder beside its home with something to lose."""

    endpoint: StorageEndpoint
    outside: Path

    def state(self) -> dict[str, bytes]:
        """All that lies beside the buckets and the service's own folder."""
        own = (self.endpoint.buckets, self.endpoint.home / "storage")
        found = {}
        for path in self.outside.parent.rglob("*"):
            if path.is_file() and not any(path.is_relative_to(folder) for folder in own):
                found[str(path)] = path.read_bytes()
        return found


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    top = tmp_path_factory.mktemp("machine")
    outside = top / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(SECRET)
    (outside / "hidden-name-outside").write_bytes(SECRET)
    (top / "secret").write_bytes(SECRET)
    with storage_service(top / "home") as endpoint:
        (endpoint.home / "secret").write_bytes(SECRET)
        folder = endpoint.buckets / "good"
        (folder / "folder").mkdir(parents=True)
        (folder / "mine").write_text("mine")
        for place in (folder, folder / "folder"):
            (place / "out").symlink_to(outside)
        (folder / "file").symlink_to(outside / "secret")
        (folder / "up").symlink_to("..")
        (folder / "loop").symlink_to(".")
        (folder / "dangling").symlink_to(outside / "made-by-nobody")
        os.mkfifo(folder / "fifo")
        yield Target(endpoint, outside)


@pytest.fixture
def http(target: Target) -> Iterator[Http]:
    made = Http(target.endpoint.url)
    yield made
    made.connection.close()


def requests(bucket: str, name: str) -> Iterator[tuple[str, str, Any]]:
    """Reading, listing, changing, copying from and to, composing, uploading in three ways, and deleting."""
    b, o = quote(bucket, safe=""), quote(name, safe="")
    top, good = f"/storage/v1/b/{b}", "/storage/v1/b/good/o/mine"
    yield "GET", f"{top}/o/{o}?alt=media", None
    yield "GET", f"/download{top}/o/{o}?alt=media", None
    yield "GET", f"{top}/o/{o}", None
    yield "GET", f"{top}/o?prefix={quote(name.rpartition('/')[0], safe='')}%2F&delimiter=%2F", None
    yield "GET", f"{top}/o?prefix={o}", None
    yield "PATCH", f"{top}/o/{o}", {"metadata": {"a": "b"}}
    yield "POST", f"{top}/o/{o}/rewriteTo/b/good/o/stolen", {}
    yield "POST", f"{top}/o/{o}/copyTo/b/good/o/stolen", {}
    yield "POST", f"{good}/rewriteTo/b/{b}/o/{o}", {}
    yield "POST", f"{good}/copyTo/b/{b}/o/{o}", {}
    parts = {"sourceObjects": [{"name": name}]}
    yield "POST", "/storage/v1/b/good/o/stolen/compose", parts
    yield "POST", f"{top}/o/{o}/compose", {"sourceObjects": [{"name": "mine"}]}
    yield "POST", f"/upload{top}/o?uploadType=media&name={o}", b"evil"
    document = json.dumps({"name": name, "bucket": bucket}).encode()
    both = b"--cut\r\n\r\n" + document + b"\r\n--cut\r\n\r\nevil\r\n--cut--\r\n"
    yield "POST", f"/upload{top}/o?uploadType=multipart", both
    inner = f"DELETE {top}/o/{o} HTTP/1.1\r\n\r\n"
    yield "POST", "/batch/storage/v1", f"--cut\r\n\r\n{inner}\r\n--cut--".encode()
    yield "DELETE", f"{top}/o/{o}", None


def attack(http: Http, bucket: str, name: str) -> Iterator[Reply]:
    for method, path, body in requests(bucket, name):
        options = {"content_type": "multipart/mixed; boundary=cut"} if path.startswith("/batch") else {}
        yield http(method, path, body, **options)
    b = quote(bucket, safe="")
    begun = http("POST", f"/upload/storage/v1/b/{b}/o?uploadType=resumable", {"name": name})
    yield begun
    if begun.status == 200:
        path = begun.headers["location"].removeprefix(http.url)
        yield http("PUT", path, b"evil", content_range="bytes 0-3/4")


def endings(target: Target, names: tuple[str, ...]) -> list[str]:
    return [name.replace(OUTSIDE, str(target.outside)) for name in names]


def check_reply(reply: Reply, about: object) -> None:
    assert reply.status < 500, (about, reply)
    assert SECRET not in reply.body, about
    assert b"hidden-name-outside" not in reply.body, about
    assert "x-evil" not in reply.headers


def test_no_name_of_a_bucket_leads_anywhere(target: Target, http: Http) -> None:
    before, buckets = target.state(), set(target.endpoint.buckets.iterdir())
    for bucket in endings(target, BUCKET_NAMES):
        for reply in attack(http, bucket, "secret"):
            check_reply(reply, bucket)
        for method, path, body in (
            ("POST", "/storage/v1/b", {"name": bucket}),
            ("GET", f"/storage/v1/b/{quote(bucket, safe='')}", None),
            ("PATCH", f"/storage/v1/b/{quote(bucket, safe='')}", {"labels": {}}),
            ("DELETE", f"/storage/v1/b/{quote(bucket, safe='')}", None),
        ):
            reply = http(method, path, body)
            check_reply(reply, bucket)
            assert reply.status >= 400, (method, bucket, reply)
    assert target.state() == before
    assert {path.name for path in target.endpoint.buckets.iterdir()} == {path.name for path in buckets}


def test_no_name_of_an_object_leads_anywhere(target: Target, http: Http) -> None:
    before = target.state()
    for name in endings(target, OBJECT_NAMES):
        for reply in attack(http, "good", name):
            check_reply(reply, name)
    assert target.state() == before
    assert not (target.outside / "made-by-nobody").exists()
    assert {path.name for path in target.endpoint.buckets.iterdir()} <= {"good", "links"}


def test_a_listing_does_not_go_through_links(target: Target, http: Http) -> None:
    folder = target.endpoint.buckets / "links"
    (folder / "folder").mkdir(parents=True)
    for place in (folder, folder / "folder"):
        (place / "out").symlink_to(target.outside)
        (place / "up").symlink_to("..")
        (place / "loop").symlink_to(".")
    for prefix in ("out/", "folder/out/", "up/", "loop/", "out/h", "up/good/", "loop/out/"):
        for delimiter in ("", "&delimiter=/", "&delimiter=n"):
            reply = http("GET", f"/storage/v1/b/links/o?prefix={prefix}{delimiter}")
            assert reply.status == 200
            assert not {"items", "prefixes"} & reply.document.keys(), (prefix, reply.document)


def test_a_link_that_appears_while_a_request_is_answered_leads_nowhere(target: Target, http: Http) -> None:
    """What a trainer does in a bucket that its container has mounted."""
    folder = target.endpoint.buckets / "swapped" / "folder"
    folder.mkdir(parents=True)
    (folder / "secret").write_text("own")
    before = target.state()
    with swapped_with_link(folder, target.outside):
        for number in range(80):
            for method, path, body in (
                ("GET", "/storage/v1/b/swapped/o/folder%2Fsecret?alt=media", None),
                ("GET", "/storage/v1/b/swapped/o?prefix=folder%2F", None),
                ("POST", f"/upload/storage/v1/b/swapped/o?uploadType=media&name=folder%2F{number}%2Fx", b"x"),
                ("POST", "/upload/storage/v1/b/swapped/o?uploadType=media&name=folder%2Fsecret", b"evil"),
                ("DELETE", "/storage/v1/b/swapped/o/folder%2Fhidden-name-outside", None),
                ("POST", "/storage/v1/b/swapped/o/folder%2Fsecret/copyTo/b/good/o/stolen", {}),
            ):
                reply = http(method, path, body)
                assert SECRET not in reply.body
                assert method == "DELETE" or b"hidden-name-outside" not in reply.body
    shutil.rmtree(folder.parent)
    assert target.state() == before


PART = st.one_of(
    st.sampled_from(["..", ".", "", "a", "link", "up", "folder", "~", "%2e%2e", "..\\", "\0", "a" * 300]),
    st.text(max_size=4),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bucket=st.lists(PART, min_size=1, max_size=5).map("/".join), parts=st.lists(PART, max_size=6))
def test_every_path_lies_below_its_bucket_or_aside(tmp_path: Path, bucket: str, parts: list[str]) -> None:
    buckets, aside = tmp_path / "buckets", tmp_path / "aside"
    if not buckets.exists():
        (buckets / "good" / "folder").mkdir(parents=True)
        (buckets / "good" / "link").symlink_to(tmp_path)
        (buckets / "good" / "folder" / "up").symlink_to("../..")
    folders = BucketFolders(buckets, aside)
    name = "/".join(parts)
    for tried in (bucket, "good"):
        try:
            file = folders.prepare_file(tried, name)
        except (StorageRefusal, UnicodeEncodeError):
            assert tried == bucket or any("\ud800" <= letter <= "\udfff" for letter in name)
            continue
        path = file.root.path / file.place
        lies_in = [folder / tried for folder in (buckets, aside) if path.is_relative_to(folder / tried)]
        assert len(lies_in) == 1
        assert path.parent.resolve().is_relative_to(lies_in[0].resolve()) and "/" not in tried


PAGES = (
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": "http://localhost:8080"},
    {"sec_fetch_site": "cross-site"},
    {"sec_fetch_site": "same-site"},
    {"host": "evil.example"},
    {"host": "evil.example:9023"},
    {"host": "127.0.0.1.evil.example"},
    {"host": "localhost.evil.example"},
    {"host": "localhost@evil.example"},
    {"host": ""},
)


@pytest.mark.parametrize("headers", PAGES, ids=str)
def test_no_web_page_reads_or_writes(target: Target, http: Http, headers: dict[str, str]) -> None:
    before = set(target.endpoint.buckets.rglob("*"))
    for method, path, body in (
        ("GET", "/storage/v1/b/good/o/mine?alt=media", None),
        ("POST", "/storage/v1/b", {"name": "made-by-a-page"}),
        ("POST", "/upload/storage/v1/b/good/o?uploadType=media&name=page", b"evil"),
        ("DELETE", "/storage/v1/b/good/o/mine", None),
        ("POST", "/batch", b"--cut\r\n\r\nDELETE /storage/v1/b/good/o/mine HTTP/1.1\r\n\r\n\r\n--cut--"),
        ("OPTIONS", "/storage/v1/b/good/o/mine", None),
    ):
        reply = http(method, path, body, **headers)
        assert reply.status == 403, (method, path)
        assert not any(name.startswith("access-control-") for name in reply.headers)
    assert set(target.endpoint.buckets.rglob("*")) == before


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1:1", "[::1]:9023", "192.168.1.2", "host.docker.internal"]
)
def test_programs_reach_it_by_any_address(http: Http, host: str) -> None:
    assert http("GET", "/storage/v1/b/good/o/mine?alt=media", host=host).body == b"mine"


def test_an_object_that_is_a_web_page_runs_nothing(http: Http) -> None:
    headers = http("GET", "/storage/v1/b/good/o/mine?alt=media").headers
    assert headers["content-security-policy"] == "sandbox"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
