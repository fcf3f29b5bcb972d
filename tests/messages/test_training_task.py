"""The task of a training pipeline, as users, the Python SDK and vtrain write it."""

from __future__ import annotations

import pytest

from vtrain.errors import FieldError
from vtrain.messages.codec import from_document, to_document
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.pipeline_rules import check_pipeline
from vtrain.messages.training_pipeline import TrainingPipeline
from vtrain.messages.training_task import CUSTOM_TASK, TUNING_TASK, task_of, with_task

SDK_INPUTS = {
    "worker_pool_specs": [
        {
            "machine_spec": {"machine_type": "n1-standard-4", "accelerator_count": 1.0},
            "containerSpec": {"imageUri": "gcr.io/p/i", "args": ["--epochs=3"]},
            "replica_count": 2.0,
            "disk_spec": {"boot_disk_size_gb": 100.0},
        }
    ],
    "base_output_directory": {"output_uri_prefix": "gs://bucket/out"},
}
"""As the Python SDK sends them: a Struct has no whole numbers, and both spellings of names occur."""


def pipeline(definition: str, inputs: object) -> TrainingPipeline:
    document = {"displayName": "line", "trainingTaskDefinition": definition, "trainingTaskInputs": inputs}
    return from_document(TrainingPipeline, document)


def test_a_custom_task_of_the_sdk_is_read() -> None:
    task = task_of(pipeline(CUSTOM_TASK, SDK_INPUTS))
    assert isinstance(task, CustomJob)
    (pool,) = task.job_spec.worker_pool_specs
    assert (pool.replica_count, pool.disk_spec and pool.disk_spec.boot_disk_size_gb) == (2, 100)
    assert task.job_spec.output_uri == "gs://bucket/out"
    assert task.display_name == "line-custom-job"


def test_a_task_that_is_put_back_is_the_same() -> None:
    study = {"metrics": [{"metricId": "a"}], "parameters": []}
    trial = {"workerPoolSpecs": SDK_INPUTS["worker_pool_specs"]}
    inputs = {"studySpec": study, "maxTrialCount": 4.0, "parallelTrialCount": 2.0, "trialJobSpec": trial}
    for definition, given in ((CUSTOM_TASK, SDK_INPUTS), (TUNING_TASK, inputs)):
        first = pipeline(definition, given)
        task = task_of(first)
        assert task is not None
        again = with_task(first, task)
        assert task_of(again) == task
        assert again.training_task_definition == definition
        assert "displayName" not in to_document(again)["trainingTaskInputs"]
    assert isinstance(task, HyperparameterTuningJob)
    assert (task.max_trial_count, task.display_name) == (4, "line-hyperparameter-tuning-job")


def test_a_task_of_automl_is_none_of_ours() -> None:
    assert task_of(pipeline("gs://…/automl_tabular_1.0.0.yaml", {"targetColumn": "y"})) is None


def test_the_path_of_a_wrong_field_begins_at_the_inputs() -> None:
    with pytest.raises(FieldError, match=r"trainingTaskInputs\.workerPoolSpec: "):
        task_of(pipeline(CUSTOM_TASK, {"workerPoolSpec": []}))


CONTAINER = {"imageUri": "i"}


@pytest.mark.parametrize(
    ("definition", "inputs", "said"),
    [
        (CUSTOM_TASK, {"workerPoolSpecs": {}}, "workerPoolSpecs: expected a list, found a mapping."),
        (
            CUSTOM_TASK,
            {"workerPoolSpecs": [{"containerSpec": CONTAINER | {"command": "python -c 1"}}]},
            "workerPoolSpecs[0].containerSpec.command: expected a list, found 'python -c 1'.",
        ),
        (
            CUSTOM_TASK,
            {"worker_pool_specs": [{"container_spec": CONTAINER | {"args": "--epochs=3"}}]},
            "workerPoolSpecs[0].containerSpec.args: expected a list, found '--epochs=3'.",
        ),
        (
            CUSTOM_TASK,
            {"workerPoolSpecs": [{"pythonPackageSpec": {"packageUris": "gs://b/p.tar.gz"}}]},
            "workerPoolSpecs[0].pythonPackageSpec.packageUris: expected a list, found 'gs://b/p.tar.gz'.",
        ),
        (
            CUSTOM_TASK,
            {"workerPoolSpecs": [{"containerSpec": CONTAINER | {"env": {"name": "A"}}}]},
            "workerPoolSpecs[0].containerSpec.env: expected a list, found a mapping.",
        ),
        (CUSTOM_TASK, {"workerPoolSpecs": [None]}, "workerPoolSpecs: expected a list without null, found"),
        (CUSTOM_TASK, {"enableWebAccess": "yes"}, "enableWebAccess: expected true or false, found 'yes'."),
        (TUNING_TASK, {"studySpec": {"metrics": {}}}, "studySpec.metrics: expected a list, found a mapping."),
        (
            TUNING_TASK,
            {"trialJobSpec": {"reservedIpRanges": "a"}},
            "trialJobSpec.reservedIpRanges: expected a list, found 'a'.",
        ),
    ],
)
def test_inputs_are_read_as_strictly_as_by_the_service(definition: str, inputs: object, said: str) -> None:
    with pytest.raises(FieldError) as refused:
        task_of(pipeline(definition, inputs))
    assert refused.value.message.startswith(f"trainingTaskInputs.{said}")


def test_names_of_the_longest_kind_stay_within_the_limit() -> None:
    for definition, inputs in ((CUSTOM_TASK, {}), (TUNING_TASK, {})):
        long = from_document(
            TrainingPipeline,
            {"displayName": "x" * 128, "trainingTaskDefinition": definition, "trainingTaskInputs": inputs},
        )
        task = task_of(long)
        assert task is not None
        assert len(task.display_name) <= 128


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"displayName": ""}, "displayName"),
        ({"displayName": "x" * 129}, "displayName"),
        ({"modelId": "1"}, "modelId"),
        ({"modelId": "m"}, "modelId"),
        ({"parentModel": "m"}, "parentModel"),
        ({"modelToUpload": {"containerSpec": {"imageUri": "i"}}}, "modelToUpload.displayName"),
        ({"modelToUpload": {"displayName": "m"}}, "modelToUpload.containerSpec.imageUri"),
        ({"inputDataConfig": {"fractionSplit": {"trainingFraction": 1}}}, "inputDataConfig.datasetId"),
        ({"labels": {"A": "b"}}, "labels"),
    ],
)
def test_rules(fields: dict[str, object], path: str) -> None:
    with pytest.raises(FieldError) as error:
        check_pipeline(from_document(TrainingPipeline, {"displayName": "line"} | fields))
    assert error.value.path == path
