"""The program that serves Cloud Storage and Cloud Logging to a job: `python serve_job.py FOLDER LOCK`.

`LOCK` is the descriptor of its lock, which it inherits locked.
"""

from __future__ import annotations

import os
import sys

if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):  # noqa: PTH100, PTH120
    del sys.path[0]  # this folder: its modules would hide packages of the same name

import asyncio
import http.client
import json
import re
import ssl
import threading
import time
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from msgspec.structs import replace
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from vtrain.backends.job_storage import StorageOrder
from vtrain.emulator.certificate import server_tls
from vtrain.emulator.http_server import listen, make_server
from vtrain.emulator.metadata_server import MetadataServer
from vtrain.emulator.proxy import Proxy, Streams, connect_through
from vtrain.emulator.running import Running, find_running, make_folder
from vtrain.emulator.storage.bodies import receive_body
from vtrain.emulator.storage.guard import CLOUD_STORAGE, NOT_EMULATED, Admission, Guard, host_name
from vtrain.emulator.storage.storage_app import make_service
from vtrain.emulator.storage.storage_call import answer, answer_refusal
from vtrain.emulator.storage.storage_refusals import StorageRefusal, invalid
from vtrain.errors import StorageError, UnavailableError
from vtrain.https_proxy import led_variables
from vtrain.messages.log import SEVERITIES
from vtrain.messages.names import LOCAL_PROJECT
from vtrain.runtime.folder import CLOUD_LOGGING, JobFolder, read_struct, write_struct
from vtrain.runtime.home import Home
from vtrain.runtime.process.journal import STDOUT, JournalWriter

LOOK_SECONDS = 5.0
"""Seconds between two checks whether the job's folder still exists."""
LOGGING = "logging.googleapis.com"
ANSWERED = rf"{CLOUD_STORAGE}|{re.escape(LOGGING)}"
"""The hosts of Google's that this program answers for, whether an emulator runs or not."""
RELAY_SECONDS = 60.0
"""The longest wait for a part of the emulator's answer."""
_REFUSAL = "No emulator runs for this job, or it does not emulate {}."


def main(place: Path, lock: int) -> None:
    """Serve until SIGTERM, or until the job's folder is removed."""
    os.set_inheritable(lock, False)
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    order = read_struct(place / "order.json", StorageOrder)
    assert order is not None
    try:
        listener = listen(order.host, order.port)
    except UnavailableError as error:
        sys.exit(error.message)
    with listener:
        admission = Admission(
            hosts=frozenset({order.host}), token=order.token, emulated=ANSWERED, refusal=_REFUSAL
        )
        make_folder(Path(order.home))
        tls = server_tls(Home(Path(order.home)).tls_key, place / "trusted.pem")
        emulators = _Emulators(Path(order.home), order.emulator_port)
        running = emulators.preferred("")
        project = running.project if running else LOCAL_PROJECT
        log = JobLog(make_service(Path(order.home)), JobFolder(place.parent), emulators)
        app = MetadataServer(log, project, order.token)
        no_grpc = _REFUSAL.format("gRPC")
        proxy = Proxy(tls, admission.admits, beyond=emulators.connect, no_grpc=no_grpc)
        server = make_server(Guard(app, admission), proxy)
        write_struct(place / "order.json", replace(order, port=listener.getsockname()[1]))
        (place / "ready").touch()
        threading.Thread(target=_leave_with, args=(place,), daemon=True).start()
        server.run(sockets=[listener])


