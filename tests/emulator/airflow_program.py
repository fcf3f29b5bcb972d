"""An operator of Airflow's Google provider as a task runs it, outside of a scheduler."""

import os
from pathlib import Path

os.environ["AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT"] = "google-cloud-platform://"

from airflow.providers.google.cloud.operators.vertex_ai.custom_job import CreateCustomTrainingJobOperator


class TaskInstance:
    """What an operator tells other tasks."""

    def xcom_push(self, key: str, value: object, **_options: object) -> None:
        print("told", key, value)


operator = CreateCustomTrainingJobOperator(
    task_id="train",
    project_id="demo",
    region="us-central1",
    staging_bucket="gs://stage",
    display_name="airflow",
    script_path=str(Path(__file__).with_name("sdk_trainer.py")),
    container_uri="us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest",
    requirements=[],
    machine_type="n1-standard-4",
    replica_count=1,
    base_output_dir="gs://stage/airflow",
    model_serving_container_image_uri="us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-5:latest",
    model_display_name="airflow",
)
instance = TaskInstance()
model = operator.execute(context={"ti": instance, "task_instance": instance})
assert model["displayName"] == "airflow" and model["artifactUri"] == "gs://stage/airflow/model", model
print("done")
