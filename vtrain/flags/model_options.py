"""The options of `vtrain models`, in groups, as `flags/options` has those of all commands."""

from typing import Annotated, ClassVar

from typer import Argument, Option

from vtrain.flags.completion import files, models
from vtrain.flags.options import GOOGLE_CLOUD, FlagGroup, NameFlag

MODEL = "Model"
CONTAINER = "Serving container"
EXPLANATIONS = "Explanations (Vertex AI)"


def _container(name: str, metavar: str, text: str) -> object:
    return Option(name, metavar=metavar, help=text, rich_help_panel=CONTAINER)


def _explanation(name: str, metavar: str, text: str) -> object:
    return Option(name, metavar=metavar, help=text, rich_help_panel=EXPLANATIONS)


class UploadFlags(FlagGroup, frozen=True):
    """A version of a model to be uploaded, as `gcloud ai models upload` describes it."""

    heading: ClassVar[str] = MODEL

    display_name: Annotated[str | None, Option("--display-name", metavar="NAME", help="Display name.")] = None
    artifact_uri: Annotated[
        str | None,
        Option(
            "--artifact-uri",
            metavar="URI",
            help="Folder with the model's files: gs://BUCKET/FOLDER, or a path on local backends.",
            autocompletion=files,
        ),
    ] = None
    model_id: Annotated[str | None, Option("--model-id", metavar="ID", help="Id of a new model.")] = None
    parent_model: Annotated[
        str | None,
        Option(
            "--parent-model",
            metavar="MODEL",
            help="Model that gets a new version: its id or full name.",
            autocompletion=models,
        ),
    ] = None
    version_aliases: Annotated[
        list[str],
        Option("--version-aliases", metavar="ALIAS,…", help="Names of the version, such as prod,best."),
    ] = []
    description: Annotated[
        str | None, Option("--description", metavar="TEXT", help="Description of the model.")
    ] = None
    version_description: Annotated[
        str | None, Option("--version-description", metavar="TEXT", help="Description of the version.")
    ] = None
    labels: Annotated[
        list[str], Option("--labels", metavar="KEY=VALUE,…", help="Labels, such as team=vision,env=test.")
    ] = []
    container_image_uri: Annotated[
        str | None, _container("--container-image-uri", "IMAGE", "Image that answers predictions.")
    ] = None
    container_command: Annotated[
        list[str], _container("--container-command", "WORD,…", "Command, in place of the image's own.")
    ] = []
    container_args: Annotated[
        list[str], _container("--container-args", "WORD,…", "Arguments, in place of the image's own.")
    ] = []
    container_env_vars: Annotated[
        list[str], _container("--container-env-vars", "KEY=VALUE,…", "Environment variables.")
    ] = []
    container_ports: Annotated[
        list[str], _container("--container-ports", "PORT,…", "Port for HTTP. Default 8080.")
    ] = []
    container_grpc_ports: Annotated[
        list[str], _container("--container-grpc-ports", "PORT,…", "Port for gRPC.")
    ] = []
    container_predict_route: Annotated[
        str | None, _container("--container-predict-route", "PATH", "Path that takes predictions.")
    ] = None
    container_health_route: Annotated[
        str | None, _container("--container-health-route", "PATH", "Path that takes health checks.")
    ] = None
    container_deployment_timeout_seconds: Annotated[
        str | None,
        _container("--container-deployment-timeout-seconds", "SECONDS", "Longest wait for its health."),
    ] = None
    container_shared_memory_size_mb: Annotated[
        str | None, _container("--container-shared-memory-size-mb", "MB", "Shared memory.")
    ] = None
    container_startup_probe_exec: Annotated[
        list[str], _container("--container-startup-probe-exec", "WORD,…", "Command that probes its start.")
    ] = []
    container_startup_probe_period_seconds: Annotated[
        str | None, _container("--container-startup-probe-period-seconds", "SECONDS", "Time between probes.")
    ] = None
    container_startup_probe_timeout_seconds: Annotated[
        str | None, _container("--container-startup-probe-timeout-seconds", "SECONDS", "Time for a probe.")
    ] = None
    container_health_probe_exec: Annotated[
        list[str], _container("--container-health-probe-exec", "WORD,…", "Command that probes its health.")
    ] = []
    container_health_probe_period_seconds: Annotated[
        str | None, _container("--container-health-probe-period-seconds", "SECONDS", "Time between probes.")
    ] = None
    container_health_probe_timeout_seconds: Annotated[
        str | None, _container("--container-health-probe-timeout-seconds", "SECONDS", "Time for a probe.")
    ] = None
    explanation_method: Annotated[
        str | None,
        _explanation("--explanation-method", "METHOD", "integrated-gradients, xrai or sampled-shapley."),
    ] = None
    explanation_metadata_file: Annotated[
        str | None,
        _explanation("--explanation-metadata-file", "FILE", "JSON that describes inputs and outputs."),
    ] = None
    explanation_step_count: Annotated[
        str | None, _explanation("--explanation-step-count", "COUNT", "Steps to approximate the integral.")
    ] = None
    explanation_path_count: Annotated[
        str | None, _explanation("--explanation-path-count", "COUNT", "Permutations for Shapley values.")
    ] = None
    smooth_grad_noise_sigma: Annotated[
        str | None, _explanation("--smooth-grad-noise-sigma", "NUMBER", "Noise added to all features.")
    ] = None
    smooth_grad_noise_sigma_by_feature: Annotated[
        list[str],
        _explanation("--smooth-grad-noise-sigma-by-feature", "KEY=VALUE,…", "Noise added to each feature."),
    ] = []
    smooth_grad_noisy_sample_count: Annotated[
        str | None, _explanation("--smooth-grad-noisy-sample-count", "COUNT", "Samples of the gradient.")
    ] = None


