"""TF_CONFIG, judged by the rules of the code that reads it: TensorFlow's, written down here.

From `TFConfigClusterResolver`, `ClusterSpec` and `multi_worker_util`: what they read, and what they refuse.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from vtrain.messages.custom_job import ContainerSpec, CustomJobSpec, PythonPackageSpec, WorkerPoolSpec
from vtrain.runtime.replica.vertex_view import (
    JobContext,
    ReplicaId,
    replica_environment,
    replica_ids,
    service_hosts,
)

TASK_TYPES = ("chief", "worker", "evaluator", "ps")
POOLS = [(1, 1), (1, 2), (1, 0, 1), (1, 2, 1), (1, 2, 1, 1), (1, 0, 0, 1), (1, 3, 2, 1), (1, 1, 0, 1)]
TASKS = (
    {"container_spec": ContainerSpec(image_uri="i")},
    {"python_package_spec": PythonPackageSpec(python_module="m", args=('--a="b"', "--c=\\"))},
)


class ClusterSpec:
    """`tf.train.ClusterSpec`: a dict of job names to lists of addresses, or to dicts of index and address."""

    def __init__(self, cluster: Any) -> None:
        if not isinstance(cluster, dict):
            raise TypeError("`cluster` must be a dictionary")
        self.jobs: dict[str, dict[int, str]] = {}
        for name, tasks in cluster.items():
            if not isinstance(tasks, list | dict):
                raise TypeError(f"The tasks for job {name!r} must be a list or a dictionary")
            numbered = enumerate(tasks) if isinstance(tasks, list) else tasks.items()
            self.jobs[str(name)] = {int(index): address for index, address in numbered}
            if not all(isinstance(address, str) for address in self.jobs[name].values()):
                raise TypeError(f"Task address in job {name!r} must be bytes or unicode")


class Resolver:
    """`TFConfigClusterResolver`: what it takes from TF_CONFIG."""

    def __init__(self, text: str) -> None:
        self.config = json.loads(text)
        self.cluster = ClusterSpec(self.config["cluster"]) if "cluster" in self.config else ClusterSpec({})
        task = self.config.get("task", {})
        self.task_type = str(task["type"]) if "type" in task else None
        self.task_id = int(task["index"]) if "index" in task else None
        self.environment = self.config.get("environment", "")

    def master(self) -> str:
        """The address of this task; empty for a cluster of one."""
        jobs = list(self.cluster.jobs.values())
        if not jobs or (len(jobs) == 1 and len(jobs[0]) == 1):
            return ""
        return self.cluster.jobs[str(self.task_type)][int(self.task_id or 0)]


def validate(resolver: Resolver) -> None:
    """`multi_worker_util._validate_cluster_spec`."""
    jobs = resolver.cluster.jobs
    if any(job not in TASK_TYPES for job in jobs):
        raise ValueError("Disallowed task type found in cluster spec")
    if resolver.task_type not in TASK_TYPES:
        raise ValueError(f"Unrecognized task_type: {resolver.task_type}")
    if resolver.task_type not in jobs and resolver.task_type != "evaluator":
        raise ValueError(f"`task_type` {resolver.task_type} not found in cluster_spec")
    if len(jobs.get("chief", ())) > 1 or len(jobs.get("evaluator", ())) > 1:
        raise ValueError("There must be at most one 'chief' and one 'evaluator' job")
    if resolver.task_type in jobs and int(resolver.task_id or 0) >= len(jobs[resolver.task_type]):
        raise ValueError("The `task_id` exceeds the maximum id")


def job_of(counts: tuple[int, ...], task: dict[str, Any]) -> CustomJobSpec:
    pools = [WorkerPoolSpec(replica_count=count, **task) if count else WorkerPoolSpec() for count in counts]
    return CustomJobSpec(worker_pool_specs=tuple(pools))


def resolver_of(spec: CustomJobSpec, member: ReplicaId, trial: str = "") -> Resolver:
    hosts = service_hosts(spec, "1")
    context = JobContext(job_id="1", region="us-central1", hosts=hosts, trial_id=trial)
    return Resolver(replica_environment(spec, member, context)["TF_CONFIG"])


@pytest.mark.parametrize("counts", POOLS)
@pytest.mark.parametrize("task", TASKS, ids=["container", "package"])
@pytest.mark.parametrize("trial", ["", "3"])
def test_tensorflow_takes_every_replicas_tf_config(
    counts: tuple[int, ...], task: dict[str, Any], trial: str
) -> None:
    spec = job_of(counts, task)
    for member, host in service_hosts(spec, "1").items():
        resolver = resolver_of(spec, member, trial)
        validate(resolver)
        assert resolver.environment == "cloud"
        assert resolver.task_type == TASK_TYPES[(0, 1, 3, 2)[member.pool]]
        if member.pool != 3 and len(resolver.cluster.jobs) > 1:
            assert resolver.master() == host
        for addresses in resolver.cluster.jobs.values():
            assert all(address.rpartition(":")[2] == "2222" for address in addresses.values())


def test_every_replica_has_the_same_cluster_and_a_place_of_its_own() -> None:
    spec = job_of((1, 3, 2, 1), TASKS[0])
    resolvers = [resolver_of(spec, member) for member in replica_ids(spec)]
    assert len({json.dumps(resolver.config["cluster"]) for resolver in resolvers}) == 1
    assert len({(resolver.task_type, resolver.task_id) for resolver in resolvers}) == len(resolvers)


def test_the_rules_written_down_here_refuse_what_is_wrong() -> None:
    right = resolver_of(job_of((1, 2), TASKS[0]), ReplicaId(1, 1)).config
    for wrong in (
        right | {"task": {"type": "worker", "index": 2}},
        right | {"task": {"type": "workerpool1", "index": 0}},
        right | {"cluster": {"chief": ["a:1", "b:1"], "worker": ["c:1"]}},
        right | {"cluster": {"workerpool0": ["a:1"]}},
    ):
        with pytest.raises(ValueError):
            validate(Resolver(json.dumps(wrong)))
