"""Counts which methods of Vertex AI's API the training notebooks of public repositories call.

    python count_methods.py OWNER/NAME=CLONE... > notebooks.json

reads the notebooks of the newest commit of the clone of each repository, keeps those which train by custom
jobs, tuning jobs or training pipelines, themselves or by components of Kubeflow, and writes the methods of
each, with a few other things that they do. It needs google-cloud-aiplatform, which knows the services.

Calls are found in the code, which is not run: a class or a client of the library is followed from its import
through assignments, loops and the functions of the notebook. Clean-up cells count, and so do trainers that a
notebook writes to a file.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.cloud import aiplatform_v1, aiplatform_v1beta1

TRAINING = ("CreateCustomJob", "CreateHyperparameterTuningJob", "CreateTrainingPipeline")
AUTOML, PRIVATE = "CreateTrainingPipeline (AutoML)", "CreateEndpoint (private)"
"""What a service does by a method that it also has for other things, so that a name alone says too little."""

KINDS = {
    "CustomTrainingJob": "Training",
    "CustomContainerTrainingJob": "Training",
    "CustomPythonPackageTrainingJob": "Training",
    "AutoMLTabularTrainingJob": "AutoML",
    "AutoMLImageTrainingJob": "AutoML",
    "AutoMLTextTrainingJob": "AutoML",
    "AutoMLVideoTrainingJob": "AutoML",
    "AutoMLForecastingTrainingJob": "AutoML",
    "TabularDataset": "TabularDataset",
    "TimeSeriesDataset": "TabularDataset",
    "ImageDataset": "Dataset",
    "TextDataset": "Dataset",
    "VideoDataset": "Dataset",
    "EntityType": "Featurestore",
    "Feature": "Featurestore",
    "FeatureOnlineStore": "FeatureOnlineStore",
    "FeatureView": "FeatureOnlineStore",
    "FeatureGroup": "FeatureGroup",
    "MatchingEngineIndex": "Index",
    "MatchingEngineIndexEndpoint": "IndexEndpoint",
}
"""Classes of the library that have the calls of another one."""
FOUND_BY_NAME = {
    "Artifact": "GetArtifact",
    "Context": "GetContext",
    "Dataset": "GetDataset",
    "Endpoint": "GetEndpoint",
    "Execution": "GetExecution",
    "Experiment": "GetContext",
    "ExperimentRun": "GetContext",
    "Featurestore": "GetFeaturestore",
    "FeatureOnlineStore": "GetFeatureOnlineStore",
    "FeatureGroup": "GetFeatureGroup",
    "Index": "GetIndex",
    "IndexEndpoint": "GetIndexEndpoint",
    "Model": "GetModel",
    "ModelRegistry": "GetModel",
    "PersistentResource": "GetPersistentResource",
    "PrivateEndpoint": "GetEndpoint",
    "Study": "GetStudy",
    "TabularDataset": "GetDataset",
    "Tensorboard": "GetTensorboard",
    "TensorboardExperiment": "GetTensorboardExperiment",
    "TensorboardRun": "GetTensorboardRun",
    "TensorboardTimeSeries": "GetTensorboardTimeSeries",
}
"""What the constructor of a class asks for: the resource with this name."""
_RUN = "CreateContext GetContext ListContexts AddContextChildren AddContextArtifactsAndExecutions"
_LOG = "QueryContextLineageSubgraph UpdateExecution UpdateArtifact GetContext"
_POINTS = (
    "ListTensorboardTimeSeries BatchCreateTensorboardTimeSeries CreateTensorboardTimeSeries "
    "WriteTensorboardRunData"
)
_LOGGED = (
    "CreateTensorboardExperiment CreateTensorboardRun BatchCreateTensorboardRuns "
    "BatchCreateTensorboardTimeSeries WriteTensorboardExperimentData"
)
_UPLOADED = "UploadModel GetOperation GetModel"
_BATCH = "CreateBatchPredictionJob GetBatchPredictionJob"
_STARTED = "CreateTrainingPipeline GetTrainingPipeline"
_EVALUATED = "CreatePipelineJob GetPipelineJob ListModelEvaluations"
CALLS = {
    # jobs
    "CustomJob.run": "CreateCustomJob GetCustomJob",
    "CustomJob.submit": "CreateCustomJob",
    "CustomJob.get": "GetCustomJob",
    "CustomJob.list": "ListCustomJobs",
    "CustomJob.cancel": "CancelCustomJob",
    "CustomJob.delete": "DeleteCustomJob GetOperation",
    "HyperparameterTuningJob.run": "CreateHyperparameterTuningJob GetHyperparameterTuningJob",
    "HyperparameterTuningJob.get": "GetHyperparameterTuningJob",
    "HyperparameterTuningJob.list": "ListHyperparameterTuningJobs",
    "HyperparameterTuningJob.cancel": "CancelHyperparameterTuningJob",
    "HyperparameterTuningJob.delete": "DeleteHyperparameterTuningJob GetOperation",
    "Training.run": _STARTED,
    "Training.submit": "CreateTrainingPipeline",
    "Training.get": "GetTrainingPipeline",
    "Training.list": "ListTrainingPipelines",
    "Training.cancel": "CancelTrainingPipeline",
    "Training.delete": "DeleteTrainingPipeline GetOperation",
    "AutoML.run": AUTOML,
    "AutoML.get": "GetTrainingPipeline",
    "AutoML.list": "ListTrainingPipelines",
    "AutoML.delete": "DeleteTrainingPipeline GetOperation",
    "PipelineJob.run": "CreatePipelineJob GetPipelineJob",
    "PipelineJob.submit": "CreatePipelineJob",
    "PipelineJob.get": "GetPipelineJob",
    "PipelineJob.list": "ListPipelineJobs",
    "PipelineJob.delete": "DeletePipelineJob",
    "PipelineJob.create_schedule": "CreateSchedule",
    "BatchPredictionJob.create": _BATCH,
    "BatchPredictionJob.submit": _BATCH,
    "BatchPredictionJob.get": "GetBatchPredictionJob",
    "BatchPredictionJob.list": "ListBatchPredictionJobs",
    "BatchPredictionJob.cancel": "CancelBatchPredictionJob",
    "BatchPredictionJob.delete": "DeleteBatchPredictionJob GetOperation",
    "PersistentResource.create": "CreatePersistentResource GetOperation",
    "PersistentResource.list": "ListPersistentResources",
    "PersistentResource.delete": "DeletePersistentResource GetOperation",
    "PersistentResource.reboot": "RebootPersistentResource",
    # models
    "Model.upload": _UPLOADED,
    "Model.upload_scikit_learn_model_file": _UPLOADED,
    "Model.upload_tensorflow_saved_model": _UPLOADED,
    "Model.upload_xgboost_model_file": _UPLOADED,
    "Model.list": "ListModels",
    "Model.update": "UpdateModel",
    "Model.copy": "CopyModel",
    "Model.delete": "DeleteModel GetOperation",
    "Model.deploy": "CreateEndpoint DeployModel GetEndpoint GetOperation",
    "Model.batch_predict": _BATCH,
    "Model.export_model": "ExportModel GetOperation",
    "Model.evaluate": _EVALUATED,
    "Model.list_model_evaluations": "ListModelEvaluations",
    "Model.get_model_evaluation": "ListModelEvaluations",
    "ModelRegistry.list_versions": "ListModelVersions",
    "ModelRegistry.get_version_info": "GetModel",
    "ModelRegistry.get_model": "GetModel",
    "ModelRegistry.add_version_aliases": "MergeVersionAliases",
    "ModelRegistry.remove_version_aliases": "MergeVersionAliases",
    "ModelRegistry.delete_version": "DeleteModelVersion",
    "ModelMonitor.create": "CreateModelMonitor",
    "ModelDeploymentMonitoringJob.create": "CreateModelDeploymentMonitoringJob",
    "ModelDeploymentMonitoringJob.delete": "DeleteModelDeploymentMonitoringJob",
    # endpoints
    "Endpoint.create": "CreateEndpoint GetOperation",
    "Endpoint.list": "ListEndpoints",
    "Endpoint.list_models": "GetEndpoint",
    "Endpoint.update": "UpdateEndpoint",
    "Endpoint.deploy": "DeployModel GetEndpoint GetOperation",
    "Endpoint.predict": "Predict",
    "Endpoint.raw_predict": "RawPredict",
    "Endpoint.stream_raw_predict": "StreamRawPredict",
    "Endpoint.explain": "Explain",
    "Endpoint.undeploy": "UndeployModel GetOperation",
    "Endpoint.undeploy_all": "UndeployModel GetOperation",
    "Endpoint.delete": "DeleteEndpoint GetOperation",
    "PrivateEndpoint.create": PRIVATE,
    "PrivateEndpoint.list": "ListEndpoints",
    "PrivateEndpoint.deploy": "DeployModel",
    "PrivateEndpoint.undeploy_all": "UndeployModel",
    "PrivateEndpoint.delete": "DeleteEndpoint",
    # datasets
    "Dataset.create": "CreateDataset ImportData GetOperation",
    "TabularDataset.create": "CreateDataset GetOperation",
    **{
        f"{kind}.{name}": methods
        for kind in ("Dataset", "TabularDataset")
        for name, methods in {
            "list": "ListDatasets",
            "update": "UpdateDataset",
            "import_data": "ImportData GetOperation",
            "export_data": "ExportData GetOperation",
            "delete": "DeleteDataset GetOperation",
        }.items()
    },
    # TensorBoards
    "Tensorboard.create": "CreateTensorboard GetOperation",
    "Tensorboard.list": "ListTensorboards",
    "Tensorboard.update": "UpdateTensorboard",
    "Tensorboard.delete": "DeleteTensorboard GetOperation",
    "TensorboardExperiment.create": "CreateTensorboardExperiment",
    "TensorboardExperiment.list": "ListTensorboardExperiments",
    "TensorboardExperiment.delete": "DeleteTensorboardExperiment GetOperation",
    "TensorboardRun.create": "CreateTensorboardRun",
    "TensorboardRun.list": "ListTensorboardRuns",
    "TensorboardRun.delete": "DeleteTensorboardRun GetOperation",
    "TensorboardRun.write_tensorboard_scalar_data": "WriteTensorboardRunData",
    "TensorboardRun.read_time_series_data": "BatchReadTensorboardTimeSeriesData",
    "aiplatform.upload_tb_log": _LOGGED,
    "aiplatform.start_upload_tb_log": _LOGGED,
    # experiments, and what they consist of
    "aiplatform.init(experiment)": "GetMetadataStore CreateMetadataStore GetContext CreateContext "
    "UpdateContext ListTensorboards CreateTensorboard GetTensorboardExperiment CreateTensorboardExperiment",
    "aiplatform.start_run": f"{_RUN} GetTensorboardRun CreateTensorboardRun",
    "aiplatform.end_run": "UpdateContext",
    "aiplatform.log_params": _LOG,
    "aiplatform.log_metrics": _LOG,
    "aiplatform.log_classification_metrics": "CreateArtifact AddContextArtifactsAndExecutions",
    "aiplatform.log_time_series_metrics": _POINTS,
    "aiplatform.log_model": "CreateArtifact AddContextArtifactsAndExecutions",
    "aiplatform.save_model": "CreateArtifact",
    "aiplatform.get_experiment_model": "GetArtifact",
    "aiplatform.get_experiment_df": "ListContexts QueryContextLineageSubgraph ListExecutions ListArtifacts "
    "BatchReadTensorboardTimeSeriesData",
    "aiplatform.get_pipeline_df": "ListContexts QueryContextLineageSubgraph",
    "aiplatform.start_execution": "CreateExecution UpdateExecution",
    "aiplatform.log": "GetPipelineJob GetContext AddContextChildren",
    "aiplatform.autolog": f"{_RUN} {_POINTS} {_LOG}",
    "Experiment.create": "CreateContext",
    "Experiment.list": "ListContexts",
    "Experiment.get_data_frame": "ListContexts QueryContextLineageSubgraph",
    "Experiment.delete": "ListContexts DeleteContext GetOperation",
    "ExperimentRun.create": _RUN,
    "ExperimentRun.list": "ListContexts",
    "ExperimentRun.log_params": _LOG,
    "ExperimentRun.log_metrics": _LOG,
    "ExperimentRun.log_time_series_metrics": _POINTS,
    "ExperimentRun.get_artifacts": "QueryContextLineageSubgraph ListArtifacts",
    "ExperimentRun.get_executions": "ListExecutions",
    "ExperimentRun.get_experiment_models": "ListArtifacts",
    "ExperimentRun.get_time_series_data_frame": "BatchReadTensorboardTimeSeriesData",
    "ExperimentRun.delete": "DeleteContext GetOperation",
    "Artifact.create": "CreateArtifact",
    "Artifact.list": "ListArtifacts",
    "Artifact.delete": "DeleteArtifact GetOperation",
    "Execution.create": "CreateExecution",
    "Execution.list": "ListExecutions",
    "Execution.delete": "DeleteExecution GetOperation",
    "Execution.assign_input_artifacts": "AddExecutionEvents",
    "Execution.assign_output_artifacts": "AddExecutionEvents",
    "Execution.get_input_artifacts": "QueryExecutionInputsAndOutputs",
    "Execution.get_output_artifacts": "QueryExecutionInputsAndOutputs",
    "Context.create": "CreateContext",
    "Context.list": "ListContexts",
    "Context.delete": "DeleteContext GetOperation",
    "Context.query_lineage_subgraph": "QueryContextLineageSubgraph",
    # others
    "Featurestore.create": "CreateFeaturestore",
    "Featurestore.create_entity_type": "CreateEntityType",
    "FeatureOnlineStore.create_optimized_store": "CreateFeatureOnlineStore",
    "FeatureOnlineStore.create_bigtable_store": "CreateFeatureOnlineStore",
    "FeatureOnlineStore.create_feature_view": "CreateFeatureView",
    "FeatureGroup.create": "CreateFeatureGroup",
    "FeatureGroup.create_feature": "FeatureRegistryService.CreateFeature",
    "Featurestore.batch_serve_to_df": "BatchReadFeatureValues",
    "Featurestore.batch_serve_to_bq": "BatchReadFeatureValues",
    "Featurestore.delete": "DeleteFeaturestore",
    "Index.create_tree_ah_index": "CreateIndex",
    "Index.create_brute_force_index": "CreateIndex",
    "Index.delete": "DeleteIndex",
    "IndexEndpoint.create": "CreateIndexEndpoint",
    "IndexEndpoint.deploy_index": "DeployIndex",
    "IndexEndpoint.delete": "DeleteIndexEndpoint",
    "Study.create_or_load": "CreateStudy",
    "Study.suggest": "SuggestTrials",
    "DeploymentResourcePool.create": "CreateDeploymentResourcePool",
    "GenerativeModel.generate_content": "GenerateContent",
    "TextGenerationModel.predict": "Predict",
    "OpenModel.deploy": "ModelGardenService.Deploy",
}
"""The methods that a call of the library needs, by class and name; those of its functions by `aiplatform`."""
GIVES = {
    "Training.run": "Model",
    "AutoML.run": "Model",
    "Model.deploy": "Endpoint",
    "Model.batch_predict": "BatchPredictionJob",
    "Model.versioning_registry": "ModelRegistry",
    "Endpoint.list_models": "",
    "aiplatform.start_run": "ExperimentRun",
    "aiplatform.start_execution": "Execution",
}
"""The class of what a call or an attribute gives, where it is another one than its own."""
BY_ITS_NAME = {
    "batch_predict": "Model",
    "undeploy": "Endpoint",
    "undeploy_all": "Endpoint",
    "upload_tb_log": "aiplatform",
}
"""Calls that only one class has, for objects whose class the code does not tell."""
GCLOUD = {
    "custom-jobs": "CustomJob",
    "hp-tuning-jobs": "HyperparameterTuningJob",
    "models": "Model",
    "endpoints": "Endpoint",
    "tensorboards": "Tensorboard",
    "tensorboard-experiments": "TensorboardExperiment",
    "tensorboard-runs": "TensorboardRun",
    "indexes": "Index",
    "index-endpoints": "IndexEndpoint",
    "model-monitoring-jobs": "ModelDeploymentMonitoringJob",
    "persistent-resources": "PersistentResource",
}
GCLOUD_VERBS = {
    "deploy-model": "DeployModel",
    "undeploy-model": "UndeployModel",
    "predict": "Predict",
    "explain": "Explain",
    "raw-predict": "RawPredict",
    "upload": "UploadModel",
    "copy": "CopyModel",
    "list-version": "ListModelVersions",
    "delete-version": "DeleteModelVersion",
    "deploy-index": "DeployIndex",
    "undeploy-index": "UndeployIndex",
}
"""Verbs of gcloud whose method is not named as the verb and the resource."""
_GCLOUD = re.compile(r"\bgcloud\s+(?:alpha\s+|beta\s+)?ai\s+([a-z-]+)\s+([a-z-]+)")
_REST = re.compile(r"aiplatform\.googleapis\.com\S*/(\w+)[^\s/:]*:([A-Za-z]+)\b")
_KUBEFLOW = re.compile(
    r"(?:Custom\w*|HyperparameterTuning)Job(?:Run)?Op\(|create_custom_training_job_(?:op_)?from_"
)
"""Components that train by a job, in a pipeline."""
_SHELL = re.compile(r"(\s*)(?:([\w, ]+?)\s*=\s*)?[!%]+(.*)")
_PYTHON = ("time", "timeit", "capture", "prun")
BEHAVIOURS = {
    "BigQuery": r"google\.cloud import bigquery|%%bigquery|\bbq (?:query|mk|load)\b",
    "an image of its own": r"docker (?:build|push)|gcloud builds|gcloud artifacts",
    "gcloud config set project": r"gcloud config set project",
    "gcloud storage": r"gcloud storage",
    "gcsfs": r"\bgcsfs\b",
    "google-cloud-storage": r"google\.cloud import storage|google\.cloud\.storage",
    "gsutil": r"\bgsutil\b",
    "IAM of buckets": r"add-iam-policy-binding|gsutil iam|set_iam_policy",
    "init without a project": r"(?:aiplatform|aip|vertex_ai)\.init\((?!\s*project|[^)]*project\s*=)",
    "tensorflow": r"import tensorflow",
}
"""What notebooks do beside it, by expressions that their code has then."""


def services() -> dict[str, str]:
    """The service of each method, as `CreateCustomJob` to `JobService`."""
    found: dict[str, str] = {}
    for module in (aiplatform_v1beta1, aiplatform_v1):
        for name in dir(module):
            if name.endswith("ServiceClient"):
                calls = (call for call in vars(getattr(module, name)) if not call.startswith(("_", "parse_")))
                methods = (_camel(call) for call in calls if not call.endswith("_path"))
                found |= dict.fromkeys(methods, name.removesuffix("Client"))
    common = ("GetOperation", "ListOperations", "DeleteOperation", "CancelOperation", "WaitOperation")
    return found | dict.fromkeys(common, "Operations")


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


class Program(ast.NodeVisitor):
    """The methods that one program calls."""

    def __init__(self, service_of: dict[str, str], text: str) -> None:
        self.service_of = service_of
        self.is_automl = "automl" in text and "custom_task" not in text
        self.found: set[str] = set()
        self.kinds: dict[str, str] = {}
        """The class of each name, `client` for one of a service; the functions of a notebook among them."""

    def add(self, methods: str) -> None:
        """Note the methods of a row."""
        for method in methods.split(" ") if "(" not in methods else [methods]:
            plain = method.partition(" ")[0]
            self.found.add(method if "." in plain else f"{self.service_of[plain]}.{method}")

    def visit_Import(self, node: ast.Import) -> None:
        """`import google.cloud.aiplatform as aip`."""
        for alias in node.names:
            if alias.name.startswith(("google.cloud.aiplatform", "vertexai")):
                self.kinds[alias.asname or alias.name] = "aiplatform"

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """`from google.cloud import aiplatform as aip`, and `from google.cloud.aiplatform import Model`."""
        module = node.module or ""
        for alias in node.names:
            whole = f"{module}.{alias.name}"
            if whole.startswith(("google.cloud.aiplatform", "vertexai")):
                self.kinds[alias.asname or alias.name] = self.class_of(alias.name) or "aiplatform"
            else:
                self.kinds.pop(alias.asname or alias.name, None)

    def class_of(self, name: str) -> str:
        """The kind of a class of the library; empty where it makes no requests."""
        if name.endswith("ServiceClient") or name == "JobServiceClient":
            return "client"
        kind = KINDS.get(name, name)
        return kind if any(call.startswith(f"{kind}.") for call in CALLS) else ""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """What a function returns."""
        self.generic_visit(node)
        for part in ast.walk(node):
            if isinstance(part, ast.Return) and part.value and (kind := self.kind(part.value)):
                self.kinds[node.name] = f"{kind}()"

    def visit_Assign(self, node: ast.Assign) -> None:
        """`model = job.run()`."""
        self.generic_visit(node)
        for target in node.targets:
            self.bind(target, self.kind(node.value))

    def visit_For(self, node: ast.For) -> None:
        """`for model in Model.list():`."""
        self.visit(node.iter)
        self.bind(node.target, self.kind(node.iter))
        for part in (*node.body, *node.orelse):
            self.visit(part)

    def visit_With(self, node: ast.With) -> None:
        """`with aiplatform.start_run("a") as run:`."""
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, self.kind(item.context_expr))
        for part in node.body:
            self.visit(part)

    def visit_ListComp(self, node: ast.ListComp) -> None:
        """`[model.delete() for model in Model.list()]`."""
        for part in node.generators:
            self.visit(part.iter)
            self.bind(part.target, self.kind(part.iter))
        self.visit(node.elt)

    def bind(self, target: ast.expr, kind: str) -> None:
        """A name has this class from here on."""
        name = ast.unparse(target)
        if kind:
            self.kinds[name] = kind
        else:
            self.kinds.pop(name, None)

    def kind(self, node: ast.expr) -> str:
        """The class of what an expression gives, or of a list's elements."""
        if (known := self.kinds.get(ast.unparse(node))) is not None:
            return known
        if isinstance(node, ast.Subscript | ast.Await | ast.Starred):
            return self.kind(node.value)
        if isinstance(node, ast.Attribute):
            kind = self.kind(node.value)
            if kind == "aiplatform":
                return self.class_of(node.attr) or kind
            return GIVES.get(f"{kind}.{node.attr}", "client" if node.attr == "api_client" else "")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            kind, name = self.kind(node.func.value), node.func.attr
            made = self.class_of(name) if kind == "aiplatform" else ""
            return made or GIVES.get(f"{kind}.{name}", kind if kind != "aiplatform" else "")
        if isinstance(node, ast.Call):
            return self.kind(node.func).removesuffix("()")
        return ""

    def visit_Call(self, node: ast.Call) -> None:
        """A call of the library, or of a client of a service."""
        self.generic_visit(node)
        given = {word.arg: word.value for word in node.keywords if word.arg}
        if (made := self.made(node)) in FOUND_BY_NAME and (node.args or given):
            self.add(FOUND_BY_NAME[made])
        if not isinstance(node.func, ast.Attribute):
            if isinstance(node.func, ast.Name) and self.kinds.get(node.func.id) == "aiplatform":
                self.call("aiplatform", node.func.id, given)
            return
        kind, name = self.kind(node.func.value), node.func.attr
        if kind == "client" or (not kind and re.search(r"\bclients\[", ast.unparse(node.func.value))):
            if (method := _camel(name)) in self.service_of:
                is_automl = self.is_automl and method == "CreateTrainingPipeline"
                self.add(AUTOML if is_automl else method)
            return
        if not kind and name == "predict" and "instances" in given:
            kind = "Endpoint"
        if not kind and name == "deploy" and {"machine_type", "deployed_model_display_name"} & given.keys():
            kind = "Model"
        self.call(kind or BY_ITS_NAME.get(name, ""), name, given)

    def made(self, node: ast.Call) -> str:
        """The class whose constructor is called; empty for other calls."""
        named = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        is_class = named[:1].isupper() and not self.kind(node.func).endswith("()")
        return self.kind(node.func) if is_class else ""

    def call(self, kind: str, name: str, given: dict[str, ast.expr]) -> None:
        """Note the methods of a call of the library."""
        if kind == "aiplatform" and name == "init" and "experiment" in given:
            name = "init(experiment)"
        methods = CALLS.get(f"{kind}.{name}", "")
        if (kind, name) == ("Model", "deploy") and "endpoint" in given:
            methods = methods.removeprefix("CreateEndpoint ")
        if methods:
            self.add(methods)


