"""A DAG that trains on Vertex AI, and registers the model. It knows nothing of vtrain."""

from datetime import datetime
from pathlib import Path

from airflow.providers.google.cloud.operators.vertex_ai.custom_job import CreateCustomTrainingJobOperator
from airflow.sdk import dag, task

IMAGES = "us-docker.pkg.dev/vertex-ai"


@dag(schedule=None, start_date=datetime(2025, 1, 1), catchup=False)
def train_iris():
    train = CreateCustomTrainingJobOperator(
        task_id="train",
        project_id="my-project",
        region="us-central1",
        staging_bucket="gs://my-bucket",
        display_name="iris",
        script_path=str(Path(__file__).with_name("trainer.py")),
        args=["--trees=50"],
        container_uri=f"{IMAGES}/training/sklearn-cpu.1-6:latest",
        machine_type="n1-standard-4",
        replica_count=1,
        base_output_dir="gs://my-bucket/iris",
        model_serving_container_image_uri=f"{IMAGES}/prediction/sklearn-cpu.1-6:latest",
        model_display_name="iris",
    )

    @task
    def report(model):
        print(f"The model {model['displayName']} is in {model['artifactUri']}.")

    report(train.output)


train_iris()
