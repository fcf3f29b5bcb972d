"""CLUSTER_SPEC and TF_CONFIG: how a replica learns who the others are, and which one it is. Pure.

Source of the shapes: Google's page on distributed training, and values seen in real jobs. What neither
settles stands behind one constant each; where they disagree, what was seen counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vtrain.messages.custom_job import ContainerSpec, PythonPackageSpec, WorkerPoolSpec

if TYPE_CHECKING:
    from vtrain.engine.replica import ReplicaId, Surroundings

SINGLE_REPLICA_POOL = "chief"
"""How CLUSTER_SPEC names the pool of a job with one replica; seen in jobs, not documented."""
TF_POOL_NAMES = ("chief", "worker", "ps", "evaluator")
EVALUATOR = "evaluator"
REDUCTION_SERVERS_ARE_PS = True
"""Whether a Reduction Server in the third pool stands in TF_CONFIG as `ps`. Not documented."""
TF_JOB_IS_A_STRING = True
"""Whether TF_CONFIG's `job` is a string that holds JSON, as CLUSTER_SPEC's is, or an object. Not documented:
the page shows an object, a job of the older service had a string."""
TF_CLOUD_ID = "{job_id}"
"""TF_CONFIG's `task.cloud`, an opaque id. Not documented what it is made of."""
REDUCTION_SERVER_POOL = 2
REDUCTION_SERVER_IMAGE = "reductionserver"


def cluster_spec(pool: WorkerPoolSpec, replica: ReplicaId, around: Surroundings) -> str:
    """CLUSTER_SPEC's value, keys in Vertex's order. Pools that the job does not have are missing keys."""
    single = len(around.hosts) == 1
    task_type = SINGLE_REPLICA_POOL if single else f"workerpool{replica.pool}"
    document: dict[str, Any] = {
        "environment": "cloud",
        "task": {"type": task_type, "index": replica.index} | _trial(around),
        "job": job_string(pool.task),
    }
    if not single:
        document["open_ports"] = [around.master_port]
    return _with_cluster(around.cluster, document)


def tf_config(
    pool: WorkerPoolSpec, replica: ReplicaId, around: Surroundings, *, reduction_server: bool = False
) -> str:
    """TF_CONFIG's value; evaluators are not members of its cluster.

    `reduction_server` says that the third pool is a Reduction Server.
    """
    task = {
        "cloud": TF_CLOUD_ID.format(job_id=around.job_id),
        "index": replica.index,
        "type": TF_POOL_NAMES[replica.pool],
    }
    job = job_string(pool.task)
    document = {
        "environment": "cloud",
        "job": job if TF_JOB_IS_A_STRING else json.loads(job),
        "task": dict(sorted((task | _trial(around)).items())),
    }
    return _with_cluster(around.tf_clusters[reduction_server], document)


def cluster_text(hosts: Mapping[ReplicaId, str]) -> str:
    """CLUSTER_SPEC's `cluster`, the same for all replicas of a job."""
    single = len(hosts) == 1
    cluster: dict[str, list[str]] = {}
    for member, host in hosts.items():
        cluster.setdefault(SINGLE_REPLICA_POOL if single else f"workerpool{member.pool}", []).append(host)
    return _compact(cluster)


def tf_cluster_text(hosts: Mapping[ReplicaId, str], *, reduction_server: bool) -> str:
    """TF_CONFIG's `cluster`, the same for all replicas of a job."""
    cluster: dict[str, list[str]] = {}
    for member, host in hosts.items():
        is_reducer = reduction_server and member.pool == REDUCTION_SERVER_POOL
        if TF_POOL_NAMES[member.pool] != EVALUATOR and (REDUCTION_SERVERS_ARE_PS or not is_reducer):
            cluster.setdefault(TF_POOL_NAMES[member.pool], []).append(host)
    return _compact(dict(sorted(cluster.items())))


def job_string(task: ContainerSpec | PythonPackageSpec | None) -> str:
    """CLUSTER_SPEC's `job`: a string that holds JSON, empty values for a container."""
    package = task if isinstance(task, PythonPackageSpec) else PythonPackageSpec()
    return _compact(
        {
            "python_module": package.python_module,
            "package_uris": package.package_uris,
            "job_args": package.args,
        }
    )


def is_reduction_server(number: int, pool: WorkerPoolSpec) -> bool:
    """Whether the pool at that position runs Google's Reduction Server: told by the name of its image."""
    image = pool.container_spec.image_uri if pool.container_spec is not None else ""
    name = image.rpartition("/")[2].partition("@")[0].partition(":")[0]
    return number == REDUCTION_SERVER_POOL and name == REDUCTION_SERVER_IMAGE


def _trial(around: Surroundings) -> dict[str, str]:
    return {"trial": around.trial_id} if around.trial_id else {}


def _with_cluster(cluster: str, document: Mapping[str, Any]) -> str:
    """A document's JSON with its cluster, which is JSON already, in front."""
    return f'{{"cluster":{cluster},{_compact(document).removeprefix("{")}'


def _compact(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))
