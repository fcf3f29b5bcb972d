"""The view that every replica of a job has: its environment and argv, as Vertex AI gives them. Pure.

Source of the rules: Google's documentation of distributed training and of environment variables, and
values seen in real jobs. The text of a constant, or a comment, says where neither settles a question.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import msgspec

from vtrain.digests import content_digest
from vtrain.messages.custom_job import ContainerSpec, CustomJobSpec, EnvVar, PythonPackageSpec, WorkerPoolSpec
from vtrain.messages.names import LOCAL_PROJECT_NUMBER
from vtrain.messages.structs import GcsDestination
from vtrain.runtime.job_order import DataPart

TRAINING_PORT = 2222
MASTER_PORT = 3333
"""MASTER_PORT and `open_ports` on Vertex; seen in jobs, not documented."""
SERVICE_ACCOUNT = "service-{project_number}@gcp-sa-aiplatform-cc.iam.gserviceaccount.com"
"""CLOUD_ML_JOB_SA where the job names no account: the Custom Code Service Agent."""
UNCOUNTED_POOLS = (3,)
"""Pools that WORLD_SIZE and RANK leave out: evaluators. Not documented."""
METRIC_FILE_VARIABLE = "CLOUD_ML_HP_METRIC_FILE"
HP_METRIC_FILE = "/var/hypertune/output.metrics"
"""CLOUD_ML_HP_METRIC_FILE. A sample of Google's reads this path; what the variable says is not documented."""
DASHBOARD_PORT = 8888
"""AIP_DASHBOARD_PORT with `enableDashboardAccess`; a sample's number, not documented."""
TENSORBOARD_API_URI = "{region}-aiplatform.googleapis.com"
"""AIP_TENSORBOARD_API_URI with `tensorboard`. Not documented but for the name."""
PYTHON = "python3"
Program = tuple[tuple[str, ...], tuple[str, ...]]
"""The ENTRYPOINT and the CMD of an image."""
UNKNOWN_PROGRAM: Program = (("<ENTRYPOINT>",), ())
"""The words in a plan for those of an image that is not here."""
OUTPUT_FOLDERS = {
    "AIP_MODEL_DIR": "model",
    "AIP_CHECKPOINT_DIR": "checkpoints",
    "AIP_TENSORBOARD_LOG_DIR": "logs",
}
DATA_VARIABLES = {
    "AIP_TRAINING_DATA_URI": "training",
    "AIP_VALIDATION_DATA_URI": "validation",
    "AIP_TEST_DATA_URI": "test",
}
"""The variables of a dataset's parts, and how the names of their files begin."""
SINGLE_REPLICA_POOL = "chief"
"""How CLUSTER_SPEC names the pool of a job with one replica; seen in jobs, not documented."""
TF_POOL_NAMES = ("chief", "worker", "ps", "evaluator")
EVALUATOR = "evaluator"
TF_CLOUD_ID = "{job_id}"
"""TF_CONFIG's `task.cloud`, an opaque id. Not documented what it is made of."""
REDUCTION_SERVER_POOL = 2
REDUCTION_SERVER_IMAGE = "reductionserver"
_REFERENCE = re.compile(r"\$\$\(|\$\(([A-Za-z_][A-Za-z0-9_]*)\)")


class ReplicaId(msgspec.Struct, frozen=True):
    """A replica's place: the position of its pool, and its own in the pool."""

    pool: int
    index: int

    @property
    def name(self) -> str:
        """`workerpool0-0`, as errors and logs name it."""
        return f"workerpool{self.pool}-{self.index}"


PRIMARY = ReplicaId(0, 0)
"""The replica that MASTER_ADDR names, by the host name that all replicas know. Not documented; on the primary
Google's own images put a local name in its place."""


