"""The API as an ASGI application: its routes, the translation of errors, and batches of requests."""

from __future__ import annotations

import re
import sqlite3
import uuid
from asyncio import CancelledError
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, unquote_to_bytes

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as Event

from vtrain.emulator.proxy import PUBLIC
from vtrain.emulator.storage import routes, uploads
from vtrain.emulator.storage.bodies import drain, receive_body
from vtrain.emulator.storage.bucket_store import BucketStore
from vtrain.emulator.storage.guard import PREFIX, STORAGE_PATHS, Admission, Guard, host_name, user_information
from vtrain.emulator.storage.storage_call import StorageCall, answer_refusal
from vtrain.emulator.storage.storage_refusals import StorageRefusal, invalid
from vtrain.emulator.storage.stores import StorageService
from vtrain.https_proxy import LED_DOMAIN

Handler = Callable[[StorageService, StorageCall], Response]
UploadHandler = Callable[[StorageService, Request, StorageCall], Awaitable[Response]]

_BUCKETS = "/storage/v1/b"
_BUCKET = _BUCKETS + "/{bucket}"
_OBJECTS = _BUCKET + "/o"
_OBJECT = _OBJECTS + "/{object}"
_TARGET = "/b/{to_bucket}/o/{to_object}"
_UPLOADS = tuple(f"{prefix}{_OBJECTS}" for prefix in ("/upload", "/resumable/upload"))

HANDLERS: tuple[tuple[str, str, Handler], ...] = (
    ("POST", _BUCKETS, routes.insert_bucket),
    ("GET", _BUCKETS, routes.list_buckets),
    ("GET", _BUCKET, routes.get_bucket),
    ("PATCH", _BUCKET, routes.patch_bucket),
    ("PUT", _BUCKET, routes.patch_bucket),
    ("DELETE", _BUCKET, routes.delete_bucket),
    ("GET", _BUCKET + "/iam", routes.get_policy),
    ("PUT", _BUCKET + "/iam", routes.set_policy),
    ("GET", _BUCKET + "/iam/testPermissions", routes.test_permissions),
    ("GET", _BUCKET + "/storageLayout", routes.get_layout),
    ("GET", _BUCKET + "/managedFolders", routes.list_managed_folders),
    ("GET", _OBJECTS, routes.list_objects),
    ("GET", _OBJECT, routes.get_object),
    ("GET", "/download" + _OBJECT, routes.download),
    ("PATCH", _OBJECT, routes.patch_object),
    ("PUT", _OBJECT, routes.update_object),
    ("DELETE", _OBJECT, routes.delete_object),
    ("POST", _OBJECT + "/copyTo" + _TARGET, routes.copy_object),
    ("POST", _OBJECT + "/rewriteTo" + _TARGET, routes.rewrite_object),
    ("POST", _OBJECT + "/compose", routes.compose_object),
)
UPLOAD_HANDLERS: tuple[tuple[str, UploadHandler], ...] = (
    ("POST", uploads.insert_object),
    ("PUT", uploads.continue_upload),
    ("DELETE", uploads.cancel_upload),
)
BATCHES = ("/batch/storage/v1", "/batch")


def make_app(home: Path, admission: Admission) -> ASGIApp:
    """The service over the buckets of a home, for requests that are admitted."""
    return Guard(make_service(home), admission)


def make_service(home: Path) -> ASGIApp:
    """The service over the buckets of a home, for all requests."""
    service = StorageService(home)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        service.close()

    table = [Route(path, _endpoint(service, handler), methods=[verb]) for verb, path, handler in HANDLERS]
    for path in _UPLOADS:
        table += [Route(path, _upload(service, run), methods=[verb]) for verb, run in UPLOAD_HANDLERS]
    handlers = {
        StorageRefusal: _refuse,
        OSError: _fail,
        sqlite3.Error: _fail,
        HTTPException: _unknown,
        ClientDisconnect: _gone,
    }
    single = RawPaths(Starlette(routes=table, exception_handlers=handlers))

    async def batch(request: Request) -> Response:
        return await answer_batch(single, request)

    batches = [Route(path, batch, methods=["POST"]) for path in BATCHES]
    whole = Starlette(routes=[*table, *batches], exception_handlers=handlers, lifespan=lifespan)
    return PlainObjects(RawPaths(whole), service.buckets)


