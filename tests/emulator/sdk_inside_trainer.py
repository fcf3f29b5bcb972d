"""A trainer that uses Google's library itself, without a word about its project: a job has credentials."""

import os

from google.cloud import aiplatform, storage

folder = os.environ["AIP_MODEL_DIR"]
storage.Blob.from_string(f"{folder}model.joblib", client=storage.Client()).upload_from_string(b"model")
aiplatform.init()
assert aiplatform.Model.list() == []
model = aiplatform.Model.upload(
    display_name="made inside",
    artifact_uri=folder,
    serving_container_image_uri="us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-5:latest",
)
aiplatform.init(experiment="inside")
aiplatform.start_run("first")
aiplatform.log_metrics({"accuracy": 0.5})
aiplatform.end_run()
print(model.resource_name)
