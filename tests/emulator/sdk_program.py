"""A program as it was written for the cloud: nothing in it knows of an emulator."""

from pathlib import Path

from google.api_core import exceptions
from google.cloud import aiplatform, aiplatform_v1
from google.cloud.aiplatform import hyperparameter_tuning as hpt
from google.cloud.aiplatform.preview.persistent_resource import PersistentResource

PACKAGES = "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest"
SERVING = "us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-5:latest"
BUCKET = "gs://stage"
SCRIPT = str(Path(__file__).with_name("sdk_trainer.py"))
aiplatform.init(project="demo", location="us-central1", staging_bucket=BUCKET)

job = aiplatform.CustomJob.from_local_script(
    display_name="script", script_path=SCRIPT, container_uri=PACKAGES, machine_type="n1-standard-4"
)
job.run()
assert job.state.name == "JOB_STATE_SUCCEEDED", job.state
print("custom job", job.resource_name)
found = aiplatform.CustomJob.list(filter='display_name="script"')
assert [each.resource_name for each in found] == [job.resource_name]
assert aiplatform.CustomJob.list(filter='display_name="other"') == []

sleeper = aiplatform.CustomJob(
    display_name="sleeper",
    worker_pool_specs=[
        {
            "machine_spec": {"machine_type": "n1-standard-4"},
            "replica_count": 1,
            "python_package_spec": {
                "executor_image_uri": PACKAGES,
                "package_uris": [],
                "python_module": "timeit",
                "args": ["-n1", "-r1", "import time; time.sleep(600)"],
            },
        }
    ],
)
sleeper.submit()
sleeper.cancel()
try:
    sleeper.wait_for_completion() if hasattr(
        sleeper, "wait_for_completion"
    ) else sleeper._block_until_complete()
except RuntimeError as error:
    assert "CANCELED" in str(error), error
assert sleeper.state.name == "JOB_STATE_CANCELLED", sleeper.state
sleeper.delete()

tuning = aiplatform.HyperparameterTuningJob(
    display_name="tuning",
    custom_job=job,
    metric_spec={"accuracy": "maximize"},
    parameter_spec={"rate": hpt.DoubleParameterSpec(min=0.1, max=1.0, scale="linear")},
    max_trial_count=2,
    parallel_trial_count=2,
)
tuning.run()
rates = [trial.parameters[0].value for trial in tuning.trials]
measured = [trial.final_measurement.metrics[0].value for trial in tuning.trials]
assert rates == measured and len(rates) == 2, tuning.trials

training = aiplatform.CustomTrainingJob(
    display_name="pipeline",
    script_path=SCRIPT,
    container_uri=PACKAGES,
    model_serving_container_image_uri=SERVING,
)
model = training.run(
    model_display_name="digits",
    machine_type="n1-standard-4",
    base_output_dir=f"{BUCKET}/out",
    args=["--rate=0.5"],
)
assert model.display_name == "digits" and model.uri == f"{BUCKET}/out/model", model
uploaded = aiplatform.Model.upload(
    display_name="uploaded", artifact_uri=f"{BUCKET}/out/model", serving_container_image_uri=SERVING
)
uploaded.update(description="changed", labels={"a": "b"})
assert (uploaded.description, uploaded.labels) == ("changed", {"a": "b"}), uploaded
uploaded.versioning_registry.add_version_aliases(["best"], version="1")
assert "best" in uploaded.versioning_registry.get_version_info("1").version_aliases
names = {each.display_name for each in aiplatform.Model.list()}
assert names == {"digits", "uploaded"}, names
uploaded.delete()

try:
    aiplatform.Featurestore.create("features", online_store_fixed_node_count=1)
except Exception as error:
    assert "does not emulate" in str(error), error
else:
    raise AssertionError("a feature store was made")
job.delete()

board = aiplatform.Tensorboard.create(display_name="board")
board.update(description="of mine")
assert [each.resource_name for each in aiplatform.Tensorboard.list()] == [board.resource_name]
board.delete()
table = aiplatform.TabularDataset.create(display_name="table", gcs_source=f"{BUCKET}/table.csv")
assert aiplatform.TabularDataset(table.resource_name).display_name == "table"
table.delete()

machines = PersistentResource.create(
    persistent_resource_id="machines",
    resource_pools=[{"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1}],
)
assert machines.state.name == "RUNNING", machines.state
assert [each.name for each in PersistentResource.list()] == ["machines"]
machines.delete()
assert PersistentResource.list() == []

# The generated clients, as many notebooks use them.
client = aiplatform_v1.JobServiceClient(
    client_options={"api_endpoint": "us-central1-aiplatform.googleapis.com"}
)
parent = "projects/demo/locations/us-central1"
pool = {
    "machine_spec": {"machine_type": "n1-standard-4"},
    "replica_count": 1,
    "python_package_spec": {"executor_image_uri": PACKAGES, "python_module": "this"},
}
made = client.create_custom_job(
    parent=parent, custom_job={"display_name": "generated", "job_spec": {"worker_pool_specs": [pool]}}
)
assert client.get_custom_job(name=made.name).display_name == "generated"
for call, error in (
    (lambda: client.get_custom_job(name=f"{parent}/customJobs/5"), exceptions.NotFound),
    (lambda: client.get_custom_job(name=f"{parent}/models/5"), exceptions.InvalidArgument),
    (lambda: client.list_custom_jobs(parent=f"{parent}/more"), exceptions.InvalidArgument),
):
    try:
        call()
    except error as refusal:
        assert "projects/local" not in str(refusal), refusal
    else:
        raise AssertionError("it was not refused")
print("done")
