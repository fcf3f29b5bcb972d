"""The API over HTTP: requests of REST, taken apart and answered in JSON."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from anyio import CapacityLimiter, to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from vtrain.emulator.storage.bodies import receive_body
from vtrain.emulator.storage.storage_refusals import StorageRefusal
from vtrain.emulator.vertex.documents import (
    check_shape,
    in_camel_case,
    listed_as,
    unknown_name,
    with_enum_numbers,
    with_project,
)
from vtrain.emulator.vertex.logging_api import list_entries
from vtrain.emulator.vertex.methods import find_method, pattern_of
from vtrain.emulator.vertex.training_service import TrainingService
from vtrain.emulator.vertex.vertex_call import HTTP_BODY, WHOLE, Document, Method, VertexCall
from vtrain.emulator.vertex.vertex_refusals import VertexRefusal, invalid, refusal_of
from vtrain.errors import VtrainError
from vtrain.messages.codec import camel_case
from vtrain.messages.names import LOCAL_PROJECT, LOCAL_PROJECT_NUMBER, ResourceName

_PART = r"([^/:?]{1,200})"
_PROJECT = r"((?:[a-z0-9.-]{1,100}:)?[^/:?]{1,200})"
"""An id, a number, or an id in a domain: `example.com:demo`."""
_PATH = re.compile(
    rf"/(?:v1|v1beta1|ui)/projects/{_PROJECT}/locations/{_PART}/([^:?]{{1,1000}})(?::([A-Za-z]{{1,60}}))?"
)
SLOW_THREADS = 64
_COMMON = frozenset(
    "$.xgafv access_token alt $alt callback fields $fields key oauth_token prettyPrint $prettyPrint "
    "quotaUser uploadType upload_protocol".split()
)
"""Parameters of every request of Google's APIs, as their discovery documents list them."""
_ID = re.compile(r"[A-Za-z0-9_.@-]{1,128}")


def api_routes(service: TrainingService) -> list[Route]:
    """The routes of Vertex AI and of Cloud Logging, and the one of Resource Manager that gcloud asks."""

    async def vertex(request: Request) -> Response:
        return await _answered(request, lambda body: _call_vertex(service, request, body))

    async def logging(request: Request) -> Response:
        return await _answered(request, lambda body: as_json(list_entries(service, read_json(body)), 200))

    async def project(request: Request) -> Response:
        named = request.path_params["project"]
        number = {"projectNumber": LOCAL_PROJECT_NUMBER, "lifecycleState": "ACTIVE"}
        return as_json({"projectId": named, "name": named, **number}, 200)

    verbs = ["GET", "POST", "PATCH", "DELETE", "PUT"]
    paths = ("/v1/{rest:path}", "/v1beta1/{rest:path}", "/ui/{rest:path}")
    return [
        Route("/v2/entries:list", logging, methods=["POST"]),
        Route("/v1/projects/{project}", project, methods=["GET"]),
        *(Route(path, vertex, methods=verbs) for path in paths),
    ]


@cache
def _limiter() -> CapacityLimiter:
    """The threads of requests that may take long, so that none of the others waits for them."""
    return CapacityLimiter(SLOW_THREADS)


async def _answered(request: Request, run: Callable[[bytes], Response]) -> Response:
    """The answer of a function that works in a thread, or that of its error."""
    try:
        body = await receive_body(request)
        is_slow = request.scope["path"].endswith((":predict", ":rawPredict", ":wait"))
        return await to_thread.run_sync(run, body, limiter=_limiter() if is_slow else None)
    except StorageRefusal as refusal:  # the body is too large or too slow
        document = {"code": refusal.status, "message": refusal.message, "status": "INVALID_ARGUMENT"}
        return as_json({"error": document}, refusal.status)
    except (VertexRefusal, VtrainError) as error:
        found = refusal_of(error) if isinstance(error, VtrainError) else error
        return as_json(_in_project_of(request, found.document()), found.http_status)
    except ClientDisconnect:
        return Response(status_code=400)


def _in_project_of(request: Request, document: Document) -> Document:
    """An error with the names that the client uses."""
    found = _PATH.match(request.scope["path"])
    message = str(document["error"]["message"])
    if found is not None:
        message = message.replace(f"projects/{LOCAL_PROJECT}/", f"projects/{found[1]}/")
    return {"error": {**document["error"], "message": message}}


