"""`vtrain custom-jobs environment`: what a replica would see, on each backend, and nothing done for it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from lib.docker_engines import BASE_IMAGE
from lib.vertex_service import VertexService

from vtrain.messages.yaml_reader import load_yaml

POOL = "replica-count=1,machine-type=n1-standard-4,python-module=trainer.task"
CONFIG = """
workerPoolSpecs:
- pythonPackageSpec:
    pythonModule: trainer.task
    packageUris: ["gs://packages/t-1.tar.gz"]
    args: [--epochs=3]
    env: [{name: RUN, value: "$(CLOUD_ML_JOB_ID)-$(RANK)"}]
- {}
- replicaCount: 2
  pythonPackageSpec: {pythonModule: trainer.server, packageUris: ["gs://packages/t-1.tar.gz"]}
baseOutputDirectory: {outputUriPrefix: gs://models/out}
"""
IMAGES = CONFIG.replace("pythonModule:", f"executorImageUri: '{BASE_IMAGE}'\n    pythonModule:", 1).replace(
    "{pythonModule", f"{{executorImageUri: '{BASE_IMAGE}', pythonModule"
)
NO_ENGINE = "unix:///nobody/listens/here.sock"


@pytest.fixture
def config(tmp_path: Path) -> str:
    (tmp_path / "job.yaml").write_text(CONFIG)
    return f"--config={tmp_path / 'job.yaml'}"


@pytest.fixture
def two_pools(tmp_path: Path) -> str:
    """As gcloud, and so Vertex AI's backend, takes it: without a pool that is left out in the file."""
    (tmp_path / "two.yaml").write_text(IMAGES.replace("- {}\n", ""))
    return f"--config={tmp_path / 'two.yaml'}"


def seen(vtrain: Any, *flags: str) -> dict[str, Any]:
    """What the command prints, which is one document."""
    ended = vtrain("custom-jobs", "environment", *flags)
    assert ended.code == 0, ended.err
    document: dict[str, Any] = load_yaml(ended.out, "stdout")
    assert list(document) == ["command", "env", "replica"]
    return document


def test_a_process(vtrain: Any, config: str, vtrain_home: Path) -> None:
    found = seen(vtrain, config, "--replica=workerpool2-1")
    assert found["replica"] == "workerpool2-1"
    assert found["command"] == ["python3", "-m", "trainer.server"]
    env = found["env"]
    assert json.loads(env["CLUSTER_SPEC"])["task"] == {"type": "workerpool2", "index": 1}
    assert json.loads(env["TF_CONFIG"])["task"]["type"] == "ps"
    assert (env["RANK"], env["WORLD_SIZE"], env["MASTER_ADDR"]) == ("2", "3", "127.0.0.1")
    assert env["AIP_MODEL_DIR"] == f"{vtrain_home}/buckets/models/out/model/"
    assert not vtrain_home.exists()


def test_the_primary_is_the_default(vtrain: Any, config: str) -> None:
    found = seen(vtrain, config, "--", "--lr", "0.1")
    assert found["replica"] == "workerpool0-0"
    assert found["command"] == ["python3", "-m", "trainer.task", "--lr", "0.1"]
    assert found["env"]["RUN"].endswith("-0")
    ended = vtrain("custom-jobs", "environment", config, "--format=value(env.RANK)")
    assert (ended.code, ended.out) == (0, "0\n")
    ended = vtrain("custom-jobs", "environment", config, "--format=json")
    assert json.loads(ended.out)["replica"] == "workerpool0-0"


def test_a_trial(vtrain: Any, config: str, vtrain_home: Path) -> None:
    env = seen(vtrain, config, "--trial=4")["env"]
    assert env["CLOUD_ML_TRIAL_ID"] == "4"
    assert Path(env["CLOUD_ML_HP_METRIC_FILE"]).is_relative_to(vtrain_home)
    assert env["AIP_MODEL_DIR"] == f"{vtrain_home}/buckets/models/out/4/model/"
    assert json.loads(env["CLUSTER_SPEC"])["task"]["trial"] == "4"
    assert json.loads(env["TF_CONFIG"])["task"]["trial"] == "4"


def test_a_container_without_an_engine(vtrain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image that is not here keeps its entrypoint to itself."""
    monkeypatch.setenv("DOCKER_HOST", NO_ENGINE)
    pool = "--worker-pool-spec=replica-count=1,machine-type=n1-standard-4,container-image-uri=example.com/i"
    assert seen(vtrain, "--backend=docker", pool, "--", "--a=1")["command"] == ["<ENTRYPOINT>", "--a=1"]
    (tmp_path / "images.yaml").write_text(IMAGES)
    config = f"--config={tmp_path / 'images.yaml'}"
    found = seen(vtrain, config, "--backend=docker", "--replica=workerpool2-0", "--trial=2")
    env = found["env"]
    hosts = json.loads(env["CLUSTER_SPEC"])["cluster"]
    assert hosts["workerpool0"] == [f"{env['MASTER_ADDR']}:2222"]
    assert hosts["workerpool2"][0] == f"{env['HOSTNAME']}:2222"
    assert env["HOSTNAME"].startswith("cmle-training-workerpool2-") and env["HOSTNAME"].endswith("-0")
    assert env["MASTER_PORT"] == "3333"
    assert env["AIP_MODEL_DIR"] == "gs://models/out/2/model/"
    assert env["CLOUD_ML_HP_METRIC_FILE"] == "/var/hypertune/output.metrics"


@pytest.mark.docker
def test_a_containers_command_is_that_of_its_image(vtrain: Any, base_image: str) -> None:
    pool = f"--worker-pool-spec=replica-count=1,machine-type=n1-standard-4,container-image-uri={base_image}"
    assert seen(vtrain, "--backend=docker", pool, "--", "--a=1")["command"][-1] == "--a=1"
    assert "<ENTRYPOINT>" not in seen(vtrain, "--backend=docker", pool)["command"]
    assert seen(vtrain, "--backend=docker", pool, "--command=run,me", "--", "-x")["command"] == [
        "run",
        "me",
        "-x",
    ]


def test_vertex_is_not_asked(vtrain: Any, vertex: VertexService, two_pools: str) -> None:
    found = seen(vtrain, two_pools, "--replica=workerpool1-1")
    assert found["env"]["CLOUD_ML_PROJECT_ID"] == "<PROJECT_NUMBER>"
    assert found["env"]["AIP_MODEL_DIR"] == "gs://models/out/model/"
    assert found["env"]["CLOUD_ML_JOB_SA"].startswith("service-<PROJECT_NUMBER>@")
    elsewhere = seen(
        vtrain, two_pools, "--region=europe-west4", "--service-account=me@x.iam.gserviceaccount.com"
    )
    assert elsewhere["env"]["CLOUD_ML_REGION"] == "europe-west4"
    assert elsewhere["env"]["CLOUD_ML_JOB_SA"] == "me@x.iam.gserviceaccount.com"
    assert vertex.requests == []


def test_it_is_what_a_dry_run_would_start(vtrain: Any, tmp_path: Path, vtrain_home: Path) -> None:
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "task.py").write_text("print(1)\n")
    flags = (f"--worker-pool-spec={POOL},local-package-path={tmp_path}", "--", "--a=b c")
    planned = vtrain("custom-jobs", "create", "--display-name=demo", "--dry-run", *flags)
    found = seen(vtrain, *flags)
    assert found["command"] == ["python3", "-m", "trainer.task", "--a=b c"]
    assert f"Would start workerpool0-0: {' '.join(found['command'])}" in planned.err
    (package,) = json.loads(found["env"]["CLOUD_ML_JOB"])["package_uris"]
    assert package in planned.out
    assert not vtrain_home.exists()


def test_secrets_are_not_shown(vtrain: Any, config: str) -> None:
    secrets = ("--env=DB_PASSWORD=hunter22", "--", "--api-key=abcdef1")
    ended = vtrain("custom-jobs", "environment", config, *secrets)
    assert ended.code == 0, ended.err
    assert not re.search("hunter22|abcdef1", ended.out + ended.err)


def test_what_is_not_there_is_refused(vtrain: Any, config: str) -> None:
    there = "  It has workerpool0-0, workerpool2-0, workerpool2-1."
    for words, code, message, hint in (
        ((config, "--replica=workerpool1-0"), 1, "The job has no replica 'workerpool1-0'.", there),
        ((config, "--replica="), 1, "The job has no replica ''.", there),
        ((config, "--trial=0"), 2, "--trial: expected a number from 1 on, found '0'.", ""),
        ((config, "--trial=x"), 2, "--trial: expected a number from 1 on, found 'x'.", ""),
        (("--replica=workerpool0-0",), 2, "Give --config, --worker-pool-spec or both.", ""),
    ):
        ended = vtrain("custom-jobs", "environment", *words)
        assert (ended.code, ended.out) == (code, ""), words
        assert message in ended.err and hint in ended.err


def test_a_backend_of_somebody_else_shows_what_its_plan_has(vtrain: Any, two_pools: str, memory: Any) -> None:
    assert seen(vtrain, two_pools)["env"]["MASTER_ADDR"] == "workerpool0-0"
    ended = vtrain("custom-jobs", "environment", two_pools, "--trial=1")
    assert (ended.code, ended.out) == (1, "")
    assert "does not tell what replicas see" in ended.err


@pytest.mark.timeout(60)
def test_a_crowd_is_refused_before_it_is_expanded(vtrain: Any, tmp_path: Path) -> None:
    text = IMAGES.replace("- {}\n", "").replace("replicaCount: 2", "replicaCount: 2000000")
    (tmp_path / "job.yaml").write_text(text)
    place = ("--backend=vertex", "--project=demo-project", "--region=us-central1")
    ended = vtrain("custom-jobs", "environment", *place, f"--config={tmp_path / 'job.yaml'}")
    assert (ended.code, ended.out) == (1, "")
    assert "The job has 2000001 replicas, and 1000 at most are shown." in ended.err
