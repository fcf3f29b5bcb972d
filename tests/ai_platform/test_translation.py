"""Jobs of AI Platform in the words of Vertex AI, field by field."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from vtrain.ai_platform.tables import MACHINES, SCALE_TIERS, runtime_image
from vtrain.ai_platform.training_input import LegacyJob
from vtrain.ai_platform.translation import translate
from vtrain.errors import ConfigError
from vtrain.messages.codec import read_message, to_document
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.hardware import check_hardware
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.rules import check_job
from vtrain.messages.study_rules import check_tuning_job
from vtrain.packaging.prebuilt import contents

MODULE = {"packageUris": ["gs://b/t.tar.gz"], "pythonModule": "trainer.task", "runtimeVersion": "2.11"}


def translated(**given: Any) -> Any:
    job = read_message(LegacyJob, {"jobId": "job_1", "trainingInput": MODULE | given})
    return translate(job)


def pools(**given: Any) -> list[dict[str, Any]]:
    document = to_document(translated(**given).job)
    found: list[dict[str, Any]] = document["jobSpec"]["workerPoolSpecs"]
    return found


@pytest.mark.parametrize("tier", SCALE_TIERS)
def test_a_scale_tier_is_a_job_that_vertex_ai_takes(tier: str) -> None:
    job = translated(scaleTier=tier).job
    assert isinstance(job, CustomJob)
    check_job(job, executor_required=True)
    check_hardware(job.job_spec)
    sizes = [pool.replica_count for pool in job.job_spec.worker_pool_specs]
    assert sizes == [each.count for each in SCALE_TIERS[tier]]


@pytest.mark.parametrize("name", MACHINES)
def test_an_old_machine_is_one_that_vertex_ai_has(name: str) -> None:
    job = translated(scaleTier="CUSTOM", masterType=name).job
    assert isinstance(job, CustomJob)
    check_hardware(job.job_spec)


def test_a_role_without_machines_between_others_is_an_empty_pool() -> None:
    found = pools(
        scaleTier="CUSTOM", masterType="n1-standard-4", evaluatorType="standard", evaluatorCount="1"
    )
    assert [pool.get("replicaCount") for pool in found] == ["1", None, None, "1"]
    assert found[1:3] == [{}, {}]


def test_containers_with_their_own_commands() -> None:
    found = pools(
        scaleTier="CUSTOM",
        masterType="n1-standard-4",
        masterConfig={"imageUri": "gcr.io/p/a", "containerCommand": ["run"], "containerArgs": ["x"]},
        workerType="n1-standard-4",
        workerCount="2",
        args=["y"],
        runtimeVersion="",
    )
    tasks = [pool["containerSpec"] for pool in found]
    assert tasks[0] == {"imageUri": "gcr.io/p/a", "command": ["run"], "args": ["x"]}
    assert tasks[1] == {"imageUri": "gcr.io/p/a", "command": ["run"], "args": ["y"]}


def test_a_single_machine_has_tf_config_as_the_old_service_set_it() -> None:
    def tf_config(**given: Any) -> Any:
        (pool,) = pools(**given)
        task = pool.get("pythonPackageSpec") or pool["containerSpec"]
        (variable,) = task["env"]
        assert variable["name"] == "TF_CONFIG"
        return json.loads(variable["value"])

    modern = tf_config(scaleTier="BASIC")
    assert modern["cluster"] == {"chief": ["127.0.0.1:2222"]}
    assert modern["task"] == {"type": "chief", "index": 0}
    assert json.loads(modern["job"])["python_module"] == "trainer.task"
    assert tf_config(runtimeVersion="1.15")["task"]["type"] == "master"
    own = {"imageUri": "gcr.io/p/a"}
    assert tf_config(masterConfig=own)["task"]["type"] == "master"
    assert tf_config(masterConfig=own, useChiefInTfConfig=True)["task"]["type"] == "chief"
    assert "env" not in pools(scaleTier="STANDARD_1")[0]["pythonPackageSpec"]


@pytest.mark.parametrize("version", ["V2", "V3"])
def test_a_slice_of_a_tpu_pod_has_the_name_of_the_device(version: str) -> None:
    config = {"acceleratorConfig": {"type": f"TPU_{version}_POD", "count": 32}}
    (pool,) = pools(scaleTier="CUSTOM", masterType="cloud_tpu", masterConfig=config)
    assert pool["machineSpec"] == {
        "machineType": "cloud-tpu",
        "acceleratorType": f"TPU_{version}",
        "acceleratorCount": 32,
    }


def test_the_job_directory_is_the_output_and_an_argument() -> None:
    job = translated(jobDir="gs://b/o", args=["--lr=1"]).job
    assert isinstance(job, CustomJob)
    assert job.job_spec.output_uri == "gs://b/o"
    (pool,) = pools(jobDir="gs://b/o", args=["--lr=1"])
    assert pool["pythonPackageSpec"]["args"] == ["--lr=1", "--job-dir", "gs://b/o"]


def test_scheduling() -> None:
    wanted = {
        "maxRunningTime": "7200s",
        "resilientToWorkerRestart": False,
        "maxWaitTime": "1800s",
        "priority": 5,
    }
    translation = translated(scheduling=wanted)
    document = to_document(translation.job)
    assert document["jobSpec"]["scheduling"] == {"timeout": "7200s", "restartJobOnWorkerRestart": True}
    assert [note.split(" ")[0] for note in translation.notes] == [
        "scheduling.maxWaitTime",
        "scheduling.priority",
    ]


HYPERPARAMETERS = {
    "goal": "MINIMIZE",
    "hyperparameterMetricTag": "loss",
    "maxTrials": 10,
    "maxParallelTrials": 2,
    "maxFailedTrials": 3,
    "enableTrialEarlyStopping": True,
    "params": [
        {
            "parameterName": "lr",
            "type": "DOUBLE",
            "minValue": 0.001,
            "maxValue": 1,
            "scaleType": "UNIT_LOG_SCALE",
        },
        {"parameterName": "n", "type": "INTEGER", "minValue": 1, "maxValue": 9, "scaleType": "NONE"},
        {"parameterName": "o", "type": "CATEGORICAL", "categoricalValues": ["adam", "sgd"]},
        {"parameterName": "b", "type": "DISCRETE", "discreteValues": [16, 32]},
    ],
}


def test_hyperparameters_are_a_tuning_job() -> None:
    job = translated(hyperparameters=HYPERPARAMETERS).job
    assert isinstance(job, HyperparameterTuningJob)
    check_tuning_job(job, executor_required=True)
    document = to_document(job)
    assert (document["maxTrialCount"], document["parallelTrialCount"]) == (10, 2)
    assert document["maxFailedTrialCount"] == 3
    study = document["studySpec"]
    assert study["metrics"] == [{"metricId": "loss", "goal": "MINIMIZE"}]
    assert study["parameters"] == [
        {
            "parameterId": "lr",
            "doubleValueSpec": {"minValue": 0.001, "maxValue": 1.0},
            "scaleType": "UNIT_LOG_SCALE",
        },
        {"parameterId": "n", "integerValueSpec": {"minValue": "1", "maxValue": "9"}},
        {"parameterId": "o", "categoricalValueSpec": {"values": ["adam", "sgd"]}},
        {"parameterId": "b", "discreteValueSpec": {"values": [16.0, 32.0]}},
    ]
    assert "medianAutomatedStoppingSpec" in study


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"scaleTier": "HUGE"}, "there is no tier"),
        ({"scaleTier": "CUSTOM"}, "masterType"),
        ({"hyperparameters": {"params": [{"parameterName": "x", "type": "COMPLEX"}]}}, "COMPLEX"),
        (
            {"hyperparameters": {"params": [{"type": "INTEGER", "maxValue": math.inf}]}},
            "expected a finite number, found inf",
        ),
        (
            {"hyperparameters": {"params": [{"type": "INTEGER", "minValue": math.nan}]}},
            "finite number, found nan",
        ),
        ({"hyperparameters": {"params": [{"type": "INTEGER", "maxValue": 1.5}]}}, "to 1.5"),
        ({"hyperparameters": {"resumePreviousJobId": "j"}}, "resume"),
    ],
)
def test_jobs_without_an_equal_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        translated(**given)


@pytest.mark.parametrize(
    ("version", "python", "gpu", "image", "notes"),
    [
        ("2.11", "", False, "tf-cpu.2-11.py310", ""),
        ("2.11", "3.7", True, "tf-gpu.2-11.py310", "The image has Python 3.10, and not 3.7."),
        ("2.5", "3.7", False, "tf-cpu.2-5", ""),
        ("1.15", "3.7", False, "tf-cpu.1-15", ""),
        ("2.10", "", False, "tf-cpu.2-11.py310", "Runtime version 2.10 has no successor"),
        ("1.4", "2.7", False, "tf-cpu.1-15", "Python 3.7, and not 2.7"),
        ("", "", False, "tf-cpu.2-11.py310", "No runtime version is given"),
        ("x", "9.9", False, "tf-cpu.2-11.py310", "Runtime version x has no successor"),
    ],
)
def test_a_runtime_version_is_a_pre_built_image(
    version: str, python: str, gpu: bool, image: str, notes: str
) -> None:
    found = runtime_image(version, python, gpu=gpu)
    assert found.image_uri == f"us-docker.pkg.dev/vertex-ai/training/{image}:latest"
    assert notes in found.note
    assert bool(notes) == bool(found.note)
    assert contents(found.image_uri) is not None
