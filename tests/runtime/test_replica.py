"""What Vertex AI gives a replica, value by value."""

from __future__ import annotations

import json

import msgspec
import pytest

from vtrain.messages.custom_job import (
    ContainerSpec,
    CustomJobSpec,
    EnvVar,
    PythonPackageSpec,
    WorkerPoolSpec,
)
from vtrain.messages.structs import GcsDestination
from vtrain.runtime.replica.vertex_view import (
    OUTPUT_FOLDERS,
    JobContext,
    ReplicaId,
    cluster_spec,
    expand_env,
    is_reduction_server,
    job_string,
    replica_argv,
    replica_environment,
    replica_ids,
    tf_config,
    trial_spec,
)

CONTAINER = ContainerSpec(image_uri="i")
EMPTY_JOB = r'"job":"{\"python_module\":\"\",\"package_uris\":[],\"job_args\":[]}"'


def spec_of(*counts: int, task: ContainerSpec = CONTAINER) -> CustomJobSpec:
    pools = [WorkerPoolSpec(container_spec=task, replica_count=n) if n else WorkerPoolSpec() for n in counts]
    return CustomJobSpec(worker_pool_specs=tuple(pools))


def context(spec: CustomJobSpec, **values: str) -> JobContext:
    hosts = {m: f"cmle-training-workerpool{m.pool}-0123456789-{m.index}:2222" for m in replica_ids(spec)}
    return JobContext(job_id="42", region="us-central1", hosts=hosts, **values)


def spec_seen_by(spec: CustomJobSpec, pool: int, index: int, trial: str = "") -> str:
    return cluster_spec(spec.worker_pool_specs[pool], ReplicaId(pool, index), context(spec, trial_id=trial))


def reducers(
    count: int, image: str = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
):
    """A pool of Reduction Servers."""
    return WorkerPoolSpec(container_spec=ContainerSpec(image_uri=image), replica_count=count)


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


def test_cluster_spec_of_three_pools_in_a_trial() -> None:
    assert spec_seen_by(spec_of(1, 2, 1), 2, 0, trial="4") == (
        '{"cluster":{"workerpool0":["cmle-training-workerpool0-0123456789-0:2222"],"workerpool1":'
        '["cmle-training-workerpool1-0123456789-0:2222","cmle-training-workerpool1-0123456789-1:2222"],'
        '"workerpool2":["cmle-training-workerpool2-0123456789-0:2222"]},"environment":"cloud",'
        '"task":{"type":"workerpool2","index":0,"trial":"4"},' + EMPTY_JOB + ',"open_ports":[3333]}'
    )


def test_cluster_spec_of_four_pools_with_one_left_out() -> None:
    assert spec_seen_by(spec_of(1, 1, 0, 1), 3, 0) == (
        '{"cluster":{"workerpool0":["cmle-training-workerpool0-0123456789-0:2222"],'
        '"workerpool1":["cmle-training-workerpool1-0123456789-0:2222"],'
        '"workerpool3":["cmle-training-workerpool3-0123456789-0:2222"]},"environment":"cloud",'
        '"task":{"type":"workerpool3","index":0},' + EMPTY_JOB + ',"open_ports":[3333]}'
    )


def test_tf_config_of_a_worker_in_a_trial() -> None:
    spec = spec_of(1, 2, 1)
    seen = tf_config(spec.worker_pool_specs[1], ReplicaId(1, 0), context(spec, trial_id="1"))
    assert seen == (
        '{"cluster":{"chief":["cmle-training-workerpool0-0123456789-0:2222"],'
        '"ps":["cmle-training-workerpool2-0123456789-0:2222"],"worker":'
        '["cmle-training-workerpool1-0123456789-0:2222","cmle-training-workerpool1-0123456789-1:2222"]},'
        '"environment":"cloud",' + EMPTY_JOB + ',"task":{"cloud":"42","index":0,"trial":"1","type":"worker"}}'
    )


