"""The program that serves Cloud Storage to one job: `python serve_job.py FOLDER LOCK`.

`LOCK` is the descriptor of its lock, which it inherits locked.
"""

from __future__ import annotations

import os
import sys

if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):  # noqa: PTH100, PTH120
    del sys.path[0]  # this folder: its modules would hide packages of the same name

import threading
import time
from pathlib import Path

import msgspec

from vtrain.backends.job_storage import StorageOrder
from vtrain.emulator.certificate import server_tls
from vtrain.emulator.http_server import listen, make_server
from vtrain.emulator.proxy import Proxy
from vtrain.emulator.storage.guard import Admission
from vtrain.emulator.storage.storage_app import make_app
from vtrain.errors import UnavailableError
from vtrain.runtime.folder import read_struct, write_struct

LOOK_SECONDS = 5.0
"""Seconds between two checks whether the job's folder still exists."""


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
        admission = Admission(hosts=frozenset({order.host}), token=order.token)
        tls = server_tls(place / "key.pem", place / "trusted.pem")
        server = make_server(make_app(Path(order.home), admission), Proxy(tls, admission.admits))
        write_struct(place / "order.json", msgspec.structs.replace(order, port=listener.getsockname()[1]))
        (place / "ready").touch()
        threading.Thread(target=_leave_with, args=(place,), daemon=True).start()
        server.run(sockets=[listener])


def _leave_with(place: Path) -> None:
    while place.exists():
        time.sleep(LOOK_SECONDS)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
