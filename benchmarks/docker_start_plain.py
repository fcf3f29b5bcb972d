"""The plain script that docker_start.py measures against: `python docker_start_plain.py CONTAINERS.json`.

Makes a network, creates and starts the containers, prints `running`; then removes all of it: one after
another.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

NAME = "vtrain-benchmark-start"
SUBNET = "10.198.0.0/24"


def main() -> None:
    from docker import APIClient
    from docker.types import IPAMConfig, IPAMPool

    client = APIClient(base_url=os.environ.get("DOCKER_HOST"))
    configs = [on_network(config) for config in json.loads(Path(sys.argv[1]).read_text())]
    addresses = IPAMConfig(pool_configs=[IPAMPool(subnet=SUBNET)])
    client.create_network(NAME, driver="bridge", ipam=addresses)
    containers = []
    for number, config in enumerate(configs):
        containers.append(client.create_container_from_config(config, f"{NAME}-{number}")["Id"])
        client.start(containers[-1])
    print("running", flush=True)
    for container in containers:
        client.remove_container(container, v=True, force=True)
    client.remove_network(NAME)


def on_network(config: dict[str, Any]) -> dict[str, Any]:
    """The same container on this script's network, without the labels of a job."""
    host = config["HostConfig"] | {"NetworkMode": NAME}
    aliases = {"EndpointsConfig": {NAME: {"Aliases": [config["Hostname"]]}}}
    return config | {"Labels": {}, "HostConfig": host, "NetworkingConfig": aliases}


if __name__ == "__main__":
    main()
