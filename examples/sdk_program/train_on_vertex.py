"""Trains a model on Vertex AI by Google's Python library, serves it, and asks it about one flower.

It knows nothing of vtrain, which runs it offline:
vtrain emulator exec --bucket=my-bucket -- python examples/sdk_program/train_on_vertex.py
"""

from pathlib import Path

from google.cloud import aiplatform

IMAGES = "us-docker.pkg.dev/vertex-ai"
KINDS = ("setosa", "versicolor", "virginica")


def main() -> None:
    aiplatform.init(project="my-project", location="us-central1", staging_bucket="gs://my-bucket")
    job = aiplatform.CustomTrainingJob(
        display_name="iris",
        script_path=str(Path(__file__).with_name("trainer.py")),
        container_uri=f"{IMAGES}/training/sklearn-cpu.1-6:latest",
        model_serving_container_image_uri=f"{IMAGES}/prediction/sklearn-cpu.1-6:latest",
    )
    model = job.run(args=["--trees=50"], replica_count=1, machine_type="n1-standard-4")
    endpoint = model.deploy(machine_type="n1-standard-2")
    answer = endpoint.predict(instances=[[5.1, 3.5, 1.4, 0.2]])
    print(f"The flower is an iris {KINDS[int(answer.predictions[0])]}.")
    endpoint.delete(force=True)


if __name__ == "__main__":
    main()
