"""The emulator: one process and one port for Vertex AI, Cloud Logging, Cloud Storage and credentials."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from vtrain.backends import BackendSettings
from vtrain.backends.registry import find_backend
from vtrain.emulator.certificate import server_tls
from vtrain.emulator.clients import Calls
from vtrain.emulator.dashboard import OWN_PAGES
from vtrain.emulator.http_server import address, listen, make_server, run_until_signal
from vtrain.emulator.metadata_server import MetadataServer
from vtrain.emulator.proxy import Proxy
from vtrain.emulator.request_log import RequestLog, Tell
from vtrain.emulator.running import Running, make_folder, recorded
from vtrain.emulator.storage.guard import CLOUD_STORAGE, STORAGE_PATHS, Admission, Guard, host_name
from vtrain.emulator.storage.storage_app import make_service
from vtrain.emulator.vertex.rest import api_routes, as_json
from vtrain.emulator.vertex.training_service import TrainingService
from vtrain.emulator.vertex.vertex_refusals import VertexRefusal
from vtrain.https_proxy import leading_here
from vtrain.messages.names import DEFAULT_REGION, LOCAL_PROJECT
from vtrain.runtime.supervisor_process import reap

_SERVICES = "(?:[a-z0-9-]{1,60}-)?aiplatform|cloudresourcemanager|logging|serviceusage|storage|www"
EMULATED = rf"(?:{_SERVICES})\.googleapis\.com"
"""The hosts of Google's that the emulator answers for."""
REAP_SECONDS = 2.0


class EmulatorOrder(msgspec.Struct, frozen=True, kw_only=True):
    """An order to start the emulator: of `home`, with jobs in `backend`, as `project`, at an address.

    `most_jobs` is the quota of jobs that have not ended, in each region (0: there is none).
    """

    home: Path
    backend: str
    project: str
    host: str
    port: int
    admission: Admission
    grpc: bool = False
    most_jobs: int = 0


class Emulator:
    """The application behind the guard: the one of Cloud Storage, the dashboard, and the API."""

    def __init__(self, order: EmulatorOrder, service: TrainingService) -> None:
        self._order = order
        self._calls = service.calls
        self._storage = make_service(order.home)
        self._api = _application(api_routes(service))

    @cached_property
    def _dashboard(self) -> ASGIApp:
        """The pages, which are loaded when somebody looks: they are a fifth of a start."""
        from vtrain.emulator.dashboard.dashboard_app import routes

        settings = BackendSettings(home=self._order.home, project=LOCAL_PROJECT, region=DEFAULT_REGION)
        return _application(routes(find_backend(self._order.backend), settings))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; the storage application also keeps the server's start and end."""
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        is_storage = re.fullmatch(CLOUD_STORAGE, host_name(headers.get("host", "")))
        if scope["type"] != "http" or is_storage or scope["path"].startswith(STORAGE_PATHS):
            await self._storage(scope, receive, send)
            return
        self._calls.count(headers)
        app = self._api
        if scope["path"][1:].partition("/")[0] in OWN_PAGES:
            app = await run_in_threadpool(lambda: self._dashboard)
        await app(scope, receive, send)


def _application(routes: Sequence[BaseRoute]) -> ASGIApp:
    handlers: Any = {404: _unknown, 405: _unknown, 500: _broken}
    return Starlette(routes=routes, exception_handlers=handlers)


def make_app(order: EmulatorOrder, service: TrainingService) -> ASGIApp:
    """The whole emulator, for requests that are admitted."""
    admission = msgspec.structs.replace(order.admission, pages=OWN_PAGES, emulated=EMULATED)
    return Guard(MetadataServer(Emulator(order, service), order.project, admission.token), admission)


async def _unknown(request: Request, _error: Exception) -> Response:
    refusal = VertexRefusal("NOT_FOUND", f"There is no method {request.method} {request.url.path[:300]}.")
    return as_json(refusal.document(), refusal.http_status)


async def _broken(_request: Request, _error: Exception) -> Response:
    """The answer for a fault in the code: the server prints its traceback."""
    refusal = VertexRefusal("INTERNAL", "The emulator has a fault: its messages on stderr tell which.")
    return as_json(refusal.document(), refusal.http_status)


def serve(order: EmulatorOrder, ready: Callable[[Running], None], tell: Tell) -> None:
    """Serve as `run_until_signal` does. `ready` gets the address once it answers.

    `tell` gets a line about each request. Raises StorageError where the home cannot be written,
    UnavailableError where the port is taken, or something for gRPC is not installed.
    """
    with _opened(order, tell) as opened:
        ready(opened.running)
        run_until_signal(opened.server, opened.listener)


@contextmanager
def serving(order: EmulatorOrder, tell: Tell) -> Iterator[tuple[Running, Calls]]:
    """A block during which a thread serves, and the calls so far. `tell` and errors are those of `serve`."""
    with _opened(order, tell) as opened:
        thread = threading.Thread(target=opened.server.run, kwargs={"sockets": [opened.listener]})
        thread.start()
        try:
            yield opened.running, opened.calls
        finally:
            opened.server.should_exit = True
            thread.join()


class _Opened(NamedTuple):
    """An emulator that is about to serve."""

    server: uvicorn.Server
    listener: socket.socket
    running: Running
    calls: Calls


@contextmanager
def _opened(order: EmulatorOrder, tell: Tell) -> Iterator[_Opened]:
    """The server with its port, its record, and gRPC beside it where that is asked for."""
    make_folder(order.home)
    for name in leading_here():  # another emulator, for jobs and for what installs their packages
        os.environ.pop(name, None)
    with ExitStack() as stack:
        listener = stack.enter_context(listen(order.host, order.port))
        running = Running(
            url=address(listener, order.admission.token),
            port=listener.getsockname()[1],
            backend=order.backend,
            project=order.project,
            grpc=order.grpc,
        )
        service = TrainingService(
            order.home, order.backend, port=running.port, most_jobs=order.most_jobs, tell=tell
        )
        stack.callback(service.close)
        grpc = None
        if order.grpc:
            from vtrain.emulator.vertex.grpc_server import serving_grpc

            grpc = stack.enter_context(serving_grpc(service, order.home, order.project, tell))
        tls = stack.enter_context(recorded(order.home, running, server_tls))
        stack.enter_context(_reaping())
        proxy = Proxy(tls, order.admission.admits, grpc)
        server = make_server(RequestLog(make_app(order, service), tell), proxy)
        yield _Opened(server, listener, running, service.calls)


@contextmanager
def _reaping() -> Iterator[None]:
    """A block during which ended supervisors of new jobs do not stay as zombies."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(REAP_SECONDS):
            reap()

    threading.Thread(target=run, daemon=True).start()
    try:
        yield
    finally:
        over.set()