class JobLog:
    """ASGI middleware that keeps what replicas write to Cloud Logging in the log of their job.

    The emulator answers what else they ask of Cloud Logging, if one runs.
    Each entry is a line of JSON, as a trainer writes it to its stdout. Source: `WriteLogEntriesRequest` of
    `google/logging/v2/logging.proto`.
    """

    def __init__(self, app: ASGIApp, folder: JobFolder, emulators: _Emulators) -> None:
        self._app = app
        self._emulators = emulators
        self._base = str(folder.logs / CLOUD_LOGGING)
        self._journal: JournalWriter | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or host_name(Headers(scope=scope).get("host", "")) != LOGGING:
            await self._app(scope, receive, send)
            return
        try:
            body = await receive_body(Request(scope, receive))
            if (scope["method"], scope["path"]) == ("POST", "/v2/entries:write"):
                self._write(body)
                response = answer({})
            elif running := self._emulators.preferred(""):
                response = await run_in_threadpool(self._emulators.ask, running, scope, body)
            else:
                call = f"{scope['method']} https://{LOGGING}{scope['path'][:300]}"
                raise StorageRefusal(405, NOT_EMULATED, _REFUSAL.format(call))
        except StorageRefusal as refusal:
            response = answer_refusal(refusal)
        await response(scope, receive, send)

    def _write(self, body: bytes) -> None:
        """Write the entries of a request, all or none. Raises StorageRefusal."""
        try:
            request = json.loads(body)
            lines = [json.dumps(_payload(entry)) for entry in request["entries"]]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise invalid(f"These are no entries of a log: {error!r}"[:300]) from None
        if lines and request.get("dryRun") is not True:
            self._journal = self._journal or JournalWriter(self._base)
            self._journal.write("".join(f"{line}\n" for line in lines).encode(), STDOUT)


def _payload(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry as a line of JSON has it. Raises a common exception for one that is wrong."""
    severity, text = entry.get("severity", 0), entry.get("textPayload", "")
    if isinstance(severity, int):
        severity = dict(enumerate(SEVERITIES))[severity // 100]
    if not (isinstance(severity, str) and isinstance(text, str)):
        raise TypeError("severity and textPayload are texts")
    return {**({"message": text} if text else {}), **entry.get("jsonPayload", {}), "severity": severity}


class _Emulators:
    """The way to what Google has besides Cloud Storage: an emulator of the home, if one runs at the moment.

    That at `port` is taken first, to which the job was submitted. It may have ended, and another one come.
    """

    def __init__(self, home: Path, port: int) -> None:
        self._home = home
        self._port = port

    def preferred(self, protocol: str) -> Running | None:
        """The emulator for a client of that protocol."""
        try:
            found = find_running(self._home) if self._port else []
        except StorageError:  # its record is damaged
            return None
        ranked = [(one.port == self._port, one) for one in found if one.grpc or protocol != "h2"]
        return max(ranked, key=lambda pair: pair[0], default=(False, None))[1]

    def ask(self, running: Running, scope: Scope, body: bytes) -> Response:
        """What an emulator answers to a call of Cloud Logging, by its proxy. Raises StorageRefusal."""
        target = quote(scope["raw_path"] + b"?" + scope["query_string"], safe="!$%&'()*+,/:;=?@[]~")
        try:
            tls = _trusting(running.bundle_file(self._home), running.process, "http/1.1")
            place = urlsplit(running.url).netloc
            client = http.client.HTTPSConnection(place, timeout=RELAY_SECONDS, context=tls)
            with closing(client):
                client.set_tunnel(LOGGING, 443, {"Proxy-Authorization": f"Bearer {running.token}"})
                client.request(scope["method"], target, body)
                got = client.getresponse()
                return Response(got.read(), got.status, {"content-type": got.getheader("content-type", "")})
        except (OSError, http.client.HTTPException) as error:
            raise StorageRefusal(503, "backendError", f"The emulator does not answer: {error}.") from None

    async def connect(self, host: str, protocol: str) -> Streams | None:
        """A connection through the emulator's proxy, as `proxy.Beyond` says.

        Its token stays here: the replicas of the job have another one.
        """
        own = CLOUD_STORAGE if protocol == "h2" else ANSWERED
        running = None if re.fullmatch(own, host) else self.preferred(protocol)
        if running is None:
            return None
        proxy = led_variables(urlsplit(running.url).netloc, running.token, "")["HTTPS_PROXY"]
        _, writer = await connect_through(proxy, f"{host}:443")
        client = writer.get_extra_info("socket").dup()
        writer.transport.abort()
        tls = _trusting(running.bundle_file(self._home), running.process, protocol)
        return await asyncio.open_connection(sock=client, ssl=tls, server_hostname=host)


@lru_cache(maxsize=2)
def _trusting(bundle: Path, _process: int, protocol: str) -> ssl.SSLContext:
    """The client's side of TLS with an emulator, which makes its certificate at its start."""
    context = ssl.create_default_context(cafile=str(bundle))
    context.set_alpn_protocols([protocol])
    return context


def _leave_with(place: Path) -> None:
    while place.exists():
        time.sleep(LOOK_SECONDS)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
