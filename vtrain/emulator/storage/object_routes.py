"""Requests about objects, uploads excepted."""

from __future__ import annotations

import os
from typing import Any

from starlette.responses import Response

from vtrain.emulator.storage.call import Call, answer
from vtrain.emulator.storage.conditions import Conditions, whole_number
from vtrain.emulator.storage.content import FileContent, read_range
from vtrain.emulator.storage.listing import MOST_RESULTS, Selection, select
from vtrain.emulator.storage.objects import MOST_COMPONENTS, Source, settable
from vtrain.emulator.storage.refusals import Refusal, invalid
from vtrain.emulator.storage.resources import object_document, object_headers
from vtrain.emulator.storage.service import StorageService


def get_object(service: StorageService, call: Call) -> Response:
    """`GET /b/BUCKET/o/OBJECT`: its metadata, or with `alt=media` its content."""
    if call.query.get("alt") == "media":
        return download(service, call)
    found = service.objects.get(call.bucket, call.object, call.conditions, call.generation)
    return answer(object_document(found, call.base), headers={"etag": object_headers(found)["etag"]})


def download(service: StorageService, call: Call) -> Response:
    """An object's content, or a range of it."""
    found, descriptor = service.objects.open(call.bucket, call.object, call.conditions, call.generation)
    size = found.record.size
    try:
        span = read_range(call.headers.get("range", ""), size)
    except Refusal:
        os.close(descriptor)
        raise
    return FileContent(descriptor, span, size, object_headers(found))


def list_objects(service: StorageService, call: Call) -> Response:
    """`GET /b/BUCKET/o`."""
    query = call.query
    selection = Selection(
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        start=query.get("startOffset", ""),
        end=query.get("endOffset", ""),
        glob=query.get("matchGlob", ""),
        trailing=call.flag("includeTrailingDelimiter"),
        limit=whole_number(query, "maxResults") or MOST_RESULTS,
        token=query.get("pageToken", ""),
    )
    page = select(service.names(call.bucket, selection.prefix), selection)
    found = (service.objects.find(call.bucket, name) for name in page.names)
    parts: dict[str, Any] = {
        "items": [object_document(one, call.base) for one in found if one is not None],
        "prefixes": page.prefixes,
        "nextPageToken": page.token,
    }
    return answer({"kind": "storage#objects"} | {key: value for key, value in parts.items() if value})


def patch_object(service: StorageService, call: Call) -> Response:
    """`PATCH /b/BUCKET/o/OBJECT`."""
    found = service.objects.patch(call.bucket, call.object, call.document(), call.conditions)
    return answer(object_document(found, call.base))


def update_object(service: StorageService, call: Call) -> Response:
    """`PUT /b/BUCKET/o/OBJECT`: all of its metadata."""
    found = service.objects.patch(call.bucket, call.object, call.document(), call.conditions, whole=True)
    return answer(object_document(found, call.base))


def delete_object(service: StorageService, call: Call) -> Response:
    """`DELETE /b/BUCKET/o/OBJECT`."""
    service.objects.remove(call.bucket, call.object, call.conditions, call.generation)
    return Response(status_code=204)


def _copy(service: StorageService, call: Call) -> dict[str, Any]:
    """Copy one object; the request's document, where there is one, has the copy's metadata."""
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


def copy_object(service: StorageService, call: Call) -> Response:
    """`POST /b/BUCKET/o/OBJECT/copyTo/b/BUCKET/o/OBJECT`."""
    return answer(_copy(service, call))


def rewrite_object(service: StorageService, call: Call) -> Response:
    """`POST /b/BUCKET/o/OBJECT/rewriteTo/b/BUCKET/o/OBJECT`, done in one request."""
    copy = _copy(service, call)
    sizes = {"totalBytesRewritten": copy["size"], "objectSize": copy["size"]}
    return answer({"kind": "storage#rewriteResponse", **sizes, "done": True, "resource": copy})


def compose_object(service: StorageService, call: Call) -> Response:
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
    """A JSON object in a document; empty where there is none. Raises Refusal for anything else."""
    value = document.get(key) or {}
    if not isinstance(value, dict):
        raise invalid(f"{key} is not a JSON object.")
    return value


def _texts(document: dict[str, Any]) -> dict[str, str]:
    """What a document says, as a query would say it."""
    return {key: str(value) for key, value in document.items() if value is not None}