def methods_of(notebook: dict[str, Any], service_of: dict[str, str]) -> set[str]:
    """The methods that a training notebook calls, as `JobService.CreateCustomJob`, and its behaviours.

    Nothing of a notebook that does not train.
    """
    cells = ["".join(cell["source"]) for cell in notebook.get("cells", ()) if cell["cell_type"] == "code"]
    text = "\n".join(cells)
    own = Program(service_of, text)
    for cell in cells:
        magic, _, rest = cell.lstrip().partition("\n")
        word = magic.removeprefix("%%").split(" ")[0] if magic.startswith("%%") else ""
        if word in ("writefile", "file") and magic.rstrip().endswith(".py"):
            written = Program(service_of, rest)
            visit(written, rest)
            own.found |= written.found
        elif word in ("", *_PYTHON):
            visit(own, python_of(rest if word else cell))
    for group, verb in _GCLOUD.findall(text):
        if (method := gcloud_method(group, verb)) in service_of:
            own.add(method)
    for collection, verb in _REST.findall(text):
        if (method := verb[0].upper() + verb[1:]) in service_of and collection:
            own.add(method)
    if not any(method.partition(".")[2] in TRAINING for method in own.found) and not (
        _KUBEFLOW.search(text) and "PipelineService.CreatePipelineJob" in own.found
    ):
        return set()
    return own.found | {name for name, pattern in BEHAVIOURS.items() if re.search(pattern, text)}


