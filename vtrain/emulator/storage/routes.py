"""Requests about buckets and objects, but for uploads, and responses with an object's content."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from vtrain.emulator.storage.object_listing import MOST_RESULTS, ObjectSelection, select
from vtrain.emulator.storage.object_store import MOST_COMPONENTS, Source, settable
from vtrain.emulator.storage.storage_call import StorageCall, answer
from vtrain.emulator.storage.storage_documents import (
    bucket_document,
    object_document,
    object_headers,
    policy_document,
)
from vtrain.emulator.storage.storage_refusals import Conditions, StorageRefusal, invalid, whole_number
from vtrain.emulator.storage.stores import StorageService


def insert_bucket(service: StorageService, call: StorageCall) -> Response:
    """`POST /b`."""
    document = call.document()
    name = document.get("name")
    if not isinstance(name, str):
        raise StorageRefusal(400, "required", "The bucket has no name.")
    return answer(bucket_document(name, service.buckets.create(name, document), call.base))


def get_bucket(service: StorageService, call: StorageCall) -> Response:
    """`GET /b/BUCKET`."""
    record = service.buckets.get(call.bucket)
    call.conditions.check(0, record.metageneration, reading=True)
    return answer(bucket_document(call.bucket, record, call.base))


def list_buckets(service: StorageService, call: StorageCall) -> Response:
    """`GET /b`."""
    selection = ObjectSelection(
        prefix=call.query.get("prefix", ""),
        limit=whole_number(call.query, "maxResults") or MOST_RESULTS,
        token=call.query.get("pageToken", ""),
    )
    names = list(service.buckets.names())
    page = select(lambda position: filter(position.reaches, names), selection)
    items = [bucket_document(name, service.buckets.get(name), call.base) for name in page.names]
    token = {"nextPageToken": page.token} if page.token else {}
    return answer({"kind": "storage#buckets", "items": items, **token})


def patch_bucket(service: StorageService, call: StorageCall) -> Response:
    """`PATCH /b/BUCKET`, and `PUT`."""
    record = service.buckets.patch(call.bucket, call.document(), call.conditions)
    return answer(bucket_document(call.bucket, record, call.base))


def delete_bucket(service: StorageService, call: StorageCall) -> Response:
    """`DELETE /b/BUCKET`."""
    service.buckets.remove(call.bucket, call.conditions)
    return Response(status_code=204)


def get_policy(service: StorageService, call: StorageCall) -> Response:
    """`GET /b/BUCKET/iam`: the policy that was set, at first that of every new bucket."""
    return answer(policy_document(call.bucket, service.buckets.get(call.bucket)))


def set_policy(service: StorageService, call: StorageCall) -> Response:
    """`PUT /b/BUCKET/iam`."""
    return answer(policy_document(call.bucket, service.buckets.set_policy(call.bucket, call.document())))


def test_permissions(service: StorageService, call: StorageCall) -> Response:
    """`GET /b/BUCKET/iam/testPermissions`: every permission that is asked for."""
    service.buckets.get(call.bucket)
    asked = [value for key, value in call.repeated if key == "permissions"]
    return answer({"kind": "storage#testIamPermissionsResponse", "permissions": asked})


def get_layout(service: StorageService, call: StorageCall) -> Response:
    """`GET /b/BUCKET/storageLayout`."""
    document = bucket_document(call.bucket, service.buckets.get(call.bucket), call.base)
    named = {key: document[key] for key in ("location", "locationType")}
    return answer({"kind": "storage#storageLayout", "bucket": call.bucket, **named})


def list_managed_folders(service: StorageService, call: StorageCall) -> Response:
    """`GET /b/BUCKET/managedFolders`: an empty list."""
    service.buckets.get(call.bucket)
    return answer({"kind": "storage#managedFolders"})


SENT_AT_ONCE = 1 << 20
"""Bytes that are read and sent in one step."""
_RANGE = re.compile(r"bytes=([0-9]{0,19})-([0-9]{0,19})")


def read_range(header: str, size: int) -> tuple[int, int] | None:
    """First byte and end of a `Range`; None for the whole content. Other forms of ranges count as none.

    Raises StorageRefusal (416) for a range behind the end of the content.
    """
    match = _RANGE.fullmatch(header.strip())
    if match is None or match[0] == "bytes=-":
        return None
    first, last = match.groups()
    start = int(first) if first else max(size - int(last), 0)
    end = min(int(last) + 1, size) if first and last else size
    if start >= end:
        raise StorageRefusal(416, "requestedRangeNotSatisfiable", f"{header} lies outside of {size} bytes.")
    return start, end


class FileContent(Response):
    """The content of an open file, which is closed at the end. Raises OSError if the file became shorter."""

    def __init__(
        self, descriptor: int, span: tuple[int, int] | None, size: int, headers: Mapping[str, str]
    ) -> None:
        self._descriptor = descriptor
        self._start, self._end = span or (0, size)
        about = {"accept-ranges": "bytes", "content-length": str(self._end - self._start)}
        if span is not None:
            about["content-range"] = f"bytes {self._start}-{self._end - 1}/{size}"
        super().__init__(status_code=206 if span else 200, headers={**headers, **about})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the headers and the content, or as much of it as the client takes."""
        try:
            start = {"status": self.status_code, "headers": self.raw_headers}
            await send({"type": "http.response.start", **start})
            if scope["method"] != "HEAD":
                await self._send_content(Request(scope, receive), send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            os.close(self._descriptor)

    async def _send_content(self, request: Request, send: Send) -> None:
        position = self._start
        # The server drops what is sent to a client that has gone, and says nothing.
        while position < self._end and not await request.is_disconnected():
            length = min(SENT_AT_ONCE, self._end - position)
            data = await run_in_threadpool(os.pread, self._descriptor, length, position)
            if not data:
                raise OSError(f"The file ends at {position}, before {self._end}.")
            position += len(data)
            await send({"type": "http.response.body", "body": data, "more_body": True})


def get_object(service: StorageService, call: StorageCall) -> Response:
    """`GET /b/BUCKET/o/OBJECT`: its metadata, or with `alt=media` its content."""
    if call.query.get("alt") == "media":
        return download(service, call)
    found = service.objects.get(call.bucket, call.object, call.conditions, call.generation)
    return answer(object_document(found, call.base), headers={"etag": object_headers(found)["etag"]})


def download(service: StorageService, call: StorageCall) -> Response:
    """An object's content, or a range of it."""
    found, descriptor = service.objects.open(call.bucket, call.object, call.conditions, call.generation)
    size = found.record.size
    try:
        span = read_range(call.headers.get("range", ""), size)
    except StorageRefusal:
        os.close(descriptor)
        raise
    return FileContent(descriptor, span, size, object_headers(found))


def list_objects(service: StorageService, call: StorageCall) -> Response:
    """`GET /b/BUCKET/o`."""
    query = call.query
    selection = ObjectSelection(
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        start=query.get("startOffset", ""),
        end=query.get("endOffset", ""),
        glob=query.get("matchGlob", ""),
        trailing=call.flag("includeTrailingDelimiter"),
        limit=whole_number(query, "maxResults") or MOST_RESULTS,
        token=query.get("pageToken", ""),
    )
    page = select(lambda position: service.names(call.bucket, selection.prefix, position), selection)
    # Of a file that a trainer wrote it is not known, and takes as long as reading the file.
    has_checksums = "crc32c" in query.get("fields", "")
    find = service.objects.find
    found = (find(call.bucket, name, needs_checksum=has_checksums) for name in page.names)
    parts: dict[str, Any] = {
        "items": [object_document(one, call.base) for one in found if one is not None],
        "prefixes": page.prefixes,
        "nextPageToken": page.token,
    }
    return answer({"kind": "storage#objects"} | {key: value for key, value in parts.items() if value})


def patch_object(service: StorageService, call: StorageCall) -> Response:
    """`PATCH /b/BUCKET/o/OBJECT`."""
    found = service.objects.patch(call.bucket, call.object, call.document(), call.conditions)
    return answer(object_document(found, call.base))


def update_object(service: StorageService, call: StorageCall) -> Response:
    """`PUT /b/BUCKET/o/OBJECT`: all of its metadata."""
    found = service.objects.patch(call.bucket, call.object, call.document(), call.conditions, whole=True)
    return answer(object_document(found, call.base))


def delete_object(service: StorageService, call: StorageCall) -> Response:
    """`DELETE /b/BUCKET/o/OBJECT`."""
    service.objects.remove(call.bucket, call.object, call.conditions, call.generation)
    return Response(status_code=204)


def _copy(service: StorageService, call: StorageCall) -> dict[str, Any]:
    """Copy one object. The request's document, if any, has the copy's metadata."""
    source = Source(
        bucket=call.bucket,
        name=call.object,
        generation=whole_number(call.query, "sourceGeneration"),
        conditions=Conditions.of_query(call.query, "ifSource"),
    )
    fields = settable(call.document()) or None
    place = (call.path["to_bucket"], call.path["to_object"])
    copy = service.objects.join([source], *place, fields, call.conditions)
    return object_document(copy, call.base)


def copy_object(service: StorageService, call: StorageCall) -> Response:
    """`POST /b/BUCKET/o/OBJECT/copyTo/b/BUCKET/o/OBJECT`."""
    return answer(_copy(service, call))


def rewrite_object(service: StorageService, call: StorageCall) -> Response:
    """`POST /b/BUCKET/o/OBJECT/rewriteTo/b/BUCKET/o/OBJECT`, done in one request."""
    copy = _copy(service, call)
    sizes = {"totalBytesRewritten": copy["size"], "objectSize": copy["size"]}
    return answer({"kind": "storage#rewriteResponse", **sizes, "done": True, "resource": copy})


def compose_object(service: StorageService, call: StorageCall) -> Response:
    """`POST /b/BUCKET/o/OBJECT/compose`."""
    document = call.document()
    parts = document.get("sourceObjects") or []
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise invalid("sourceObjects is not a list of objects.")
    if not 1 <= len(parts) <= MOST_COMPONENTS:
        raise invalid(f"An object is composed of 1 to {MOST_COMPONENTS} others, not of {len(parts)}.")
    sources = [_source(call.bucket, part) for part in parts]
    fields = settable(_object_in(document, "destination")) or None
    place = (call.bucket, call.object)
    found = service.objects.join(sources, *place, fields, call.conditions, composed=True)
    if document.get("deleteSourceObjects") is True:
        for name in {source.name for source in sources} - {found.name}:
            service.objects.remove(call.bucket, name, Conditions())
    return answer(object_document(found, call.base))


def _source(bucket: str, part: dict[str, Any]) -> Source:
    return Source(
        bucket=bucket,
        name=str(part.get("name", "")),
        generation=whole_number(_texts(part), "generation"),
        conditions=Conditions.of_query(_texts(_object_in(part, "objectPreconditions"))),
    )


def _object_in(document: dict[str, Any], key: str) -> dict[str, Any]:
    """A JSON object in a document; empty where there is none. Raises StorageRefusal for anything else."""
    value = document.get(key) or {}
    if not isinstance(value, dict):
        raise invalid(f"{key} is not a JSON object.")
    return value


def _texts(document: dict[str, Any]) -> dict[str, str]:
    """The values of a document as texts, as a query has them."""
    return {key: str(value) for key, value in document.items() if value is not None}
