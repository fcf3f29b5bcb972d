from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from lib.storage_relay import QUICK, StorageRelay

from vtrain.errors import ConfigError, CredentialsError, StorageError
from vtrain.staging.cloud import CloudBuckets

MakeBucket = Callable[..., None]


def anywhere(method: str, _target: str) -> bool:
    return True


def permission(_method: str, target: str) -> bool:
    return "testPermissions" in target


def description(method: str, target: str) -> bool:
    return method == "GET" and "testPermissions" not in target


def test_a_good_bucket_is_looked_at_and_nothing_is_sent(cloud: CloudBuckets, relay: StorageRelay) -> None:
    cloud.examine("gs://stage/folder", "gs://stage/output")
    assert [passed.method for passed in relay.requests] == ["GET", "GET"]


@pytest.mark.parametrize(
    ("staging", "output"),
    [("gs://absent/x", ""), ("gs://stage", "gs://absent/out")],
)
def test_a_bucket_that_does_not_exist(cloud: CloudBuckets, staging: str, output: str) -> None:
    with pytest.raises(StorageError, match="gs://absent does not exist") as refusal:
        cloud.examine(staging, output)
    assert refusal.value.hint == (
        "$ gcloud storage buckets create gs://absent --location=us-central1 --project=demo"
    )


@pytest.mark.parametrize(
    ("location", "pair", "region"),
    [
        ("us-central1", (), "us-central1"),
        ("us", (), "us-east4"),
        ("EU", (), "europe-west4"),
        ("asia", (), "asia-east1"),
        ("nam4", (), "us-east1"),
        ("us", ("US-EAST4", "US-WEST1"), "us-west1"),
    ],
)
def test_a_bucket_in_the_region(
    cloud: CloudBuckets, make_bucket: MakeBucket, location: str, pair: tuple[str, ...], region: str
) -> None:
    make_bucket("placed", location, pair)
    CloudBuckets("demo", region, cloud.credentials, QUICK).examine("gs://placed")


@pytest.mark.parametrize(
    ("location", "pair", "region"),
    [
        ("us-east1", (), "us-central1"),
        ("us", (), "europe-west4"),
        ("eu", (), "europe-west2"),
        ("nam4", (), "us-west1"),
        ("us", ("US-EAST4", "US-WEST1"), "us-central1"),
    ],
)
def test_a_bucket_elsewhere(
    cloud: CloudBuckets, make_bucket: MakeBucket, location: str, pair: tuple[str, ...], region: str
) -> None:
    make_bucket("placed", location, pair)
    with pytest.raises(StorageError, match=f"lies in {location}.*runs in {region}") as refusal:
        CloudBuckets("demo", region, cloud.credentials, QUICK).examine("gs://placed")
    assert f"--location={region} --project=demo" in refusal.value.hint


def test_a_bucket_that_may_not_be_described_is_judged_by_its_permissions(
    cloud: CloudBuckets, relay: StorageRelay
) -> None:
    relay.refuse(403, fits=description)
    cloud.examine("gs://stage")


def test_a_bucket_of_somebody_else(cloud: CloudBuckets, relay: StorageRelay) -> None:
    relay.answer(b'{"kind": "storage#testIamPermissionsResponse"}', fits=permission)
    with pytest.raises(StorageError, match=r"takes no objects from you") as refusal:
        cloud.examine("gs://stage")
    assert "add-iam-policy-binding gs://stage" in refusal.value.hint


def test_an_upload_that_is_refused(cloud: CloudBuckets, relay: StorageRelay, tmp_path: Path) -> None:
    file = tmp_path / "package"
    file.write_bytes(b"package")
    relay.refuse(403, message="somebody does not have storage.objects.create access.")
    with pytest.raises(StorageError, match=r"gs://stage/package is not open to you: somebody") as refusal:
        cloud.stage_all({file: "gs://stage/package"}, print)
    assert refusal.value.hint.startswith("$ gcloud storage buckets add-iam-policy-binding gs://stage ")


def test_a_service_that_stays_in_trouble(cloud: CloudBuckets, relay: StorageRelay) -> None:
    relay.refuse(503, times=2000, fits=anywhere, message="Try later.")
    cloud.settings = msgspec.structs.replace(QUICK, give_up_after=0.1)
    with pytest.raises(StorageError, match="gs://stage is refused: Try later"):
        cloud.examine("gs://stage")


def test_nobody_there(cloud: CloudBuckets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    cloud.settings = msgspec.structs.replace(QUICK, give_up_after=0.1)
    with pytest.raises(StorageError, match=r"at http://127.0.0.1:9 has stopped\."):
        cloud.examine("gs://stage")


@pytest.mark.parametrize("token", [None, "expired"])
def test_credentials_that_do_not_count(
    relay: StorageRelay, cloud: CloudBuckets, monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    from google.oauth2.credentials import Credentials

    monkeypatch.delenv("STORAGE_EMULATOR_HOST")
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE", relay.url)
    relay.refuse(401, fits=anywhere, message="Invalid Credentials")
    buckets = CloudBuckets("demo", "us-central1", lambda: Credentials(token), QUICK)
    with pytest.raises(CredentialsError, match="No access token can be had") as refusal:
        buckets.examine("gs://stage")
    assert refusal.value.hint == "$ gcloud auth application-default login"


def test_gclouds_endpoint_is_heeded_with_the_callers_credentials(
    relay: StorageRelay, cloud: CloudBuckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    from google.oauth2.credentials import Credentials

    monkeypatch.delenv("STORAGE_EMULATOR_HOST")
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE", f"{relay.url}/storage/v1/")
    CloudBuckets("demo", "us-central1", lambda: Credentials("secret"), QUICK).examine("gs://stage")
    assert {passed.authorization for passed in relay.requests} == {"Bearer secret"}


@pytest.mark.parametrize("uri", ["file:///srv/staging", "/srv/staging", "gs://UPPER/x"])
def test_what_vertex_cannot_read_is_refused(uri: str) -> None:
    buckets = CloudBuckets("demo", "us-central1", lambda: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(ConfigError):
        buckets.accept(uri)