def gcloud_method(group: str, verb: str) -> str:
    """The method of `gcloud ai GROUP VERB`."""
    kind = GCLOUD.get(group, "")
    plural = f"{kind}es" if kind == "Index" else f"{kind}s"
    action = {"describe": "Get", "stream-logs": "Get"}.get(verb, verb.capitalize())
    return GCLOUD_VERBS.get(verb) or (f"List{plural}" if verb == "list" else f"{action}{kind}")


def python_of(cell: str) -> str:
    """A cell without the lines that are for a shell or for IPython."""
    kept: list[str] = []
    lines = iter(cell.splitlines())
    for line in lines:
        found = _SHELL.fullmatch(line)
        if found is None or (found[2] and "%" in line and "!" not in line):
            kept.append(line.removesuffix("?") if re.fullmatch(r"[\w.]+\?+", line) else line)
            continue
        kept.append(f"{found[1]}{found[2]} = None" if found[2] else f"{found[1]}pass")
        while line.endswith("\\"):
            line = next(lines, "")
    return "\n".join(kept)


def visit(program: Program, text: str) -> None:
    """Read a piece of Python; of one that is none, the statements before and after the fault."""
    for _ in range(20):
        try:
            program.visit(ast.parse(text))
            return
        except SyntaxError as error:
            lines = text.splitlines()
            if not error.lineno or error.lineno > len(lines):
                return
            lines[error.lineno - 1] = ""
            text = "\n".join(lines)
        except ValueError:
            return


