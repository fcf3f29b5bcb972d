"""Requests about buckets."""

from __future__ import annotations

from starlette.responses import Response

from vtrain.emulator.storage.call import Call, answer
from vtrain.emulator.storage.conditions import whole_number
from vtrain.emulator.storage.listing import MOST_RESULTS, Selection, select
from vtrain.emulator.storage.refusals import Refusal
from vtrain.emulator.storage.resources import bucket_document
from vtrain.emulator.storage.service import StorageService


def insert_bucket(service: StorageService, call: Call) -> Response:
    """`POST /b`."""
    document = call.document()
    name = document.get("name")
    if not isinstance(name, str):
        raise Refusal(400, "required", "The bucket has no name.")
    return answer(bucket_document(name, service.buckets.create(name, document), call.base))


def get_bucket(service: StorageService, call: Call) -> Response:
    """`GET /b/BUCKET`."""
    record = service.buckets.get(call.bucket)
    call.conditions.check(0, record.metageneration, reading=True)
    return answer(bucket_document(call.bucket, record, call.base))


def list_buckets(service: StorageService, call: Call) -> Response:
    """`GET /b`."""
    selection = Selection(
        prefix=call.query.get("prefix", ""),
        limit=whole_number(call.query, "maxResults") or MOST_RESULTS,
        token=call.query.get("pageToken", ""),
    )
    page = select(service.buckets.names(), selection)
    items = [bucket_document(name, service.buckets.get(name), call.base) for name in page.names]
    token = {"nextPageToken": page.token} if page.token else {}
    return answer({"kind": "storage#buckets", "items": items, **token})


def patch_bucket(service: StorageService, call: Call) -> Response:
    """`PATCH /b/BUCKET`, and `PUT`."""
    record = service.buckets.patch(call.bucket, call.document(), call.conditions)
    return answer(bucket_document(call.bucket, record, call.base))


def delete_bucket(service: StorageService, call: Call) -> Response:
    """`DELETE /b/BUCKET`."""
    service.buckets.remove(call.bucket, call.conditions)
    return Response(status_code=204)


def get_policy(service: StorageService, call: Call) -> Response:
    """`GET /b/BUCKET/iam`: nobody is kept out, and so nobody is named."""
    service.buckets.get(call.bucket)
    resource_id = f"projects/_/buckets/{call.bucket}"
    return answer({"kind": "storage#policy", "resourceId": resource_id, "version": 1, "etag": "CAE="})


def test_permissions(service: StorageService, call: Call) -> Response:
    """`GET /b/BUCKET/iam/testPermissions`: everybody has every permission."""
    service.buckets.get(call.bucket)
    asked = [value for key, value in call.repeated if key == "permissions"]
    return answer({"kind": "storage#testIamPermissionsResponse", "permissions": asked})


def get_layout(service: StorageService, call: Call) -> Response:
    """`GET /b/BUCKET/storageLayout`."""
    document = bucket_document(call.bucket, service.buckets.get(call.bucket), call.base)
    named = {key: document[key] for key in ("location", "locationType")}
    return answer({"kind": "storage#storageLayout", "bucket": call.bucket, **named})


def list_managed_folders(service: StorageService, call: Call) -> Response:
    """`GET /b/BUCKET/managedFolders`: there are none."""
    service.buckets.get(call.bucket)
    return answer({"kind": "storage#managedFolders"})