class PlainObjects:
    """The objects at `https://storage.googleapis.com/BUCKET/OBJECT`, as in the XML API of Cloud Storage.

    They are read, written and deleted as they are: a request with a query, or with a header of that API such
    as the one that copies, is not answered. A client without credentials may mean a public object, as those
    that load a dataset of Keras: where no bucket of this machine has the name, it is sent on to Google.
    """

    def __init__(self, app: ASGIApp, buckets: BucketStore) -> None:
        self._app = app
        self._buckets = buckets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        is_plain = host_name(headers.get("host", "")) == f"storage.{LED_DOMAIN}"
        if not is_plain or scope["path"].startswith(STORAGE_PATHS):
            await self._app(scope, receive, send)
            return
        path, query = scope["raw_path"], scope["query_string"]
        bucket, _, name = path[1:].partition(b"/")
        if scope["method"] not in ("GET", "HEAD"):
            is_whole = name and not query and not any(each.startswith("x-goog-") for each in headers)
            await self._app(_written(scope, bucket, name) if is_whole else scope, receive, send)
        elif "authorization" in headers or self._buckets.exists(unquote(bucket.decode("latin-1"))):
            place = b"/download/storage/v1/b/%s/o/%s" % (bucket, name.replace(b"/", b"%2F"))
            scope = {**scope, "path": place.decode("latin-1"), "raw_path": place}
            await self._app(scope, receive, send)
        else:
            target = f"https://{PUBLIC}".encode() + path + (b"?" + query if query else b"")
            await RedirectResponse(target.decode("latin-1"), 307)(scope, receive, send)


def _written(scope: Scope, bucket: bytes, name: bytes) -> Scope:
    """A request that writes or deletes an object, as one of the JSON API."""
    folder, quoted = b"/storage/v1/b/%s/o" % bucket, quote(unquote_to_bytes(name), safe="").encode()
    if scope["method"] == "DELETE":
        return {**scope, "raw_path": b"%s/%s" % (folder, quoted)}
    if scope["method"] != "PUT":
        return scope
    query = b"uploadType=media&name=" + quoted
    return {**scope, "method": "POST", "raw_path": b"/upload" + folder, "query_string": query}


