"""The programs that Kubeflow's components of Google Cloud run in their containers."""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

from google.cloud import storage

LAUNCHERS = "google_cloud_pipeline_components.container.v1"
TRAINING = "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest"
SERVING = "us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-6:latest"
FOLDER = Path(mkdtemp())


def launch(module, kind, payload, *more):
    """Start a launcher, which asks for the state of its work every 20 seconds."""
    place = ["--project=demo", "--location=us-central1", f"--gcp_resources={FOLDER / kind}"]
    argv = [sys.executable, "-m", f"{LAUNCHERS}.{module}.launcher", f"--type={kind}", *place]
    return subprocess.Popen([*argv, f"--payload={json.dumps(payload)}", *more])


bucket = storage.Client(project="demo").create_bucket("stage")
bucket.blob("model/model.pkl").upload_from_string("csklearn\nSum\n(tR.")
job = {
    "display_name": "launched",
    "job_spec": {
        "worker_pool_specs": [
            {
                "machine_spec": {"machine_type": "n1-standard-4"},
                "replica_count": 1,
                "python_package_spec": {"executor_image_uri": TRAINING, "python_module": "this"},
            }
        ],
        "scheduling": {"timeout": "604800s", "restart_job_on_worker_restart": False},
    },
}
artifact = {"name": "model", "uri": "", "type": {"schemaTitle": "google.VertexModel"}, "metadata": {}}
executor = {
    "outputs": {
        "artifacts": {"model": {"artifacts": [artifact]}},
        "outputFile": str(FOLDER / "output.json"),
    }
}
model = {
    "display_name": "launched",
    "artifact_uri": "gs://stage/model",
    "container_spec": {"image_uri": SERVING},
}
launchers = [
    launch("custom_job", "CustomJob", job),
    launch("model.upload_model", "UploadModel", model, f"--executor_input={json.dumps(executor)}"),
]
assert [each.wait() for each in launchers] == [0, 0]
(launched,) = json.loads((FOLDER / "CustomJob").read_text())["resources"]
assert "/customJobs/" in launched["resourceUri"], launched
(uploaded,) = json.loads((FOLDER / "output.json").read_text())["artifacts"]["model"]["artifacts"]
assert "/models/" in uploaded["metadata"]["resourceName"], uploaded
print("done")
