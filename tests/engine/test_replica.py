"""What Vertex AI gives a replica, value by value."""

from __future__ import annotations

import json

import pytest

from vtrain.engine.replica import (
    ReplicaId,
    Surroundings,
    cluster_spec,
    expand_env,
    job_string,
    module_argv,
    replica_environment,
    replica_ids,
    tf_config,
)
from vtrain.messages.custom_job import (
    ContainerSpec,
    CustomJobSpec,
    EnvVar,
    PythonPackageSpec,
    WorkerPoolSpec,
)

CONTAINER = ContainerSpec(image_uri="i")
EMPTY_JOB = r'"job":"{\"python_module\":\"\",\"package_uris\":[],\"job_args\":[]}"'


def spec_of(*counts: int, task: ContainerSpec = CONTAINER) -> CustomJobSpec:
    pools = [WorkerPoolSpec(container_spec=task, replica_count=n) if n else WorkerPoolSpec() for n in counts]
    return CustomJobSpec(worker_pool_specs=tuple(pools))


def around(spec: CustomJobSpec, **values: str) -> Surroundings:
    hosts = {m: f"cmle-training-workerpool{m.pool}-0123456789-{m.index}:2222" for m in replica_ids(spec)}
    return Surroundings(job_id="42", region="us-central1", hosts=hosts, **values)


def spec_seen_by(spec: CustomJobSpec, pool: int, index: int) -> str:
    return cluster_spec(spec.worker_pool_specs[pool], ReplicaId(pool, index), around(spec))


def test_cluster_spec_of_one_replica() -> None:
    assert spec_seen_by(spec_of(1), 0, 0) == (
        '{"cluster":{"chief":["cmle-training-workerpool0-0123456789-0:2222"]},"environment":"cloud",'
        '"task":{"type":"chief","index":0},' + EMPTY_JOB + "}"
    )


def test_cluster_spec_of_two_pools() -> None:
    assert spec_seen_by(spec_of(1, 2), 1, 1) == (
        '{"cluster":{"workerpool0":["cmle-training-workerpool0-0123456789-0:2222"],"workerpool1":'
        '["cmle-training-workerpool1-0123456789-0:2222","cmle-training-workerpool1-0123456789-1:2222"]},'
        '"environment":"cloud","task":{"type":"workerpool1","index":1},' + EMPTY_JOB + ',"open_ports":[3333]}'
    )


def test_a_pool_left_out_is_a_missing_key() -> None:
    seen = json.loads(spec_seen_by(spec_of(1, 1, 0, 1), 3, 0))
    assert list(seen["cluster"]) == ["workerpool0", "workerpool1", "workerpool3"]
    assert seen["task"] == {"type": "workerpool3", "index": 0}


def test_tf_config_has_no_evaluators() -> None:
    spec = spec_of(1, 2, 1, 1)
    seen = tf_config(spec.worker_pool_specs[1], ReplicaId(1, 0), around(spec))
    host = "cmle-training-workerpool{}-0123456789-{}:2222".format
    assert json.loads(seen) == {
        "cluster": {"chief": [host(0, 0)], "ps": [host(2, 0)], "worker": [host(1, 0), host(1, 1)]},
        "environment": "cloud",
        "job": job_string(CONTAINER),
        "task": {"cloud": "42", "index": 0, "type": "worker"},
    }
    assert list(json.loads(seen)) == ["cluster", "environment", "job", "task"]


def test_one_replica_has_no_distributed_variables() -> None:
    spec = spec_of(1)
    assert replica_environment(spec, ReplicaId(0, 0), around(spec)) == {
        "CLUSTER_SPEC": spec_seen_by(spec, 0, 0),
        "CLOUD_ML_PROJECT_ID": "100000000001",
        "CLOUD_ML_JOB_ID": "42",
        "CLOUD_ML_REGION": "us-central1",
        "CLOUD_ML_JOB": '{"python_module":"","package_uris":[],"job_args":[]}',
        "CLOUD_ML_JOB_SA": "service-100000000001@gcp-sa-aiplatform-cc.iam.gserviceaccount.com",
        "AIP_USE_CUSTOM_CONTAINER": "true",
    }


def test_pytorch_variables() -> None:
    spec = spec_of(1, 2, 0, 1)
    found = [replica_environment(spec, member, around(spec)) for member in replica_ids(spec)]
    assert [env.get("RANK") for env in found] == ["0", "1", "2", None]
    assert {env["WORLD_SIZE"] for env in found} == {"3"}
    assert {env["MASTER_ADDR"] for env in found} == {"cmle-training-workerpool0-0123456789-0"}
    assert {env["MASTER_PORT"] for env in found} == {"3333"}
    assert all("LOCAL_RANK" not in env and "NODE_RANK" not in env for env in found)


def test_reduction_servers_are_not_counted() -> None:
    spec = spec_of(1, 1)
    reducer = WorkerPoolSpec(
        container_spec=ContainerSpec(image_uri="x/reductionserver:latest"), replica_count=2
    )
    spec = CustomJobSpec(worker_pool_specs=(*spec.worker_pool_specs, reducer))
    assert replica_environment(spec, ReplicaId(1, 0), around(spec))["WORLD_SIZE"] == "2"


def test_a_packages_job_string_argv_and_output() -> None:
    task = PythonPackageSpec(
        python_module="trainer.task", package_uris=("gs://b/t.tar.gz",), args=("--a=b c", "")
    )
    assert module_argv(task, "python3") == ("python3", "-m", "trainer.task", "--a=b c", "")
    assert job_string(task) == (
        '{"python_module":"trainer.task","package_uris":["gs://b/t.tar.gz"],"job_args":["--a=b c",""]}'
    )
    spec = CustomJobSpec(
        worker_pool_specs=(WorkerPoolSpec(python_package_spec=task),), service_account="me@x"
    )
    env = replica_environment(spec, ReplicaId(0, 0), around(spec, output="/out"))
    assert (env["AIP_MODEL_DIR"], env["AIP_CHECKPOINT_DIR"]) == ("/out/model/", "/out/checkpoints/")
    assert env["AIP_TENSORBOARD_LOG_DIR"] == "/out/logs/"
    assert env["CLOUD_ML_JOB_SA"] == "me@x"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("$(SERVICE)", "s"),
        ("a$(FIRST)b", "a1b"),
        ("$$(FIRST)", "$(FIRST)"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$(LATER)", "$(LATER)"),
        ("$FIRST ${FIRST} $$", "$FIRST ${FIRST} $$"),
    ],
)
def test_references_in_values(value: str, expected: str) -> None:
    env = (EnvVar(name="FIRST", value="1"), EnvVar(name="X", value=value), EnvVar(name="LATER", value="2"))
    assert expand_env(env, {"SERVICE": "s"})["X"] == expected