class RawPaths:
    """Leaves `%2F` in paths as it is: there it belongs to an object's name, and does not end it.

    A POST may name another method, which it stands for: Java's client, for example, cannot send PATCH.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"]
        if method == "POST":
            method = Headers(scope=scope).get("x-http-method-override", method).upper()
        path = scope["raw_path"].decode("latin-1")
        try:
            await self._app({**scope, "method": method, "path": path}, receive, send)
        except CancelledError:  # the service has ended, and has waited for this request
            await answer_refusal(StorageRefusal(503, "backendError", "The service ends."))(
                scope, receive, send
            )


def _endpoint(service: StorageService, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def run(request: Request) -> Response:
        return await run_in_threadpool(handler, service, _build_call(request, await receive_body(request)))

    return run


def _upload(service: StorageService, handler: UploadHandler) -> Callable[[Request], Awaitable[Response]]:
    async def run(request: Request) -> Response:
        try:
            return await handler(service, request, _build_call(request, b""))
        except StorageRefusal as refusal:
            await drain(request)
            return answer_refusal(refusal)

    return run


def _build_call(request: Request, body: bytes) -> StorageCall:
    """A request taken apart. Raises StorageRefusal for names and values that are not UTF-8."""
    raw = request.scope["query_string"].decode("latin-1")
    try:
        path = {key: unquote(value, errors="strict") for key, value in request.path_params.items()}
        pairs = tuple(parse_qsl(raw, keep_blank_values=True, errors="strict"))
    except UnicodeDecodeError as error:
        raise invalid(f"The address is not UTF-8 where its percent-encoding is undone: {error}.") from None
    # Links in answers have the token where the client's address had it: clients follow them as they are.
    user = user_information(request.headers.get("authorization", ""))
    return StorageCall(
        path=path,
        query=dict(pairs),
        repeated=pairs,
        headers=request.headers,
        body=body,
        base=f"{request.url.scheme}://{user}{request.headers.get('host', '')}{request.scope.get(PREFIX, '')}",
    )


async def _refuse(_request: Request, error: Exception) -> Response:
    assert isinstance(error, StorageRefusal)
    return answer_refusal(error)


async def _fail(_request: Request, error: Exception) -> Response:
    """Report an error of the disk or of the database."""
    return answer_refusal(StorageRefusal(500, "backendError", f"{error}"))


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = f"{request.method} {request.url.path} is not among the requests that this service answers."
    return answer_refusal(StorageRefusal(error.status_code, "notFound", sentence))


async def _gone(_request: Request, _error: Exception) -> Response:
    """Answer a client that has gone: the response is not sent."""
    return Response(status_code=400)


MOST_CALLS = 100
"""Requests in one batch."""
_BOUNDARY = re.compile(r"""boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))""", re.IGNORECASE)
_OF_THE_BATCH = (b"host", b"authorization")


async def answer_batch(app: ASGIApp, request: Request) -> Response:
    """Hand each part to the app as if it had come by itself. Raises StorageRefusal."""
    parts = _parts(await receive_body(request), request.headers.get("content-type", ""))
    boundary = f"batch_{uuid.uuid4().hex}"
    answers = [await _answer_part(app, request, part) for part in parts]
    body = b"".join(b"--%s\r\n%s\r\n" % (boundary.encode(), text) for text in answers)
    content_type = f"multipart/mixed; boundary={boundary}"
    return Response(body + f"--{boundary}--\r\n".encode(), headers={"content-type": content_type})


def _parts(body: bytes, content_type: str) -> list[bytes]:
    """The parts of a body, with line endings of one character. Raises StorageRefusal."""
    found = _BOUNDARY.search(content_type)
    if not content_type.lower().startswith("multipart/") or found is None:
        raise invalid("The body of a batch is multipart/mixed.")
    mark = b"\n--" + (found[1] or found[2]).encode("latin-1")
    whole = b"\n" + body.replace(b"\r\n", b"\n")
    count = whole.count(mark) - whole.count(mark + b"--")
    if count > MOST_CALLS:
        raise invalid(f"A batch has at most {MOST_CALLS} requests, not {count}.")
    parts = whole.partition(mark + b"--")[0].split(mark)[1:]
    if not parts:
        raise invalid("The body of a batch is multipart/mixed.")
    return parts


async def _answer_part(app: ASGIApp, request: Request, part: bytes) -> bytes:
    own, _, inner = (b"\n" + part.partition(b"\n")[2]).partition(b"\n\n")
    head, _, body = inner.partition(b"\n\n")
    line, _, headers = head.partition(b"\n")
    words = line.split()
    if len(words) < 2:
        raise invalid(f"A part of the batch does not begin with a request: {line[:100]!r}.")
    scope = _scope(request.scope, words[0], words[1], _read_headers(headers))
    if _has_media(scope):
        app = answer_refusal(invalid("A request in a batch uploads or downloads no content."))
    events = await _run_part(app, scope, body.strip())
    content_id = dict(_read_headers(own)).get(b"content-id", b"")
    return _as_part(content_id.strip(b"<>").decode("latin-1"), events)


def _has_media(scope: Scope) -> bool:
    """Whether content is asked for, or sent: Cloud Storage takes no such request in a batch."""
    is_download = ("alt", "media") in parse_qsl(scope["query_string"].decode("latin-1"))
    return is_download or scope["raw_path"].startswith((b"/download/", b"/upload/", b"/resumable/"))


def _read_headers(head: bytes) -> list[tuple[bytes, bytes]]:
    pairs = (line.partition(b":") for line in head.split(b"\n"))
    return [(name.strip().lower(), value.strip()) for name, _, value in pairs if name.strip()]


def _scope(outer: Scope, method: bytes, target: bytes, headers: list[tuple[bytes, bytes]]) -> Scope:
    """The request of a part; its host and its credentials are those of the batch, which were checked."""
    path, _, query = target.partition(b"?")
    if path.startswith((b"http://", b"https://")):
        path = b"/" + path.split(b"/", 3)[-1]
        path = path.removeprefix(outer.get(PREFIX, "").encode())
    given = [pair for pair in headers if pair[0] not in _OF_THE_BATCH]
    kept_headers = [pair for pair in outer["headers"] if pair[0] in _OF_THE_BATCH]
    inner = {"method": method.decode("latin-1"), "raw_path": path, "query_string": query}
    keys = ("type", "asgi", "http_version", "scheme", "client", "server", PREFIX)
    kept = {key: outer[key] for key in keys if key in outer}
    headers = [*kept_headers, *given]
    return {**kept, **inner, "path": path.decode("latin-1"), "root_path": "", "headers": headers}


async def _run_part(app: ASGIApp, scope: Scope, body: bytes) -> list[Event]:
    events: list[Any] = []

    async def receive() -> Event:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(event: Event) -> None:
        events.append(event)

    await app(scope, receive, send)
    return events


def _as_part(content_id: str, events: list[Event]) -> bytes:
    status = events[0]["status"]
    body = b"".join(event.get("body", b"") for event in events[1:])
    phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else ""
    lines = [f"HTTP/1.1 {status} {phrase}".encode()]
    lines += [name + b": " + value for name, value in events[0]["headers"]]
    above = f"Content-Type: application/http\r\nContent-ID: <response-{content_id}>\r\n\r\n"
    return above.encode() + b"\r\n".join(lines) + b"\r\n\r\n" + body
