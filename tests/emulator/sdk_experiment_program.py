"""A program that logs experiments, as it was written for the cloud. Its argument is the transport."""

import math
import os
import sys
from importlib.util import find_spec
from inspect import signature

from google.api_core import exceptions
from google.cloud import aiplatform
from google.cloud.aiplatform.metadata import context

PACKAGES = "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest"
rest = {
    "api_endpoint": os.environ["CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM"].rstrip("/"),
    "api_transport": "rest",
}
place = {"project": "demo", "location": "us-central1", "staging_bucket": "gs://stage"}
place |= rest if sys.argv[1:] == ["rest"] else {}
HAS_PANDAS = find_spec("pandas") is not None

# without a TensorBoard

aiplatform.init(**place, experiment="plain", experiment_tensorboard=False)
with aiplatform.start_run("first") as run:
    aiplatform.log_params({"rate": 0.1, "name": "adam", "layers": 3})
    aiplatform.log_metrics({"accuracy": 0.9})
    aiplatform.log_metrics({"loss": 0.2})
    aiplatform.log_classification_metrics(
        labels=["cat", "dog"],
        matrix=[[9, 1], [1, 9]],
        fpr=[0.1, 0.5],
        tpr=[0.1, 0.9],
        threshold=[0.9, 0.1],
        display_name="cats",
    )
    with aiplatform.start_execution(schema_title="system.ContainerExecution", display_name="train") as step:
        table = aiplatform.Artifact.create(
            schema_title="system.Dataset", display_name="table", uri="gs://stage/table.csv"
        )
        step.assign_input_artifacts([table])
        model = aiplatform.Artifact.create(
            schema_title="system.Model", uri="gs://stage/model", metadata={"size": 7}
        )
        step.assign_output_artifacts([model])
assert [each.uri for each in step.get_input_artifacts()] == ["gs://stage/table.csv"]
assert [each.uri for each in step.get_output_artifacts()] == ["gs://stage/model"]
assert step.state.name == "COMPLETE" and run.state.name == "COMPLETE"

run = aiplatform.start_run("first", resume=True)
run.log_metrics({"accuracy": 0.95})
assert run.get_params() == {"rate": 0.1, "name": "adam", "layers": 3}, run.get_params()
assert run.get_metrics() == {"accuracy": 0.95, "loss": 0.2}, run.get_metrics()
(cats,) = run.get_classification_metrics()
assert cats["matrix"] == [[9, 1], [1, 9]] and cats["labels"] == ["cat", "dog"], cats
assert [each.display_name for each in run.get_executions()] == ["train"]
aiplatform.end_run()
assert [each.uri for each in aiplatform.Artifact.list(filter='schema_title="system.Model"')] == [model.uri]
assert aiplatform.Artifact.get_with_uri("gs://stage/table.csv").name == table.name
found = aiplatform.Artifact.list(filter="metadata.size.number_value > 6", order_by="create_time desc")
assert [each.name for each in found] == [model.name], found
graph = aiplatform.Context("plain-first").query_lineage_subgraph()
assert len(graph.artifacts) >= 3 and len(graph.executions) == 1 and len(graph.events) == 2, graph
stale = aiplatform.Context("plain-first")
aiplatform.Context("plain-first").update(metadata={"_state": "FAILED"})
try:
    stale.update(description="it asks again with the new etag")
except exceptions.Conflict:  # the library does not over REST, and did not in old versions
    assert "api_transport" in place or not hasattr(context, "_ETAG_ERROR_REGEX")
else:
    assert aiplatform.Context("plain-first").description == "it asks again with the new etag"

# with a TensorBoard, which is the default one where none is named

for name in ("default", "another"):
    aiplatform.init(**place, experiment=name)
assert len(aiplatform.Tensorboard.list(filter="is_default=true")) == 1

board = aiplatform.Tensorboard.create(display_name="board")
aiplatform.init(**place, experiment="curves", experiment_tensorboard=board, experiment_description="of mine")
aiplatform.start_run("second")
aiplatform.log_params({"rate": 0.2})
for epoch in (1, 2, 3):
    aiplatform.log_time_series_metrics({"loss": 1 / epoch, "odd": math.nan}, step=epoch)
aiplatform.log_time_series_metrics({"loss": 0.1})  # at the next step
curves = aiplatform.ExperimentRun("second", experiment="curves")
data = curves._backing_tensorboard_run.resource.read_time_series_data()
points = [(each.step, each.scalar.value) for each in data["loss"].values]
assert points == [(1, 1), (2, 0.5), (3, 1 / 3), (4, 0.1)], data["loss"]
assert all(math.isnan(each.scalar.value) for each in data["odd"].values), data["odd"]
aiplatform.end_run()
if HAS_PANDAS:
    frame = curves.get_time_series_data_frame()
    assert list(frame["loss"]) == [1, 0.5, 1 / 3, 0.1] and list(frame["step"]) == [1, 2, 3, 4], frame
    frame = aiplatform.get_experiment_df("curves")
    assert list(frame["time_series_metric.loss"]) == [0.1] and list(frame["param.rate"]) == [0.2], frame
    assert list(aiplatform.get_experiment_df("plain")["metric.accuracy"]) == [0.95]
later = aiplatform.ExperimentRun.create("third", experiment="plain", tensorboard=board)
later.log_time_series_metrics({"loss": 2.0}, step=1)
late = aiplatform.ExperimentRun.create("fourth", experiment="plain")
if late._backing_tensorboard_run is None:  # old versions know no experiment without one
    late.assign_backing_tensorboard(board)
assert {each.name for each in aiplatform.ExperimentRun.list(experiment="plain")} == {
    "first",
    "third",
    "fourth",
}
assert {each.name for each in aiplatform.Experiment.list()} >= {"plain", "curves"}
assert {each.name for each in aiplatform.TensorboardExperiment.list(board.resource_name)} == {
    "plain",
    "curves",
}

# a job that names both

job = aiplatform.CustomJob(
    display_name="job",
    worker_pool_specs=[
        {
            "machine_spec": {"machine_type": "n1-standard-4"},
            "replica_count": 1,
            "python_package_spec": {"executor_image_uri": PACKAGES, "python_module": "this", "args": []},
        }
    ],
)
aiplatform.ExperimentRun.create("job", experiment="curves")
submit = {"experiment": "curves", "experiment_run": "job"}
if "experiment_run" not in signature(job.submit).parameters:
    submit = {}  # an old version
job.submit(**submit, service_account="me@demo.iam.gserviceaccount.com")
if hasattr(job, "wait_for_completion"):
    job.wait_for_completion()
else:
    job._block_until_complete()
assert job.state.name == "JOB_STATE_SUCCEEDED", job.state
if job.job_spec.experiment_run:
    assert job.job_spec.experiment_run.endswith("/contexts/curves-job"), job.job_spec
    assert aiplatform.ExperimentRun("job", "curves").state.name == "COMPLETE"
else:  # an old version names it in the environment
    variables = {each.name for each in job.job_spec.worker_pool_specs[0].python_package_spec.env}
    assert not submit or "AIP_EXPERIMENT_RUN_NAME" in variables, variables

late.delete(delete_backing_tensorboard_run=True)
for name in ("plain", "curves", "default", "another"):
    aiplatform.Experiment(name).delete(delete_backing_tensorboard_runs=name == "curves")
assert aiplatform.Experiment.list() == []
board.delete()
print("done")
