"""A program of Google's Python library over REST, with the lines of `docs/how-to/use-the-emulator.md`."""

import io
import os
import tarfile
from pathlib import Path

from google.cloud import aiplatform, storage
from google.cloud.aiplatform import hyperparameter_tuning as hpt

PACKAGES = "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest"
SERVING = "us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-5:latest"
BUCKET = "gs://stage"
TRAINER = Path(__file__).with_name("sdk_trainer.py")
SETUP = """
from setuptools import setup
setup(name="trainer", version="0.1", packages=["trainer"], install_requires=["google-cloud-storage"])
"""
aiplatform.init(
    project="demo",
    location="us-central1",
    staging_bucket=BUCKET,
    api_endpoint=os.environ["CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM"].rstrip("/"),
    api_transport="rest",
)

sdist = io.BytesIO()
with tarfile.open(fileobj=sdist, mode="w:gz") as archive:
    files = {"setup.py": SETUP, "trainer/__init__.py": "", "trainer/task.py": TRAINER.read_text()}
    for name, text in files.items():
        member = tarfile.TarInfo(f"trainer-0.1/{name}")
        member.size = len(text.encode())
        archive.addfile(member, io.BytesIO(text.encode()))
package = storage.Client(project="demo").bucket("stage").blob("packages/trainer-0.1.tar.gz")
package.upload_from_string(sdist.getvalue())

job = aiplatform.CustomJob.from_local_script(
    display_name="script", script_path=str(TRAINER), container_uri=PACKAGES, machine_type="n1-standard-4"
)
job.run()
assert job.state.name == "JOB_STATE_SUCCEEDED", job.state
found = aiplatform.CustomJob.list(filter='display_name="script"')
assert [each.resource_name for each in found] == [job.resource_name]

tuning = aiplatform.HyperparameterTuningJob(
    display_name="tuning",
    custom_job=job,
    metric_spec={"accuracy": "maximize"},
    parameter_spec={"rate": hpt.DoubleParameterSpec(min=0.1, max=1.0, scale="linear")},
    max_trial_count=2,
    parallel_trial_count=2,
)
tuning.run()
assert tuning.state.name == "JOB_STATE_SUCCEEDED", tuning.state
rates = [trial.parameters[0].value for trial in tuning.trials]
assert rates == [trial.final_measurement.metrics[0].value for trial in tuning.trials] and len(rates) == 2

training = aiplatform.CustomPythonPackageTrainingJob(
    display_name="package",
    python_package_gcs_uri=f"{BUCKET}/packages/trainer-0.1.tar.gz",
    python_module_name="trainer.task",
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
assert training.state.name == "PIPELINE_STATE_SUCCEEDED", training.state
uploaded = aiplatform.Model.upload(
    display_name="uploaded", artifact_uri=f"{BUCKET}/out/model", serving_container_image_uri=SERVING
)
names = {each.display_name for each in aiplatform.Model.list()}
assert names == {"digits", "uploaded"}, names
uploaded.delete()
training.delete()

waiting = aiplatform.CustomJob(
    display_name="waiting",
    worker_pool_specs=[
        {
            "machine_spec": {"machine_type": "n1-standard-4"},
            "replica_count": 1,
            "python_package_spec": {
                "executor_image_uri": PACKAGES,
                "python_module": "timeit",
                "args": ["-n1", "-r1", "import time; time.sleep(600)"],
            },
        }
    ],
)
waiting.submit()
waiting.cancel()
try:
    waiting.wait_for_completion() if hasattr(
        waiting, "wait_for_completion"
    ) else waiting._block_until_complete()
except RuntimeError as error:
    assert "CANCELED" in str(error), error
assert waiting.state.name == "JOB_STATE_CANCELLED", waiting.state
print("done")