def notebooks(clone: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The notebooks of the newest commit, by path."""
    git = ["git", "-C", str(clone)]
    names = subprocess.check_output([*git, "ls-tree", "-r", "-z", "--name-only", "HEAD"], text=True)
    for name in sorted(names.split("\0")):
        if name.endswith(".ipynb"):
            try:
                yield name, json.loads(subprocess.check_output([*git, "show", f"HEAD:{name}"]))
            except (ValueError, subprocess.CalledProcessError) as error:
                print(f"{name} is not read: {error}", file=sys.stderr)


def main(clones: list[str]) -> None:
    """Print the file."""
    warnings.simplefilter("ignore", SyntaxWarning)
    service_of = services()
    counted: dict[str, dict[str, set[str]]] = defaultdict(dict)
    for repository, _, clone in (argument.partition("=") for argument in clones):
        commit = subprocess.check_output(["git", "-C", clone, "rev-parse", "HEAD"], text=True).strip()
        for name, notebook in notebooks(Path(clone)):
            if methods := methods_of(notebook, service_of):
                counted[f"{repository}@{commit}"][name] = methods
    names = sorted({method for found in counted.values() for methods in found.values() for method in methods})
    rows = {
        source: {
            name: " ".join(str(names.index(one)) for one in sorted(methods))
            for name, methods in found.items()
        }
        for source, found in counted.items()
    }
    json.dump({"methods": names, "notebooks": rows}, sys.stdout, indent=0)
    print()


if __name__ == "__main__":
    main(sys.argv[1:])
