"""A notebook of the generated clients, with enums as numbers; its argument is the transport."""

import sys
import time
from pathlib import Path

from google.cloud import storage
from google.cloud.aiplatform import gapic as aip
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Value

PARENT = "projects/demo/locations/us-central1"
BUCKET = "gs://stage"
TRAINING = "us-docker.pkg.dev/vertex-ai/training/scikit-learn-cpu.0-23:latest"
SERVING = "us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-6:latest"
TASK = "gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml"
SETUP = """
from setuptools import setup
setup(name="trainer", version="0.1", packages=["trainer"])
"""

options = {"client_options": {"api_endpoint": "us-central1-aiplatform.googleapis.com"}}
if sys.argv[1] != "grpc":
    options["transport"] = sys.argv[1]
clients = {
    "job": aip.JobServiceClient(**options),
    "model": aip.ModelServiceClient(**options),
    "pipeline": aip.PipelineServiceClient(**options),
    "endpoint": aip.EndpointServiceClient(**options),
    "prediction": aip.PredictionServiceClient(**options),
}


def upload_package(name):
    """A source distribution, as `python setup.py sdist` makes it."""
    import io
    import tarfile

    trainer = Path(__file__).with_name("trainer.py").read_text()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for path, text in {"setup.py": SETUP, "trainer/__init__.py": "", "trainer/task.py": trainer}.items():
            member = tarfile.TarInfo(f"trainer-0.1/{path}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    bucket = storage.Client(project="demo").create_bucket("stage", location="us-central1")
    bucket.blob(name).upload_from_string(packed.getvalue())
    bucket.blob("instances.jsonl").upload_from_string("[1, 2]\n[3, 4]\n")
    return bucket


def ended(get, name):
    """A job or pipeline once its state is one of the last ones."""
    while (found := get(name=name)).state.name.rpartition("_")[2] in ("QUEUED", "PENDING", "RUNNING"):
        time.sleep(1)
    assert found.state.name.endswith("_SUCCEEDED"), found
    return found


bucket = upload_package("trainer-0.1.tar.gz")
pools = [
    {
        "replica_count": 1,
        "machine_spec": {
            "machine_type": "n1-standard-4",
            "accelerator_type": aip.AcceleratorType.NVIDIA_TESLA_T4,
            "accelerator_count": 1,
        },
        "disk_spec": {"boot_disk_type": "pd-ssd", "boot_disk_size_gb": 200},
        "python_package_spec": {
            "executor_image_uri": TRAINING,
            "package_uris": [f"{BUCKET}/trainer-0.1.tar.gz"],
            "python_module": "trainer.task",
            "args": ["--epochs=2"],
        },
    }
]

# a custom job, and a model of what it has saved

custom = clients["job"].create_custom_job(
    parent=PARENT,
    custom_job={
        "display_name": "custom",
        "job_spec": {
            "worker_pool_specs": pools,
            "base_output_directory": {"output_uri_prefix": f"{BUCKET}/custom"},
        },
    },
)
ended(clients["job"].get_custom_job, custom.name)
uploaded = (
    clients["model"]
    .upload_model(
        parent=PARENT,
        model={
            "display_name": "uploaded",
            "metadata_schema_uri": "",
            "artifact_uri": f"{BUCKET}/custom/model",
            "container_spec": {"image_uri": SERVING},
        },
    )
    .result(timeout=180)
)

# a pipeline whose inputs are the dictionary, where enums are numbers

inputs = {
    "workerPoolSpecs": pools,
    "baseOutputDirectory": {"output_uri_prefix": f"{BUCKET}/pipeline"},
}
pipeline = clients["pipeline"].create_training_pipeline(
    parent=PARENT,
    training_pipeline={
        "display_name": "pipeline",
        "training_task_definition": TASK,
        "training_task_inputs": json_format.ParseDict(inputs, Value()),
        "model_to_upload": {"display_name": "trained", "container_spec": {"image_uri": SERVING}},
    },
)
trained = ended(clients["pipeline"].get_training_pipeline, pipeline.name).model_to_upload
assert clients["model"].get_model(name=trained.name).artifact_uri == f"{BUCKET}/pipeline/model"

# a tuning job that says what it leaves out

tuning = clients["job"].create_hyperparameter_tuning_job(
    parent=PARENT,
    hyperparameter_tuning_job={
        "display_name": "tuning",
        "max_trial_count": 2,
        "parallel_trial_count": 2,
        "max_failed_trial_count": 1,
        "study_spec": {
            "metrics": [{"metric_id": "accuracy", "goal": aip.StudySpec.MetricSpec.GoalType.MAXIMIZE}],
            "parameters": [
                {
                    "parameter_id": "rate",
                    "double_value_spec": {"min_value": 0.1, "max_value": 1},
                    "scale_type": aip.StudySpec.ParameterSpec.ScaleType.UNIT_LINEAR_SCALE,
                }
            ],
            "algorithm": aip.StudySpec.Algorithm.RANDOM_SEARCH,
            "observation_noise": aip.StudySpec.ObservationNoise.OBSERVATION_NOISE_UNSPECIFIED,
            "measurement_selection_type": 0,
        },
        "trial_job_spec": {
            "worker_pool_specs": pools,
            "base_output_directory": {"output_uri_prefix": f"{BUCKET}/tuning"},
        },
    },
)
trials = ended(clients["job"].get_hyperparameter_tuning_job, tuning.name).trials
assert [each.state.name for each in trials] == ["SUCCEEDED"] * 2, trials

# an endpoint, and a batch

endpoint = (
    clients["endpoint"]
    .create_endpoint(parent=PARENT, endpoint={"display_name": "endpoint"})
    .result(timeout=180)
)
deployed = (
    clients["endpoint"]
    .deploy_model(
        endpoint=endpoint.name,
        deployed_model={
            "model": uploaded.model,
            "display_name": "deployed",
            "dedicated_resources": {
                "min_replica_count": 1,
                "max_replica_count": 1,
                "machine_spec": {"machine_type": "n1-standard-4", "accelerator_count": 0},
            },
            "disable_container_logging": False,
        },
        traffic_split={"0": 100},
    )
    .result(timeout=180)
    .deployed_model
)
instances = [json_format.ParseDict(each, Value()) for each in ([1, 2], [3, 4])]
answer = clients["prediction"].predict(
    endpoint=endpoint.name, instances=instances, parameters=json_format.ParseDict({}, Value())
)
assert list(answer.predictions) == [3, 7] and answer.deployed_model_id == deployed.id, answer
batch = clients["job"].create_batch_prediction_job(
    parent=PARENT,
    batch_prediction_job={
        "display_name": "batch",
        "model": uploaded.model,
        "model_parameters": json_format.ParseDict({}, Value()),
        "input_config": {
            "instances_format": "jsonl",
            "gcs_source": {"uris": [f"{BUCKET}/instances.jsonl"]},
        },
        "output_config": {
            "predictions_format": "jsonl",
            "gcs_destination": {"output_uri_prefix": f"{BUCKET}/predicted"},
        },
        "dedicated_resources": {
            "machine_spec": {"machine_type": "n1-standard-2", "accelerator_count": 0},
            "starting_replica_count": 1,
            "max_replica_count": 1,
        },
    },
)
output = ended(clients["job"].get_batch_prediction_job, batch.name).output_info.gcs_output_directory
assert output.startswith(f"{BUCKET}/predicted/prediction-uploaded-"), output

clients["endpoint"].undeploy_model(
    endpoint=endpoint.name, deployed_model_id=deployed.id, traffic_split={}
).result()
clients["endpoint"].delete_endpoint(name=endpoint.name).result()
clients["job"].delete_batch_prediction_job(name=batch.name).result()
clients["job"].delete_hyperparameter_tuning_job(name=tuning.name).result()
clients["job"].delete_custom_job(name=custom.name).result()
clients["pipeline"].delete_training_pipeline(name=pipeline.name).result()
for model in (uploaded.model, trained.name):
    clients["model"].delete_model(name=model).result()
assert not list(clients["job"].list_custom_jobs({"parent": PARENT, "filter": 'display_name="custom"'}))
bucket.delete(force=True)
print("done")
