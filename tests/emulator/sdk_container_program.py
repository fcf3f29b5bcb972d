"""A program as it was written for the cloud, whose trainer is a container; IMAGE is its only argument."""

import sys

from google.cloud import aiplatform

IMAGE = sys.argv[1]
SERVING = "us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-5:latest"
BUCKET = "gs://stage"
SAVE = """
import os, pathlib, sys
folder = pathlib.Path(os.environ["AIP_MODEL_DIR"].replace("gs://", "/gcs/"))
folder.mkdir(parents=True, exist_ok=True)
(folder / "model.joblib").write_text(sys.argv[1])
"""
aiplatform.init(project="demo", location="us-central1", staging_bucket=BUCKET)
training = aiplatform.CustomContainerTrainingJob(
    display_name="container",
    container_uri=IMAGE,
    command=["python3", "-c", SAVE],
    model_serving_container_image_uri=SERVING,
)
model = training.run(
    args=["trained"],
    model_display_name="contained",
    machine_type="n1-standard-4",
    base_output_dir=f"{BUCKET}/contained",
)
assert model.display_name == "contained" and model.uri == f"{BUCKET}/contained/model", model
job = aiplatform.CustomContainerTrainingJob(display_name="no-model", container_uri=IMAGE, command=["false"])
try:
    job.run(machine_type="n1-standard-4", base_output_dir=f"{BUCKET}/none")
except RuntimeError as error:
    assert "non-zero status of 1" in str(error), error
else:
    raise AssertionError("it has not failed")
print("done")
