"""A notebook of Google's Python library from the first cell to the last; its argument is the transport."""

import sys
from pathlib import Path

from google.cloud import aiplatform, storage
from google.cloud.aiplatform import hyperparameter_tuning as hpt

PROJECT, REGION, BUCKET = "demo", "us-central1", "stage"
TRAINING = "us-docker.pkg.dev/vertex-ai/training/scikit-learn-cpu.0-23:latest"
SERVING = "us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-6:latest"
TRAINER = str(Path(__file__).with_name("trainer.py"))

client = storage.Client(project=PROJECT)
bucket = client.create_bucket(BUCKET, location=REGION)
policy = bucket.get_iam_policy(requested_policy_version=3)
account = "serviceAccount:100000000001-compute@developer.gserviceaccount.com"
policy.bindings.append({"role": "roles/storage.objectCreator", "members": {account}})
bucket.set_iam_policy(policy)
assert any(account in each["members"] for each in bucket.get_iam_policy().bindings)
bucket.blob("data/table.csv").upload_from_string("x,y\n" + "".join(f"{n},{n}\n" for n in range(100)))
bucket.blob("data/instances.jsonl").upload_from_string("[1, 2]\n[3, 4]\n")

transport = {"api_transport": sys.argv[1]} if sys.argv[1] != "grpc" else {}
aiplatform.init(project=PROJECT, location=REGION, staging_bucket=f"gs://{BUCKET}", **transport)

dataset = aiplatform.TabularDataset.create(display_name="table", gcs_source=[f"gs://{BUCKET}/data/table.csv"])
assert sorted(dataset.column_names) == ["x", "y"], dataset.column_names
job = aiplatform.CustomTrainingJob(
    display_name="train",
    script_path=TRAINER,
    container_uri=TRAINING,
    model_serving_container_image_uri=SERVING,
)
model = job.run(
    dataset=dataset,
    model_display_name="digits",
    args=["--epochs=2"],
    replica_count=1,
    machine_type="n1-standard-4",
    training_fraction_split=0.8,
    validation_fraction_split=0.1,
    test_fraction_split=0.1,
    sync=False,
)
model.wait()
assert job.state.name == "PIPELINE_STATE_SUCCEEDED", job.state
assert [each.display_name for each in aiplatform.Model.list(filter='display_name="digits"')] == ["digits"]

endpoint = model.deploy(
    deployed_model_display_name="digits",
    traffic_split={"0": 100},
    machine_type="n1-standard-4",
    min_replica_count=1,
    max_replica_count=1,
)
assert list(endpoint.predict(instances=[[1, 2], [3, 4]]).predictions) == [3, 7]
batch = model.batch_predict(
    job_display_name="batch",
    gcs_source=f"gs://{BUCKET}/data/instances.jsonl",
    gcs_destination_prefix=f"gs://{BUCKET}/predicted",
    instances_format="jsonl",
    predictions_format="jsonl",
    machine_type="n1-standard-4",
    starting_replica_count=1,
    max_replica_count=1,
    sync=False,
)
batch.wait()
lines = [line for blob in batch.iter_outputs() for line in blob.download_as_text().splitlines()]
assert sorted(line for line in lines if "prediction" in line) == [
    '{"instance":[1,2],"prediction":3}',
    '{"instance":[3,4],"prediction":7}',
], lines

trial = aiplatform.CustomJob.from_local_script(
    display_name="trial",
    script_path=TRAINER,
    container_uri=TRAINING,
    machine_type="n1-standard-4",
    base_output_dir=f"gs://{BUCKET}/trials",
)
tuning = aiplatform.HyperparameterTuningJob(
    display_name="tuning",
    custom_job=trial,
    metric_spec={"accuracy": "maximize"},
    parameter_spec={
        "rate": hpt.DoubleParameterSpec(min=0.001, max=1, scale="log"),
        "epochs": hpt.IntegerParameterSpec(min=1, max=4, scale="linear"),
    },
    search_algorithm="random",
    max_trial_count=2,
    parallel_trial_count=2,
)
tuning.run()
best = max(tuning.trials, key=lambda each: each.final_measurement.metrics[0].value)
assert {each.parameter_id for each in best.parameters} == {"rate", "epochs"}, best

board = aiplatform.Tensorboard.create(display_name="board")
board.delete()
endpoint.undeploy_all()
endpoint.delete()
for resource in (batch, tuning, job, model, dataset):
    resource.delete()
assert aiplatform.Endpoint.list() == aiplatform.Model.list() == aiplatform.TabularDataset.list() == []
bucket.delete(force=True)
print("done")
