"""The emulator at an address of this machine, for tests: vtrain's own, served from a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import vtrain
from lib.storage_service import Http
from lib.waiting import wait_until
from vtrain.testing.script import Script, script_job

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
            service.close()


ROOT = Path(vtrain.__file__).parent.parent


PARENT = "/v1/projects/demo/locations/us-central1"


Document = dict[str, Any]


def job_document(*scripts: Script, name: str = "job", **fields: Any) -> Document:
    """A job as the SDK writes it."""
    pools = [
        {
            "machineSpec": {"machineType": "n1-standard-4"},
            "replicaCount": "1",
            "pythonPackageSpec": {
                "executorImageUri": "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest",
                "pythonModule": pool.python_package_spec.python_module,
                "args": list(pool.python_package_spec.args),
                "env": [{"name": "PYTHONPATH", "value": str(ROOT)}],
            },
        }
        for pool in script_job(*scripts).job_spec.worker_pool_specs
        if pool.python_package_spec is not None
    ]
    return {"displayName": name, "jobSpec": {"workerPoolSpecs": pools}, **fields}


def ended(http: Http, name: str) -> Document:
    wait_until(lambda: "endTime" in http("GET", f"/v1/{name}").document)
    return http("GET", f"/v1/{name}").document


def refusal(reply: Any, status: int, word: str) -> str:
    """The message of an error in the service's envelope."""
    error = reply.document["error"]
    assert (reply.status, error["code"], error["status"]) == (status, status, word), error
    return str(error["message"])