def as_json(document: Any, status: int) -> Response:
    """An answer of the API."""
    data = msgspec.json.encode(document)
    return Response(data, status, media_type="application/json; charset=UTF-8")


def read_json(body: bytes) -> Document:
    """The document of a body; an empty one without a body. Raises VertexRefusal."""
    if not body.strip():
        return {}
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid(f"Invalid JSON payload received. {error}.") from None
    if not isinstance(document, dict):
        raise invalid('Invalid JSON payload received. Unknown name "": Root element must be a message.')
    check_shape(document, "request")
    return document


def _call_vertex(service: TrainingService, request: Request, body: bytes) -> Response:
    """Carry out one request of Vertex AI. Raises VertexRefusal, VtrainError."""
    query = _read_query(request.scope["query_string"])
    method, place = find_place(request.method, request.scope["path"])
    is_raw = method.answer == HTTP_BODY
    document = {"httpBody": _http_body(request, body)} if is_raw else read_json(body)
    fields: Document = {}
    for name, value in query.items():
        if name not in _COMMON:
            if camel_case(name) not in method.fields:
                raise unknown_name(
                    name,
                    f"Cannot bind query parameter. Field '{name}' could not be found in request message.",
                )
            fields[camel_case(name)] = value
    if method.body == WHOLE:
        fields |= in_camel_case(document, (*method.fields, "name", "parent"))
    version = "v1beta1" if request.scope["path"].startswith("/v1beta1/") else "v1"
    numbers = "enum-encoding=int" in query.get("$alt", "") + query.get("alt", "")
    part = service.part(pattern_of(place.collection.split("/")))
    answer = method.handler(part, VertexCall(place=place, fields=fields, body=document, version=version))
    if is_raw:
        ids = {
            "X-Vertex-AI-Endpoint-Id": place.id,
            "X-Vertex-AI-Deployed-Model-Id": answer["deployedModelId"],
        }
        return Response(b64decode(answer["data"]), headers={"Content-Type": answer["contentType"], **ids})
    if numbers:
        answer = _with_numbers(method, part.MESSAGES, answer)
    return as_json(with_project(answer, place.project, only=LOCAL_PROJECT), 200)


def _http_body(request: Request, body: bytes) -> Document:
    return {"contentType": request.headers.get("content-type", ""), "data": b64encode(body).decode()}


def _with_numbers(method: Method, messages: Sequence[type[msgspec.Struct]], answer: Document) -> Document:
    """An answer that is one of the messages, or a list of one, with its enums as numbers."""
    named = {cls.__name__: cls for cls in messages}
    if method.answer in named:
        return with_enum_numbers(named[method.answer], answer)
    for cls in messages:
        listed = listed_as(cls)
        if isinstance(answer.get(listed), list):
            return {**answer, listed: [with_enum_numbers(cls, one) for one in answer[listed]]}
    return answer


def _read_query(raw: bytes) -> dict[str, str]:
    """The parameters, as they are spelled. Raises VertexRefusal for what is not UTF-8."""
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError:
        raise invalid("The query is not UTF-8, or has more than 100 parameters.") from None
    read: dict[str, str] = {}
    for name, value in pairs:
        is_more = camel_case(name) in ("readMask", "timeSeries") and name in read
        read[name] = f"{read[name]},{value}" if is_more else value
    return read


def find_place(verb: str, path: str) -> tuple[Method, ResourceName]:
    """The method of a request, and what it is about. Raises VertexRefusal where it is not emulated."""
    found = _PATH.fullmatch(path)
    if found is None:
        raise VertexRefusal("UNIMPLEMENTED", f"The emulator does not emulate {verb} {path[:300]}.")
    parts = found[3].split("/")
    if not all(map(_ID.fullmatch, parts)):
        raise VertexRefusal("NOT_FOUND", f"There is no method {verb} {path[:300]}.")
    of_one, action = len(parts) % 2 == 0, found[4] or ""
    resource_id = parts.pop() if of_one else ""
    method = find_method(verb, parts, of_one=of_one, action=action)
    if method is None:
        asked = f"{verb} {'/'.join(parts)}{':' if action else ''}{action}"
        raise VertexRefusal("UNIMPLEMENTED", f"The emulator does not emulate {asked}.")
    place = ResourceName(project=found[1], location=found[2], collection="/".join(parts), id=resource_id)
    return method, place
