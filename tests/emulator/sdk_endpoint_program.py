"""A program that deploys models and asks them, as it was written for the cloud."""

from google.api_core import exceptions
from google.cloud import aiplatform

SERVING = "us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-6:latest"
aiplatform.init(project="demo", location="us-central1", staging_bucket="gs://stage")

model = aiplatform.Model.upload(
    display_name="sum", artifact_uri="gs://stage/model", serving_container_image_uri=SERVING
)
endpoint = model.deploy(machine_type="n1-standard-4", min_replica_count=1, max_replica_count=2)
assert endpoint.predict(instances=[[1, 2], [3, 4]]).predictions == [3, 7]
(deployed,) = endpoint.list_models()
assert deployed.dedicated_resources.max_replica_count == 2, deployed
assert dict(endpoint.traffic_split) == {deployed.id: 100}, endpoint.traffic_split

own = aiplatform.Endpoint.create(display_name="own", labels={"a": "b"}, endpoint_id="own")
own.deploy(model, deployed_model_display_name="first", traffic_percentage=100)
own.deploy(model, deployed_model_display_name="second", traffic_percentage=30)
assert sorted(own.traffic_split.values()) == [30, 70], own.traffic_split
answer = own.predict(instances=[[1.5, 2.0]], parameters={"a": 1})
client = aiplatform.gapic.PredictionServiceClient()
body = {"data": b'{"instances": [[1, 2]]}', "content_type": "application/json"}
assert b"3" in client.raw_predict({"endpoint": own.resource_name, "http_body": body}).data
raw = own.raw_predict(b'{"instances": [[1, 2]]}', {"Content-Type": "application/json"})
assert raw.json() == {"predictions": [3]} and raw.headers["X-Vertex-AI-Endpoint-Id"], raw.headers
assert answer.predictions == [3.5] and answer.model_resource_name == model.resource_name, answer
own.update(display_name="changed", description="of mine")
(listed,) = aiplatform.Endpoint.list(filter='display_name="changed"')
assert (listed.resource_name, listed.gca_resource.description) == (own.resource_name, "of mine")
first, second = sorted(own.list_models(), key=lambda each: each.display_name)
own.undeploy(first.id)
assert [each.display_name for each in own.list_models()] == ["second"]

for call, error in (
    (lambda: own.predict(instances=[[1, 2, 3]]), exceptions.InvalidArgument),
    (lambda: own.explain(instances=[[1, 2]]), exceptions.MethodNotImplemented),
    (lambda: own.delete(), exceptions.FailedPrecondition),
    (lambda: model.delete(), exceptions.FailedPrecondition),
):
    try:
        call()
    except error as refusal:
        assert "projects/local" not in str(refusal), refusal
    else:
        raise AssertionError("it was not refused")

job = model.batch_predict(
    job_display_name="batch",
    gcs_source="gs://stage/model/input.jsonl",
    gcs_destination_prefix="gs://stage/predicted",
    machine_type="n1-standard-4",
)
assert job.state.name == "JOB_STATE_SUCCEEDED", job.state
(results,) = (blob for blob in job.iter_outputs() if "prediction.results" in blob.name)
assert b'{"instance":[1,2],"prediction":3}' in results.download_as_bytes()
assert job.completion_stats.successful_count == 2, job.completion_stats
(found,) = aiplatform.BatchPredictionJob.list(filter='display_name="batch"')
assert found.resource_name == job.resource_name
job.delete()

own.delete(force=True)
endpoint.undeploy_all()
endpoint.delete()
assert aiplatform.Endpoint.list() == []
model.delete()
print("done")
