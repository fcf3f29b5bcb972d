"""Who takes part, read from CLUSTER_SPEC."""

import json
import os
from typing import NamedTuple

ALONE = '{"cluster": {"chief": ["127.0.0.1:2222"]}, "task": {"type": "chief", "index": 0}}'


class Cluster(NamedTuple):
    """The replicas' `host:port`, the chief's first, and the rank of this one."""

    addresses: tuple[str, ...]
    rank: int

    @property
    def size(self) -> int:
        return len(self.addresses)

    @property
    def chief(self) -> tuple[str, int]:
        """Host and port on which the chief listens."""
        host, _, port = self.addresses[0].rpartition(":")
        return host, int(port)


def read_cluster() -> Cluster:
    """The cluster; of one replica where the variable is not set."""
    spec = json.loads(os.environ.get("CLUSTER_SPEC", ALONE))
    pools, task = spec["cluster"], spec["task"]
    members = [(pool, index) for pool in sorted(pools) for index in range(len(pools[pool]))]
    addresses = tuple(pools[pool][index] for pool, index in members)
    return Cluster(addresses, members.index((task["type"], task["index"])))
