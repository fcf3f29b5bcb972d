"""What every replica of a job sees: its environment and argv, as Vertex AI gives them. Pure.

Source of the rules: Google's documentation of distributed training and of environment variables, and
values seen in real jobs. What neither settles stands behind one constant each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from vtrain.messages.custom_job import ContainerSpec, CustomJobSpec, EnvVar, PythonPackageSpec, WorkerPoolSpec
from vtrain.messages.names import LOCAL_PROJECT_NUMBER

SINGLE_REPLICA_POOL = "chief"
"""How CLUSTER_SPEC names the pool of a job with one replica; seen in jobs, not documented."""
TRAINING_PORT = 2222
MASTER_PORT = 3333
"""MASTER_PORT and `open_ports` on Vertex; seen, not documented."""
SERVICE_ACCOUNT = f"service-{LOCAL_PROJECT_NUMBER}@gcp-sa-aiplatform-cc.iam.gserviceaccount.com"
"""CLOUD_ML_JOB_SA where the job names no account: the Custom Code Service Agent."""
REDUCTION_SERVER_IMAGE = "reductionserver"
UNCOUNTED_POOLS = (3,)
"""Pools that WORLD_SIZE and RANK leave out: evaluators. Not documented."""
TF_POOL_NAMES = ("chief", "worker", "ps", "evaluator")
OUTPUT_FOLDERS = {
    "AIP_MODEL_DIR": "model",
    "AIP_CHECKPOINT_DIR": "checkpoints",
    "AIP_TENSORBOARD_LOG_DIR": "logs",
}

_REFERENCE = re.compile(r"\$\$\(|\$\(([A-Za-z_][A-Za-z0-9_]*)\)")


class ReplicaId(msgspec.Struct, frozen=True):
    """A replica's place: the position of its pool, and its own in the pool."""

    pool: int
    index: int

    @property
    def name(self) -> str:
        """`workerpool0-0`, as errors and logs name it."""
        return f"workerpool{self.pool}-{self.index}"


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What a job's replicas share. `hosts` are `host:port`, one per replica in order.

    `output` is the base output directory as the replicas reach it (empty: none), without a trailing slash.
    """

    job_id: str
    region: str
    hosts: dict[ReplicaId, str]
    master_port: int = MASTER_PORT
    project_number: str = LOCAL_PROJECT_NUMBER
    output: str = ""


def replica_ids(spec: CustomJobSpec) -> tuple[ReplicaId, ...]:
    """The job's replicas, the primary first. A pool's `replicaCount` is 1 where nothing is said."""
    return tuple(
        ReplicaId(pool, index)
        for pool, pool_spec in enumerate(spec.worker_pool_specs)
        if pool_spec.task is not None
        for index in range(pool_spec.replica_count or 1)
    )


def replica_environment(spec: CustomJobSpec, replica: ReplicaId, around: Surroundings) -> dict[str, str]:
    """The variables that the service and the user set, in that order; the user's may override."""
    pool = spec.worker_pool_specs[replica.pool]
    variables = {"CLUSTER_SPEC": cluster_spec(pool, replica, around)}
    if len(around.hosts) > 1:
        variables["TF_CONFIG"] = tf_config(pool, replica, around)
        variables |= _torch_variables(spec, replica, around)
    variables |= _service_variables(spec, pool, around)
    if around.output:
        variables |= {name: f"{around.output}/{folder}/" for name, folder in OUTPUT_FOLDERS.items()}
    return variables | expand_env(pool.task.env if pool.task else (), variables)


def module_argv(task: PythonPackageSpec, python: str) -> tuple[str, ...]:
    """A Python package's command line: its arguments reach the module unchanged, without a shell."""
    return (python, "-m", task.python_module, *task.args)


def cluster_spec(pool: WorkerPoolSpec, replica: ReplicaId, around: Surroundings) -> str:
    """CLUSTER_SPEC's value, keys in Vertex's order. Pools that the job does not have are missing keys."""
    single = len(around.hosts) == 1
    cluster: dict[str, list[str]] = {}
    for member, host in around.hosts.items():
        cluster.setdefault(SINGLE_REPLICA_POOL if single else f"workerpool{member.pool}", []).append(host)
    task_type = SINGLE_REPLICA_POOL if single else f"workerpool{replica.pool}"
    document: dict[str, Any] = {
        "cluster": cluster,
        "environment": "cloud",
        "task": {"type": task_type, "index": replica.index},
        "job": job_string(pool.task),
    }
    if not single:
        document["open_ports"] = [around.master_port]
    return _compact(document)


def tf_config(pool: WorkerPoolSpec, replica: ReplicaId, around: Surroundings) -> str:
    """TF_CONFIG's value; evaluators are not members of its cluster."""
    cluster: dict[str, list[str]] = {}
    for member, host in around.hosts.items():
        if TF_POOL_NAMES[member.pool] != "evaluator":
            cluster.setdefault(TF_POOL_NAMES[member.pool], []).append(host)
    document = {
        "cluster": dict(sorted(cluster.items())),
        "environment": "cloud",
        "job": job_string(pool.task),
        "task": {"cloud": around.job_id, "index": replica.index, "type": TF_POOL_NAMES[replica.pool]},
    }
    return _compact(document)


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


def expand_env(env: Iterable[EnvVar], service: Mapping[str, str]) -> dict[str, str]:
    """A user's variables with `$(NAME)` replaced from the service's and those before it.

    `$$(NAME)` yields `$(NAME)`, and a reference to what is not set stays as typed (as in Kubernetes).
    """
    known = dict(service)
    own: dict[str, str] = {}
    for variable in env:
        value = _REFERENCE.sub(lambda match: _resolve(match, known), variable.value)
        known[variable.name] = own[variable.name] = value
    return own


def _resolve(match: re.Match[str], known: Mapping[str, str]) -> str:
    if match[1] is None:
        return "$("
    return known.get(match[1], match[0])


def _torch_variables(spec: CustomJobSpec, replica: ReplicaId, around: Surroundings) -> dict[str, str]:
    counted = [member for member in around.hosts if _counts(spec, member)]
    primary = next(iter(around.hosts.values()))
    variables = {
        "MASTER_ADDR": primary.rpartition(":")[0],
        "MASTER_PORT": str(around.master_port),
        "WORLD_SIZE": str(len(counted)),
    }
    if replica in counted:
        variables["RANK"] = str(counted.index(replica))
    return variables


def _counts(spec: CustomJobSpec, member: ReplicaId) -> bool:
    task = spec.worker_pool_specs[member.pool].task
    image = task.image_uri if isinstance(task, ContainerSpec) else ""
    return member.pool not in UNCOUNTED_POOLS and REDUCTION_SERVER_IMAGE not in image


def _service_variables(spec: CustomJobSpec, pool: WorkerPoolSpec, around: Surroundings) -> dict[str, str]:
    variables = {
        "CLOUD_ML_PROJECT_ID": around.project_number,
        "CLOUD_ML_JOB_ID": around.job_id,
        "CLOUD_ML_REGION": around.region,
        "CLOUD_ML_JOB": job_string(pool.task),
        "CLOUD_ML_JOB_SA": spec.service_account or SERVICE_ACCOUNT,
    }
    if pool.container_spec is not None:
        variables["AIP_USE_CUSTOM_CONTAINER"] = "true"
    return variables


def _compact(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))