def test_tf_config_has_no_evaluators() -> None:
    spec = spec_of(1, 2, 1, 1)
    seen = tf_config(spec.worker_pool_specs[1], ReplicaId(1, 0), context(spec))
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
    assert replica_environment(spec, ReplicaId(0, 0), context(spec)) == {
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
    found = [replica_environment(spec, member, context(spec)) for member in replica_ids(spec)]
    assert [env.get("RANK") for env in found] == ["0", "1", "2", None]
    assert {env["WORLD_SIZE"] for env in found} == {"3"}
    assert {env["MASTER_ADDR"] for env in found} == {"cmle-training-workerpool0-0123456789-0"}
    assert {env["MASTER_PORT"] for env in found} == {"3333"}
    assert all("LOCAL_RANK" not in env and "NODE_RANK" not in env for env in found)


def test_reduction_servers_are_not_counted_but_stand_in_the_cluster() -> None:
    pools = (*spec_of(1, 1).worker_pool_specs, reducers(2))
    spec = CustomJobSpec(worker_pool_specs=pools)
    found = [replica_environment(spec, member, context(spec)) for member in replica_ids(spec)]
    assert [env.get("RANK") for env in found] == ["0", "1", None, None]
    assert {env["WORLD_SIZE"] for env in found} == {"2"}
    assert len(json.loads(found[0]["CLUSTER_SPEC"])["cluster"]["workerpool2"]) == 2
    assert len(json.loads(found[0]["TF_CONFIG"])["cluster"]["ps"]) == 2


def test_parameter_servers_are_counted() -> None:
    spec = spec_of(1, 1, 2)
    found = [replica_environment(spec, member, context(spec)) for member in replica_ids(spec)]
    assert [(env["RANK"], env["WORLD_SIZE"]) for env in found] == [(str(rank), "4") for rank in range(4)]


@pytest.mark.parametrize(
    ("number", "image", "expected"),
    [
        (2, "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest", True),
        (2, "europe-docker.pkg.dev/vertex-ai-restricted/training/reductionserver@sha256:00", True),
        (1, "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest", False),
        (2, "example.com/my-reductionserver-client", False),
    ],
)
def test_what_is_a_reduction_server(number: int, image: str, expected: bool) -> None:
    assert is_reduction_server(number, reducers(1, image)) is expected


@pytest.mark.parametrize("counts", [(1,), (1, 1), (1, 2, 1), (1, 3, 2, 1), (1, 0, 2), (1, 0, 0, 1), (3,)])
def test_every_replica_is_in_the_cluster_at_its_place(counts: tuple[int, ...]) -> None:
    spec = spec_of(*counts)
    hosts = context(spec).hosts
    for member in replica_ids(spec):
        env = replica_environment(spec, member, context(spec))
        seen = json.loads(env["CLUSTER_SPEC"])
        assert seen["cluster"][seen["task"]["type"]][seen["task"]["index"]] == hosts[member]
        assert sum(map(len, seen["cluster"].values())) == sum(counts)
        assert ("TF_CONFIG" in env) == ("RANK" in env or member.pool == 3) == (sum(counts) > 1)


def test_what_only_a_trial_sees() -> None:
    output = GcsDestination(output_uri_prefix="gs://b/out/")
    spec = msgspec.structs.replace(spec_of(1), base_output_directory=output)
    plain = replica_environment(spec, ReplicaId(0, 0), context(spec, output="gs://b/out"))
    own = trial_spec(spec, "7")
    trial = replica_environment(own, ReplicaId(0, 0), context(own, output=own.output_uri, trial_id="7"))
    assert trial.keys() - plain.keys() == {"CLOUD_ML_TRIAL_ID", "CLOUD_ML_HP_METRIC_FILE"}
    assert trial["CLOUD_ML_TRIAL_ID"] == "7"
    assert trial["CLOUD_ML_HP_METRIC_FILE"] == "/var/hypertune/output.metrics"
    assert {name: trial[name] for name in OUTPUT_FOLDERS} == {
        "AIP_MODEL_DIR": "gs://b/out/7/model/",
        "AIP_CHECKPOINT_DIR": "gs://b/out/7/checkpoints/",
        "AIP_TENSORBOARD_LOG_DIR": "gs://b/out/7/logs/",
    }
    assert json.loads(trial["CLUSTER_SPEC"])["task"] == {"type": "chief", "index": 0, "trial": "7"}


def test_what_fields_of_the_job_add() -> None:
    board = "projects/1/locations/us-central1/tensorboards/2"
    spec = CustomJobSpec(
        worker_pool_specs=spec_of(1).worker_pool_specs, tensorboard=board, enable_dashboard_access=True
    )
    env = replica_environment(spec, ReplicaId(0, 0), context(spec))
    assert env["AIP_TENSORBOARD_RESOURCE_NAME"] == board
    assert env["AIP_TENSORBOARD_API_URI"] == "us-central1-aiplatform.googleapis.com"
    assert env["AIP_DASHBOARD_PORT"] == "8888"


def test_variables_of_the_job_use_those_of_the_service_and_take_their_place() -> None:
    env = (
        EnvVar(name="RUN", value="$(CLOUD_ML_JOB_ID)/$(RANK)"),
        EnvVar(name="CLOUD_ML_REGION", value="my-$(CLOUD_ML_REGION)"),
    )
    spec = spec_of(1, 1, task=ContainerSpec(image_uri="i", env=env))
    seen = replica_environment(spec, ReplicaId(1, 0), context(spec))
    assert (seen["RUN"], seen["CLOUD_ML_REGION"]) == ("42/1", "my-us-central1")


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        ((), (), ("entry", "default")),
        ((), ("a",), ("entry", "a")),
        (("c",), (), ("c",)),
        (("c",), ("a",), ("c", "a")),
    ],
)
def test_the_command_line_of_a_container(
    command: tuple[str, ...], args: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    task = ContainerSpec(image_uri="i", command=command, args=args)
    assert replica_argv(task, program=(("entry",), ("default",))) == expected


def test_a_packages_job_string_argv_and_output() -> None:
    task = PythonPackageSpec(
        python_module="trainer.task", package_uris=("gs://b/t.tar.gz",), args=("--a=b c", "")
    )
    assert replica_argv(task) == ("python3", "-m", "trainer.task", "--a=b c", "")
    assert job_string(task) == (
        '{"python_module":"trainer.task","package_uris":["gs://b/t.tar.gz"],"job_args":["--a=b c",""]}'
    )
    spec = CustomJobSpec(
        worker_pool_specs=(WorkerPoolSpec(python_package_spec=task),), service_account="me@x"
    )
    env = replica_environment(spec, ReplicaId(0, 0), context(spec, output="/out"))
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


def test_the_cluster_is_written_once_for_all_replicas_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(1, 40)
    shared = context(spec)
    written: list[object] = []
    dumps = json.dumps

    def counting(value: object, **options: object) -> str:
        text = dumps(value, **options)
        written.extend(["cluster"] if text.count(":2222") else [])
        return text

    monkeypatch.setattr(json, "dumps", counting)
    found = [replica_environment(spec, member, shared) for member in replica_ids(spec)]
    assert [env["RANK"] for env in found] == [str(number) for number in range(41)]
    assert len({env["CLUSTER_SPEC"] for env in found}) == len({env["TF_CONFIG"] for env in found}) == 41
    assert len(written) == 2