class ModelNameFlag(NameFlag, frozen=True):
    """The name of a model, or of a version of it."""

    model: Annotated[
        str,
        Argument(
            metavar="MODEL",
            help="Id or projects/PROJECT/locations/REGION/models/ID; ID@VERSION or ID@ALIAS is a version.",
            autocompletion=models,
        ),
    ]


class ModelVersionFlag(NameFlag, frozen=True):
    """The name of a version of a model."""

    model_version: Annotated[
        str,
        Argument(
            metavar="MODEL_VERSION",
            help="ID@VERSION or ID@ALIAS, or the full name with either.",
            autocompletion=models,
        ),
    ]


class ModelCopyFlags(FlagGroup, frozen=True):
    """The model that is copied, and its new place; `--region` names the region."""

    heading: ClassVar[str] = MODEL

    source_model: Annotated[
        str | None,
        Option(
            "--source-model",
            metavar="MODEL",
            help="Model or version to copy: its id or full name.",
            autocompletion=models,
        ),
    ] = None
    destination_model_id: Annotated[
        str | None, Option("--destination-model-id", metavar="ID", help="Id of the new model.")
    ] = None
    destination_parent_model: Annotated[
        str | None,
        Option(
            "--destination-parent-model",
            metavar="MODEL",
            help="Model that gets a new version.",
            autocompletion=models,
        ),
    ] = None
    kms_key_name: Annotated[
        str | None,
        Option("--kms-key-name", metavar="KEY", help="Cloud KMS key.", rich_help_panel=GOOGLE_CLOUD),
    ] = None


class PredictFlags(FlagGroup, frozen=True):
    """The request of a prediction, and the consent to run a foreign model."""

    heading: ClassVar[str] = "Prediction"

    json_request: Annotated[
        str | None,
        Option(
            "--json-request",
            metavar="FILE",
            help='JSON of the request, {"instances": […]}; - is standard input.',
            autocompletion=files,
        ),
    ] = None
    trust: Annotated[
        bool, Option("--trust", help="Run a model that another user may have made: its files may hold code.")
    ] = False
