"""What the engine itself takes: `python docker_start_floor.py CONTAINERS.json`.

The calls of docker_start_plain.py and no others, as many at once as vtrain starts. It needs no SDK, watches
nothing, reads no log and stores nothing: on the same engine a job cannot be much faster.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docker_start_plain as plain

from vtrain.backends.docker.job_engine import STARTS_AT_ONCE
from vtrain.containers.engine import connect


def main() -> None:
    calls = connect().calls
    configs = [plain.on_network(config) for config in json.loads(Path(sys.argv[1]).read_text())]
    addresses = {"Config": [{"Subnet": plain.SUBNET}]}
    calls.post("/networks/create", {"Name": plain.NAME, "Driver": "bridge", "IPAM": addresses})

    def start(config: dict[str, Any]) -> str:
        container = str(calls.post("/containers/create", config)["Id"])
        calls.post(f"/containers/{container}/start")
        return container

    with ThreadPoolExecutor(STARTS_AT_ONCE) as pool:
        containers = list(pool.map(start, configs))
        print("running", flush=True)
        list(pool.map(lambda container: calls.delete(f"/containers/{container}", v=1, force=1), containers))
    calls.delete(f"/networks/{plain.NAME}")


if __name__ == "__main__":
    main()
