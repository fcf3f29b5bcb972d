"""The API as an ASGI application: which request is answered by whom."""

from __future__ import annotations

import sqlite3
from asyncio import CancelledError
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from vtrain.emulator.storage import bucket_routes, object_routes, uploads
from vtrain.emulator.storage.batch import answer_batch
from vtrain.emulator.storage.bodies import drain, receive_body
from vtrain.emulator.storage.call import Call, answer_refusal
from vtrain.emulator.storage.guard import Admission, Guard, user_information
from vtrain.emulator.storage.refusals import Refusal
from vtrain.emulator.storage.service import StorageService

Handler = Callable[[StorageService, Call], Response]
UploadHandler = Callable[[StorageService, Request, Call], Awaitable[Response]]

_BUCKETS = "/storage/v1/b"
_BUCKET = _BUCKETS + "/{bucket}"
_OBJECTS = _BUCKET + "/o"
_OBJECT = _OBJECTS + "/{object}"
_TARGET = "/b/{to_bucket}/o/{to_object}"
_UPLOADS = tuple(f"{prefix}{_OBJECTS}" for prefix in ("/upload", "/resumable/upload"))

HANDLERS: tuple[tuple[str, str, Handler], ...] = (
    ("POST", _BUCKETS, bucket_routes.insert_bucket),
    ("GET", _BUCKETS, bucket_routes.list_buckets),
    ("GET", _BUCKET, bucket_routes.get_bucket),
    ("PATCH", _BUCKET, bucket_routes.patch_bucket),
    ("PUT", _BUCKET, bucket_routes.patch_bucket),
    ("DELETE", _BUCKET, bucket_routes.delete_bucket),
    ("GET", _BUCKET + "/iam", bucket_routes.get_policy),
    ("GET", _BUCKET + "/iam/testPermissions", bucket_routes.test_permissions),
    ("GET", _BUCKET + "/storageLayout", bucket_routes.get_layout),
    ("GET", _BUCKET + "/managedFolders", bucket_routes.list_managed_folders),
    ("GET", _OBJECTS, object_routes.list_objects),
    ("GET", _OBJECT, object_routes.get_object),
    ("GET", "/download" + _OBJECT, object_routes.download),
    ("PATCH", _OBJECT, object_routes.patch_object),
    ("PUT", _OBJECT, object_routes.update_object),
    ("DELETE", _OBJECT, object_routes.delete_object),
    ("POST", _OBJECT + "/copyTo" + _TARGET, object_routes.copy_object),
    ("POST", _OBJECT + "/rewriteTo" + _TARGET, object_routes.rewrite_object),
    ("POST", _OBJECT + "/compose", object_routes.compose_object),
)
UPLOAD_HANDLERS: tuple[tuple[str, UploadHandler], ...] = (
    ("POST", uploads.insert_object),
    ("PUT", uploads.continue_upload),
    ("DELETE", uploads.cancel_upload),
)
BATCHES = ("/batch/storage/v1", "/batch")


def make_app(home: Path, admission: Admission) -> ASGIApp:
    """The service over the buckets of a home."""
    service = StorageService(home)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        service.close()

    routes = [Route(path, _endpoint(service, handler), methods=[verb]) for verb, path, handler in HANDLERS]
    for path in _UPLOADS:
        routes += [Route(path, _upload(service, run), methods=[verb]) for verb, run in UPLOAD_HANDLERS]
    handlers = {
        Refusal: _refuse,
        OSError: _fail,
        sqlite3.Error: _fail,
        HTTPException: _unknown,
        ClientDisconnect: _gone,
    }
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    whole = RawPaths(app)

    async def batch(request: Request) -> Response:
        return await answer_batch(whole, request)

    app.router.routes += [Route(path, batch, methods=["POST"]) for path in BATCHES]
    return Guard(whole, admission)


class RawPaths:
    """Leaves `%2F` in paths as it is: there it belongs to an object's name, and does not end it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            await self._app({**scope, "path": scope["raw_path"].decode("latin-1")}, receive, send)
        except CancelledError:  # the service has ended, and has waited for this request
            await answer_refusal(Refusal(503, "backendError", "The service ends."))(scope, receive, send)


def _endpoint(service: StorageService, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def run(request: Request) -> Response:
        return await run_in_threadpool(handler, service, _call(request, await receive_body(request)))

    return run


def _upload(service: StorageService, handler: UploadHandler) -> Callable[[Request], Awaitable[Response]]:
    async def run(request: Request) -> Response:
        try:
            return await handler(service, request, _call(request, b""))
        except Refusal as refusal:
            await drain(request)
            return answer_refusal(refusal)

    return run


def _call(request: Request, body: bytes) -> Call:
    return Call(
        path={key: unquote(value) for key, value in request.path_params.items()},
        query=dict(request.query_params),
        repeated=tuple(request.query_params.multi_items()),
        headers=request.headers,
        body=body,
        base=_base(request),
    )


def _base(request: Request) -> str:
    """The service's address as the client wrote it, with the token where that was a part of it."""
    user = user_information(request.headers.get("authorization", ""))
    return f"{request.url.scheme}://{user}{request.headers.get('host', '')}"


async def _refuse(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return answer_refusal(error)


async def _fail(_request: Request, error: Exception) -> Response:
    """The disk refuses."""
    return answer_refusal(Refusal(500, "backendError", f"{error}"))


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = f"{request.method} {request.url.path} is not among the requests that this service answers."
    return answer_refusal(Refusal(error.status_code, "notFound", sentence))


async def _gone(_request: Request, _error: Exception) -> Response:
    """Nobody is left to read this."""
    return Response(status_code=400)
