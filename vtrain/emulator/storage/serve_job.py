"""The program that serves Cloud Storage to one job: `python serve_job.py FOLDER LOCK`.

`LOCK` is the descriptor of its lock, which it inherits locked.
"""

from __future__ import annotations

import os
import sys

if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):  # noqa: PTH100, PTH120
    del sys.path[0]  # this folder: its modules would hide packages of the same name

import asyncio
import re
import ssl
import threading
import time
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from msgspec.structs import replace

from vtrain.backends.job_storage import StorageOrder
from vtrain.emulator.certificate import server_tls
from vtrain.emulator.http_server import listen, make_server
from vtrain.emulator.metadata_server import MetadataServer
from vtrain.emulator.proxy import Proxy, Streams, connect_through
from vtrain.emulator.running import Running, find_running
from vtrain.emulator.storage.guard import CLOUD_STORAGE, Admission, Guard
from vtrain.emulator.storage.storage_app import make_service
from vtrain.errors import StorageError, UnavailableError
from vtrain.https_proxy import led_variables
from vtrain.messages.names import LOCAL_PROJECT
from vtrain.runtime.folder import read_struct, write_struct

LOOK_SECONDS = 5.0
"""Seconds between two checks whether the job's folder still exists."""
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
        admission = Admission(hosts=frozenset({order.host}), token=order.token, refusal=_REFUSAL)
        tls = server_tls(place / "key.pem", place / "trusted.pem")
        emulators = _Emulators(Path(order.home), order.emulator_port)
        running = emulators.preferred("")
        project = running.project if running else LOCAL_PROJECT
        app = MetadataServer(make_service(Path(order.home)), project, order.token)
        no_grpc = _REFUSAL.format("gRPC")
        proxy = Proxy(tls, admission.admits, beyond=emulators.connect, no_grpc=no_grpc)
        server = make_server(Guard(app, admission), proxy)
        write_struct(place / "order.json", replace(order, port=listener.getsockname()[1]))
        (place / "ready").touch()
        threading.Thread(target=_leave_with, args=(place,), daemon=True).start()
        server.run(sockets=[listener])


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

    async def connect(self, host: str, protocol: str) -> Streams | None:
        """A connection through the emulator's proxy, as `proxy.Beyond` says.

        Its token stays here: the replicas of the job have another one.
        """
        running = None if re.fullmatch(CLOUD_STORAGE, host) else self.preferred(protocol)
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
