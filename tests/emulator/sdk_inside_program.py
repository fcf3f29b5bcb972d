"""A program as it was written for the cloud, whose trainer uses Google's library itself."""

import os
import sysconfig
from pathlib import Path

from google.cloud import aiplatform

aiplatform.init(project="emulator", location="us-central1", staging_bucket="gs://stage")
path = os.pathsep.join([str(Path(__file__).parent.resolve()), sysconfig.get_path("purelib")])
task = {
    "executor_image_uri": "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest",
    "python_module": "sdk_inside_trainer",
    "env": [{"name": "PYTHONPATH", "value": path}],
}
pool = {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1, "python_package_spec": task}
job = aiplatform.CustomJob("inside", [pool], base_output_dir="gs://stage/inside")
job.run()
(model,) = aiplatform.Model.list()
assert (model.display_name, model.uri) == ("made inside", "gs://stage/inside/model/")
assert aiplatform.ExperimentRun("first", experiment="inside").get_metrics() == {"accuracy": 0.5}
print("done")
