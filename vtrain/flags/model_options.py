"""The options of `vtrain models`, in groups, as `flags/options` has those of all commands."""

from typing import ClassVar

from vtrain.flags.completion import files, models
from vtrain.flags.options import GOOGLE_CLOUD, NameFlag
from vtrain.flags.row import FlagGroup, argument, flag, items, switch

MODEL = "Model"
CONTAINER = "Serving container"
EXPLANATIONS = "Explanations (Vertex AI)"


class UploadFlags(FlagGroup, frozen=True):
    """A version of a model to be uploaded, as `gcloud ai models upload` describes it."""

    heading: ClassVar[str] = MODEL

    display_name: str | None = flag("NAME", "Display name.")
    artifact_uri: str | None = flag(
        "URI", "Folder with the model's files: gs://BUCKET/FOLDER, or a path on local backends.", offer=files
    )
    model_id: str | None = flag("ID", "Id of a new model.")
    parent_model: str | None = flag(
        "MODEL", "Model that gets a new version: its id or full name.", offer=models
    )
    version_aliases: list[str] = items("ALIAS,…", "Names of the version, such as prod,best.")
    description: str | None = flag("TEXT", "Description of the model.")
    version_description: str | None = flag("TEXT", "Description of the version.")
    labels: list[str] = items("KEY=VALUE,…", "Labels, such as team=vision,env=test.")
    container_image_uri: str | None = flag("IMAGE", "Image that answers predictions.", panel=CONTAINER)
    container_command: list[str] = items("WORD,…", "Command, in place of the image's own.", panel=CONTAINER)
    container_args: list[str] = items("WORD,…", "Arguments, in place of the image's own.", panel=CONTAINER)
    container_env_vars: list[str] = items("KEY=VALUE,…", "Environment variables.", panel=CONTAINER)
    container_ports: list[str] = items("PORT,…", "Port for HTTP. Default 8080.", panel=CONTAINER)
    container_grpc_ports: list[str] = items("PORT,…", "Port for gRPC.", panel=CONTAINER)
    container_predict_route: str | None = flag("PATH", "Path that takes predictions.", panel=CONTAINER)
    container_health_route: str | None = flag("PATH", "Path that takes health checks.", panel=CONTAINER)
    container_deployment_timeout_seconds: str | None = flag(
        "SECONDS", "Longest wait for its health.", panel=CONTAINER
    )
    container_shared_memory_size_mb: str | None = flag("MB", "Shared memory.", panel=CONTAINER)
    container_startup_probe_exec: list[str] = items(
        "WORD,…", "Command that probes its start.", panel=CONTAINER
    )
    container_startup_probe_period_seconds: str | None = flag(
        "SECONDS", "Time between probes.", panel=CONTAINER
    )
    container_startup_probe_timeout_seconds: str | None = flag(
        "SECONDS", "Time for a probe.", panel=CONTAINER
    )
    container_health_probe_exec: list[str] = items(
        "WORD,…", "Command that probes its health.", panel=CONTAINER
    )
    container_health_probe_period_seconds: str | None = flag(
        "SECONDS", "Time between probes.", panel=CONTAINER
    )
    container_health_probe_timeout_seconds: str | None = flag("SECONDS", "Time for a probe.", panel=CONTAINER)
    explanation_method: str | None = flag(
        "METHOD", "integrated-gradients, xrai or sampled-shapley.", panel=EXPLANATIONS
    )
    explanation_metadata_file: str | None = flag(
        "FILE", "JSON that describes inputs and outputs.", panel=EXPLANATIONS
    )
    explanation_step_count: str | None = flag(
        "COUNT", "Steps to approximate the integral.", panel=EXPLANATIONS
    )
    explanation_path_count: str | None = flag("COUNT", "Permutations for Shapley values.", panel=EXPLANATIONS)
    smooth_grad_noise_sigma: str | None = flag("NUMBER", "Noise added to all features.", panel=EXPLANATIONS)
    smooth_grad_noise_sigma_by_feature: list[str] = items(
        "KEY=VALUE,…", "Noise added to each feature.", panel=EXPLANATIONS
    )
    smooth_grad_noisy_sample_count: str | None = flag("COUNT", "Samples of the gradient.", panel=EXPLANATIONS)


class ModelNameFlag(NameFlag, frozen=True):
    """The name of a model, or of a version of it."""

    model: str = argument(
        "MODEL",
        "Id or projects/PROJECT/locations/REGION/models/ID; ID@VERSION or ID@ALIAS is a version.",
        offer=models,
    )


class ModelVersionFlag(NameFlag, frozen=True):
    """The name of a version of a model."""

    model_version: str = argument(
        "MODEL_VERSION", "ID@VERSION or ID@ALIAS, or the full name with either.", offer=models
    )


class ModelCopyFlags(FlagGroup, frozen=True):
    """The model that is copied, and its new place; `--region` names the region."""

    heading: ClassVar[str] = MODEL

    source_model: str | None = flag("MODEL", "Model or version to copy: its id or full name.", offer=models)
    destination_model_id: str | None = flag("ID", "Id of the new model.")
    destination_parent_model: str | None = flag("MODEL", "Model that gets a new version.", offer=models)
    kms_key_name: str | None = flag("KEY", "Cloud KMS key.", panel=GOOGLE_CLOUD)


class PredictFlags(FlagGroup, frozen=True):
    """The request of a prediction, and the consent to run a foreign model."""

    heading: ClassVar[str] = "Prediction"

    json_request: str | None = flag(
        "FILE", 'JSON of the request, {"instances": […]}; - is standard input.', offer=files
    )
    trust: bool = switch("Run a model that another user may have made: its files may hold code.")
