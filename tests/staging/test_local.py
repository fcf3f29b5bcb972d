from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lib.privileges import run_bound

from vtrain.errors import ConfigError, StorageError
from vtrain.staging import LocalBuckets, Staged, file_uri, join_uri, split_uri


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package as packaging leaves it: below the hash of its content."""
    file = tmp_path / "packages" / "0a1b2c" / "trainer-0.0.0.tar.gz"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"package")
    return file


def test_gs_lies_below_the_home_and_file_where_it_says(tmp_path: Path) -> None:
    buckets = LocalBuckets(tmp_path)
    assert buckets.local_path("gs://bucket/a/b.txt") == tmp_path / "buckets" / "bucket" / "a" / "b.txt"
    assert buckets.local_path("gs://bucket") == tmp_path / "buckets" / "bucket"
    assert buckets.local_path("file:///data/a%20b") == Path("/data/a b")


@pytest.mark.parametrize("path", ["/tmp/with space", "/tmp/100%", "/tmp/ä#?x", os.fsdecode(b"/tmp/\xff")])
def test_a_file_uri_leads_back_to_its_path(path: str, tmp_path: Path) -> None:
    assert LocalBuckets(tmp_path).local_path(file_uri(Path(path))) == Path(path)


URI = "gs://bucket/folder/0a1b2c/trainer-0.0.0.tar.gz"


def test_a_package_is_staged_once(tmp_path: Path, package: Path) -> None:
    buckets = LocalBuckets(tmp_path / "home")
    target = buckets.local_path(URI)
    assert buckets.stage(package, URI) == Staged(uri=URI, written=True)
    assert target.read_bytes() == b"package"
    before = target.stat()
    assert buckets.stage(package, URI) == Staged(uri=URI, written=False)
    assert (target.stat().st_mtime_ns, target.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def test_half_a_file_is_never_taken_for_the_whole(tmp_path: Path, package: Path) -> None:
    buckets = LocalBuckets(tmp_path / "home")
    buckets.stage(package, URI)
    target = buckets.local_path(URI)
    target.write_bytes(b"pac")
    assert buckets.stage(package, URI).written
    assert target.read_bytes() == b"package"


@pytest.mark.child
def test_a_failed_write_leaves_nothing(tmp_path: Path, package: Path) -> None:
    code = (
        "import resource, signal, sys; from pathlib import Path; from vtrain.staging import LocalBuckets\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (3, 3))\n"
        "LocalBuckets(Path(sys.argv[1])).stage_all({Path(sys.argv[2]): sys.argv[3]}, print)"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "home"), str(package), URI]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert f"{package.name}: File too large." in result.stderr
    assert [file for file in (tmp_path / "home").rglob("*") if file.is_file()] == []


def test_a_bucket_that_cannot_be_made_is_named(tmp_path: Path, package: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(StorageError, match=r"Cannot stage .*home"):
        LocalBuckets(tmp_path / "home").stage_all({package: URI}, print)


@pytest.mark.child
def test_a_folder_that_takes_no_files_is_named_and_no_temporary_file(tmp_path: Path, package: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o555)
    code = (
        "import sys; from pathlib import Path; from vtrain.staging import LocalBuckets\n"
        "home, package, uri = sys.argv[1:]\n"
        "LocalBuckets(Path(home)).stage_all({Path(package): uri}, print)"
    )
    uri = file_uri(tmp_path / "closed" / package.name)
    result = run_bound([sys.executable, "-c", code, str(tmp_path), str(package), uri])
    assert f"Cannot stage {tmp_path / 'closed'}: Permission denied." in result.stderr


@pytest.mark.parametrize(
    "uri", ["gs://bucket/../other/a", "gs://bucket/a/../../../x", "gs://bucket/a/../../.."]
)
def test_no_path_leads_out_of_a_bucket(uri: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="leads out of its bucket"):
        LocalBuckets(tmp_path).local_path(uri)


def test_no_link_leads_out_of_a_bucket(tmp_path: Path) -> None:
    (tmp_path / "buckets" / "bucket").mkdir(parents=True)
    (tmp_path / "buckets" / "bucket" / "out").symlink_to("/etc")
    with pytest.raises(ConfigError, match="leads out of its bucket"):
        LocalBuckets(tmp_path).local_path("gs://bucket/out/passwd")


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "bucket/a",
        "s3://bucket/a",
        "gs://",
        "gs:///a",
        "gs://UPPER/a",
        "gs://../a",
        "file://host/a",
        "file:a",
        "file:///a?b",
        "file:///a#b",
        "file://[/a",
        "http://[::1",
        "file://\u2100/a",
        "gs://bucket/a\0b",
        "file:///a%00b",
    ],
)
def test_other_places_are_refused(uri: str) -> None:
    with pytest.raises(ConfigError):
        split_uri(uri)


def test_joining() -> None:
    assert join_uri("gs://bucket/", "a", "b") == "gs://bucket/a/b"
