"""The emulator at an address of this machine, for tests: vtrain's own, served from a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROJECT = "demo"


@contextmanager
def emulator_service(
    home: Path,
    backend: str = "process",
    *,
    aip_dirs: str = "gs",
    admission: Any = None,
    most_jobs: int = 0,
    backends: Any = None,
) -> Iterator[str]:
    """Serve the API over the jobs of a home; its address. Needs the extra `emulator`.

    `backends` take the place of those of the home.
    """
    from vtrain.emulator.http_server import address, listen, make_server
    from vtrain.emulator.server import EmulatorOrder, make_app
    from vtrain.emulator.storage.guard import Admission
    from vtrain.emulator.vertex.training_service import TrainingService

    admission = admission or Admission()
    order = EmulatorOrder(
        home=home, backend=backend, project=PROJECT, host="127.0.0.1", port=0, admission=admission
    )
    service = TrainingService(home, backend, aip_dirs=aip_dirs, most_jobs=most_jobs)
    service.backends = backends or service.backends
    with listen(order.host, order.port) as listener:
        server = make_server(make_app(order, service))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield address(listener, admission.token)
        finally:
            server.should_exit = True
            thread.join()
            service.servers.close()
