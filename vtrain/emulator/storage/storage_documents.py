"""The JSON documents and HTTP headers of buckets and objects."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from vtrain.emulator.storage.catalog import BucketRecord, etag_of
from vtrain.emulator.storage.object_store import StoredObject
from vtrain.messages.names import LOCAL_PROJECT_NUMBER
from vtrain.staging.cloud import DUAL_REGIONS
from vtrain.times import from_nanoseconds


def bucket_document(name: str, record: BucketRecord, base: str) -> dict[str, Any]:
    """A bucket; `base` is the service's address."""
    location = record.fields["location"]
    return {
        "kind": "storage#bucket",
        "id": name,
        "selfLink": f"{base}/storage/v1/b/{name}",
        "name": name,
        "projectNumber": LOCAL_PROJECT_NUMBER,
        "storageClass": "STANDARD",
        "locationType": _location_type(location),
        "metageneration": str(record.metageneration),
        "etag": etag_of(record.metageneration),
        "timeCreated": _time(record.created),
        "updated": _time(record.updated),
        **record.fields,
    }


_FIRST_BINDINGS = [
    {
        "role": "roles/storage.legacyBucketOwner",
        "members": [f"{who}:{LOCAL_PROJECT_NUMBER}" for who in ("projectEditor", "projectOwner")],
    },
    {"role": "roles/storage.legacyBucketReader", "members": [f"projectViewer:{LOCAL_PROJECT_NUMBER}"]},
]
"""Those of every new bucket ("Default roles" of Cloud Storage); gsutil fails on a policy without bindings."""


def policy_document(name: str, record: BucketRecord) -> dict[str, Any]:
    """The IAM policy of a bucket. It is kept and answered, and restricts nothing."""
    about = {"kind": "storage#policy", "resourceId": f"projects/_/buckets/{name}", "version": 1}
    return {**about, "bindings": _FIRST_BINDINGS, **record.policy, "etag": etag_of(record.policy_number)}


def _location_type(location: str) -> str:
    if location.lower() in DUAL_REGIONS:
        return "dual-region"
    return "region" if "-" in location else "multi-region"


def object_document(found: StoredObject, base: str) -> dict[str, Any]:
    """An object; `base` is the service's address."""
    record = found.record
    path = f"storage/v1/b/{found.bucket}/o/{quote(found.name, safe='')}"
    document: dict[str, Any] = {
        "kind": "storage#object",
        "id": f"{found.bucket}/{found.name}/{record.generation}",
        "selfLink": f"{base}/{path}",
        "mediaLink": f"{base}/download/{path}?generation={record.generation}&alt=media",
        "name": found.name,
        "bucket": found.bucket,
        "generation": str(record.generation),
        "metageneration": str(record.metageneration),
        "storageClass": "STANDARD",
        "size": str(record.size),
        "etag": etag(found),
        "timeCreated": _time(record.created),
        "updated": _time(record.updated),
        "timeStorageClassUpdated": _time(record.created),
        "timeFinalized": _time(record.created),
    }
    if record.crc32c:
        document["crc32c"] = record.crc32c
    if record.md5:
        document["md5Hash"] = record.md5
    if record.components:
        document["componentCount"] = record.components
    return document | record.fields


def object_headers(found: StoredObject) -> dict[str, str]:
    """The HTTP headers of an object's content."""
    record, fields = found.record, found.record.fields
    md5 = f",md5={record.md5}" if record.md5 else ""
    described = {
        "content-type": fields.get("contentType", "application/octet-stream"),
        "content-encoding": fields.get("contentEncoding"),
        "content-disposition": fields.get("contentDisposition"),
        "content-language": fields.get("contentLanguage"),
        "cache-control": fields.get("cacheControl"),
    }
    return {name: quote(str(value), safe=_HEADER_SAFE) for name, value in described.items() if value} | {
        **_FOR_BROWSERS,
        "etag": etag(found),
        "x-goog-hash": f"crc32c={record.crc32c}{md5}",
        "x-goog-generation": str(record.generation),
        "x-goog-metageneration": str(record.metageneration),
        "x-goog-storage-class": str(fields.get("storageClass", "STANDARD")),
        "x-goog-stored-content-length": str(record.size),
        "x-goog-stored-content-encoding": str(fields.get("contentEncoding", "identity")),
    }


_FOR_BROWSERS = {
    "content-security-policy": "sandbox",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
}
"""An object that is a web page runs nothing in a browser, and no other page takes it in."""
_HEADER_SAFE = "".join(map(chr, range(32, 127)))
"""Characters of a header; others in a value that a client chose are percent-encoded."""


def etag(found: StoredObject) -> str:
    """A text that changes whenever the object or its metadata does."""
    return etag_of(found.record.generation, found.record.metageneration)


def _time(nanoseconds: int) -> str:
    return from_nanoseconds(nanoseconds, 3)