class JobContext(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The facts that a job's replicas share. `hosts` are `host:port`, one per replica in order.

    `output` is the base output directory as the replicas reach it (empty: none), without a trailing slash.
    `trial_id` is the number of the trial whose job this is (empty: it is no trial's); `metric_file` is where
    its trainer reports. `data` is the dataset of its training pipeline, with its folder as replicas reach it.
    """

    job_id: str
    region: str
    hosts: dict[ReplicaId, str]
    master_port: int = MASTER_PORT
    project_number: str = LOCAL_PROJECT_NUMBER
    output: str = ""
    trial_id: str = ""
    metric_file: str = HP_METRIC_FILE
    data: DataPart | None = None

    @cached_property
    def pool_sizes(self) -> Counter[int]:
        """How many replicas each pool has, by its position."""
        return Counter(member.pool for member in self.hosts)

    @cached_property
    def cluster(self) -> str:
        """CLUSTER_SPEC's `cluster` as JSON, the same for all replicas."""
        single = len(self.hosts) == 1
        cluster: dict[str, list[str]] = {}
        for member, host in self.hosts.items():
            cluster.setdefault(SINGLE_REPLICA_POOL if single else f"workerpool{member.pool}", []).append(host)
        return _compact(cluster)

    @cached_property
    def tf_cluster(self) -> str:
        """TF_CONFIG's `cluster` as JSON, the same for all replicas; evaluators are not members.

        Reduction Servers, which can only be the third pool, stand there as `ps`: not documented.
        """
        cluster: dict[str, list[str]] = {}
        for member, host in self.hosts.items():
            if TF_POOL_NAMES[member.pool] != EVALUATOR:
                cluster.setdefault(TF_POOL_NAMES[member.pool], []).append(host)
        return _compact(dict(sorted(cluster.items())))


def replica_ids(spec: CustomJobSpec) -> tuple[ReplicaId, ...]:
    """The job's replicas, the primary first. A pool's `replicaCount` is 1 where nothing is said."""
    return tuple(
        ReplicaId(pool, index)
        for pool, pool_spec in enumerate(spec.worker_pool_specs)
        if pool_spec.task is not None
        for index in range(pool_spec.replica_count or 1)
    )


def trial_spec(spec: CustomJobSpec, trial_id: str, arguments: tuple[str, ...] = ()) -> CustomJobSpec:
    """The job of a trial: its parameters follow the arguments of each pool, its output has its own folder.

    Sources: `CustomJobSpec.base_output_directory` of `custom_job.proto`. The order of arguments is not
    documented.
    """
    pools = []
    for pool in spec.worker_pool_specs:
        task = pool.task
        if task is not None:
            own = msgspec.structs.replace(task, args=(*task.args, *arguments))
            field = "container_spec" if isinstance(own, ContainerSpec) else "python_package_spec"
            pool = msgspec.structs.replace(pool, **{field: own})
        pools.append(pool)
    output = spec.base_output_directory
    if output is not None and spec.output_uri:
        output = GcsDestination(output_uri_prefix=f"{spec.output_uri.rstrip('/')}/{trial_id}")
    return msgspec.structs.replace(spec, worker_pool_specs=tuple(pools), base_output_directory=output)


def host_name(job_id: str, replica: ReplicaId) -> str:
    """A replica's name in its job's network, as on Vertex AI: ten hexadecimal digits tell the job."""
    digits = content_digest(job_id.encode())[:10]
    return f"cmle-training-workerpool{replica.pool}-{digits}-{replica.index}"


def service_hosts(spec: CustomJobSpec, job_id: str) -> dict[ReplicaId, str]:
    """The hosts and ports of a job's replicas, as on Vertex AI."""
    return {member: f"{host_name(job_id, member)}:{TRAINING_PORT}" for member in replica_ids(spec)}


def replica_environment(spec: CustomJobSpec, replica: ReplicaId, context: JobContext) -> dict[str, str]:
    """The variables that the service and the user set, in that order; the user's may override."""
    pool = spec.worker_pool_specs[replica.pool]
    variables = {"CLUSTER_SPEC": cluster_spec(pool, replica, context)}
    if len(context.hosts) > 1:
        variables["TF_CONFIG"] = tf_config(pool, replica, context)
        # Not documented: users report that one replica has none of these.
        variables |= _torch_variables(spec, replica, context)
    variables |= _service_variables(spec, pool, context)
    # A job's variable takes the place of the service's of that name: not documented.
    return variables | expand_env(pool.task.env if pool.task else (), variables)


def replica_argv(
    task: ContainerSpec | PythonPackageSpec, python: str = PYTHON, program: Program = UNKNOWN_PROGRAM
) -> tuple[str, ...]:
    """A replica's command line. The arguments of a Python package reach its module without a shell.

    A container's `command` takes the place of the image's ENTRYPOINT and CMD, its `args` that of the CMD.
    Source: Vertex AI, "Configure container settings for training".
    """
    if isinstance(task, PythonPackageSpec):
        return (python, "-m", task.python_module, *task.args)
    entrypoint, default = program
    return (*(task.command or entrypoint), *(task.args or (() if task.command else default)))


def _torch_variables(spec: CustomJobSpec, replica: ReplicaId, context: JobContext) -> dict[str, str]:
    # Reduction Servers are not counted. Not documented; Google's sample works only so.
    counted = {
        pool: size
        for pool, size in context.pool_sizes.items()
        if pool not in UNCOUNTED_POOLS and not is_reduction_server(pool, spec.worker_pool_specs[pool])
    }
    variables = {
        "MASTER_ADDR": context.hosts[PRIMARY].rpartition(":")[0],
        "MASTER_PORT": str(context.master_port),
        "WORLD_SIZE": str(sum(counted.values())),
    }
    if replica.pool in counted:  # that the others have no RANK is not documented
        before = sum(size for pool, size in counted.items() if pool < replica.pool)
        variables["RANK"] = str(before + replica.index)
    return variables


def _service_variables(spec: CustomJobSpec, pool: WorkerPoolSpec, context: JobContext) -> dict[str, str]:
    account = spec.service_account or SERVICE_ACCOUNT.format(project_number=context.project_number)
    variables = {
        "CLOUD_ML_PROJECT_ID": context.project_number,
        "CLOUD_ML_JOB_ID": context.job_id,
        "CLOUD_ML_REGION": context.region,
        "CLOUD_ML_JOB": job_string(pool.task),  # for a Python package not documented
        "CLOUD_ML_JOB_SA": account,
    }
    if pool.container_spec is not None:
        variables["AIP_USE_CUSTOM_CONTAINER"] = "true"
    if context.output:
        variables |= {name: f"{context.output}/{folder}/" for name, folder in OUTPUT_FOLDERS.items()}
    if context.trial_id:
        variables |= {"CLOUD_ML_TRIAL_ID": context.trial_id, METRIC_FILE_VARIABLE: context.metric_file}
    if context.data is not None:
        data = context.data
        variables |= {"AIP_DATA_FORMAT": data.format}
        variables |= {name: f"{data.uri}/{part}-*{data.suffix}" for name, part in DATA_VARIABLES.items()}
    if spec.tensorboard:
        api = TENSORBOARD_API_URI.format(region=context.region)
        variables |= {"AIP_TENSORBOARD_RESOURCE_NAME": spec.tensorboard, "AIP_TENSORBOARD_API_URI": api}
    if spec.enable_dashboard_access:
        variables["AIP_DASHBOARD_PORT"] = str(DASHBOARD_PORT)
    return variables


def cluster_spec(pool: WorkerPoolSpec, replica: ReplicaId, context: JobContext) -> str:
    """CLUSTER_SPEC's value, keys in Vertex's order. Pools that the job does not have are missing keys."""
    single = len(context.hosts) == 1
    task_type = SINGLE_REPLICA_POOL if single else f"workerpool{replica.pool}"
    document: dict[str, Any] = {
        "environment": "cloud",
        "task": {"type": task_type, "index": replica.index} | _trial(context),
        "job": job_string(pool.task),
    }
    if not single:
        document["open_ports"] = [context.master_port]
    return _with_cluster(context.cluster, document)


def tf_config(pool: WorkerPoolSpec, replica: ReplicaId, context: JobContext) -> str:
    """TF_CONFIG's value."""
    task = {
        "cloud": TF_CLOUD_ID.format(job_id=context.job_id),
        "index": replica.index,
        "type": TF_POOL_NAMES[replica.pool],
    }
    document = {
        "environment": "cloud",
        # Not documented: the page shows an object, a job of AI Platform Training had a string.
        "job": job_string(pool.task),
        "task": dict(sorted((task | _trial(context)).items())),
    }
    return _with_cluster(context.tf_cluster, document)


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
    """Whether the pool at that position runs Google's Reduction Server: shown by the name of its image."""
    image = pool.container_spec.image_uri if pool.container_spec is not None else ""
    name = image.rpartition("/")[2].partition("@")[0].partition(":")[0]
    return number == REDUCTION_SERVER_POOL and name == REDUCTION_SERVER_IMAGE


def _trial(context: JobContext) -> dict[str, str]:
    return {"trial": context.trial_id} if context.trial_id else {}


def _with_cluster(cluster: str, document: Mapping[str, Any]) -> str:
    """A document's JSON with its cluster, which is JSON already, in front."""
    return f'{{"cluster":{cluster},{_compact(document).removeprefix("{")}'


def _compact(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))


def expand_env(env: Iterable[EnvVar], service: Mapping[str, str]) -> dict[str, str]:
    """A user's variables with `$(NAME)` replaced from the service's and those before it.

    `$$(NAME)` yields `$(NAME)`, and a reference to what is not set stays as typed.
    """
    known = dict(service)
    own: dict[str, str] = {}
    for variable in env:
        value = _REFERENCE.sub(lambda match: _resolve(match, known), variable.value)
        known[variable.name] = own[variable.name] = value
    return own


def expand_words(words: Iterable[str], known: Mapping[str, str]) -> tuple[str, ...]:
    """A command line's words with `$(NAME)` replaced, as in `expand_env`."""
    return tuple(_REFERENCE.sub(lambda match: _resolve(match, known), word) for word in words)


def _resolve(match: re.Match[str], known: Mapping[str, str]) -> str:
    if match[1] is None:
        return "$("
    return known.get(match[1], match[0])
