"""The options of `vtrain models`, in groups, as `flags/options` has those of all commands."""

from typing import Any, ClassVar

from vtrain.errors import UsageError
from vtrain.flags.completion import files, models
from vtrain.flags.grammar import join_dicts, join_lists, labels, variables, whole_number
from vtrain.flags.options import GOOGLE_CLOUD, NameFlag
from vtrain.flags.row import CLEARS, IGNORED, Empty, FlagGroup, argument, flag, items, switch

MODEL = "Model"
CONTAINER = "Serving container"
LAST_PORT = 65535
EXPLANATIONS = "Explanations (Vertex AI)"
GRADIENTS = "integratedGradientsAttribution"


def _ports(values: list[str], flag: str) -> list[dict[str, int]]:
    """The ports of a container, as messages have them."""
    ports = [whole_number(text, flag) for text in join_lists(values, flag)]
    for port in ports:
        if not 1 <= port <= LAST_PORT:
            raise UsageError(f"{flag}: {port} is no port.", hint=f"A port is a number from 1 to {LAST_PORT}.")
    return [{"containerPort": port} for port in ports]


def _seconds(text: str, flag: str) -> str | None:
    """A duration; 0 leaves it to the service."""
    number = whole_number(text, flag)
    return f"{number}s" if number else None


def _decimal(text: str, flag: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{flag}: expected a number, found {text!r}.") from None


def _noise_by_feature(values: list[str], flag: str) -> dict[str, Any]:
    sigmas = [
        {"name": name, "sigma": _decimal(text, flag)} for name, text in join_dicts(values, flag).items()
    ]
    return {"noiseSigma": sigmas} if sigmas else {}


def _explanation(metavar: str, words: str, to: str, **more: Any) -> Any:
    """A flag about a method of explanations, of which `compose_model` takes those of the one that is used."""
    to = f"explanationSpec.parameters.{to}"
    return flag(metavar, words, **{"panel": EXPLANATIONS, "to": to, "empty": CLEARS} | more)


def _container(metavar: str, words: str, to: str, **more: Any) -> Any:
    """A flag about the serving container, which sets a field of a ModelContainerSpec."""
    return flag(metavar, words, panel=CONTAINER, to=f"containerSpec.{to}", **more)


def _containers(metavar: str, words: str, to: str, *, read: Any = join_lists) -> Any:
    return items(metavar, words, panel=CONTAINER, to=f"containerSpec.{to}", read=read)


class UploadFlags(FlagGroup, frozen=True):
    """A version of a model to be uploaded, as `gcloud ai models upload` describes it."""

    heading: ClassVar[str] = MODEL
    empty: ClassVar[Empty] = IGNORED

    display_name: str | None = flag("NAME", "Display name.", to="displayName")
    artifact_uri: str | None = flag(
        "URI",
        "Folder with the model's files: gs://BUCKET/FOLDER, or a path on local backends.",
        offer=files,
        to="artifactUri",
    )
    model_id: str | None = flag("ID", "Id of a new model.")
    parent_model: str | None = flag(
        "MODEL", "Model that gets a new version: its id or full name.", offer=models
    )
    version_aliases: list[str] = items(
        "ALIAS,…", "Names of the version, such as prod,best.", to="versionAliases", read=join_lists
    )
    description: str | None = flag("TEXT", "Description of the model.", to="description")
    version_description: str | None = flag("TEXT", "Description of the version.", to="versionDescription")
    labels: list[str] = items(
        "KEY=VALUE,…", "Labels, such as team=vision,env=test.", to="labels", read=labels
    )
    container_image_uri: str | None = _container("IMAGE", "Image that answers predictions.", "imageUri")
    container_command: list[str] = _containers("WORD,…", "Command, in place of the image's own.", "command")
    container_args: list[str] = _containers("WORD,…", "Arguments, in place of the image's own.", "args")
    container_env_vars: list[str] = _containers(
        "KEY=VALUE,…", "Environment variables.", "env", read=variables
    )
    container_ports: list[str] = _containers("PORT,…", "Port for HTTP. Default 8080.", "ports", read=_ports)
    container_grpc_ports: list[str] = _containers("PORT,…", "Port for gRPC.", "grpcPorts", read=_ports)
    container_predict_route: str | None = _container("PATH", "Path that takes predictions.", "predictRoute")
    container_health_route: str | None = _container("PATH", "Path that takes health checks.", "healthRoute")
    container_deployment_timeout_seconds: str | None = _container(
        "SECONDS", "Longest wait for its health.", "deploymentTimeout", read=_seconds
    )
    container_shared_memory_size_mb: str | None = _container(
        "MB", "Shared memory.", "sharedMemorySizeMb", read=whole_number
    )
    container_startup_probe_exec: list[str] = _containers(
        "WORD,…", "Command that probes its start.", "startupProbe.exec.command"
    )
    container_startup_probe_period_seconds: str | None = _container(
        "SECONDS", "Time between probes.", "startupProbe.periodSeconds", read=whole_number, empty=CLEARS
    )
    container_startup_probe_timeout_seconds: str | None = _container(
        "SECONDS", "Time for a probe.", "startupProbe.timeoutSeconds", read=whole_number, empty=CLEARS
    )
    container_health_probe_exec: list[str] = _containers(
        "WORD,…", "Command that probes its health.", "healthProbe.exec.command"
    )
    container_health_probe_period_seconds: str | None = _container(
        "SECONDS", "Time between probes.", "healthProbe.periodSeconds", read=whole_number, empty=CLEARS
    )
    container_health_probe_timeout_seconds: str | None = _container(
        "SECONDS", "Time for a probe.", "healthProbe.timeoutSeconds", read=whole_number, empty=CLEARS
    )
    explanation_method: str | None = flag(
        "METHOD", "integrated-gradients, xrai or sampled-shapley.", panel=EXPLANATIONS
    )
    explanation_metadata_file: str | None = flag(
        "FILE", "JSON that describes inputs and outputs.", panel=EXPLANATIONS
    )
    explanation_step_count: str | None = _explanation(
        "COUNT", "Steps to approximate the integral.", f"{GRADIENTS}.stepCount", read=whole_number
    )
    explanation_path_count: str | None = _explanation(
        "COUNT", "Permutations for Shapley values.", "sampledShapleyAttribution.pathCount", read=whole_number
    )
    smooth_grad_noise_sigma: str | None = _explanation(
        "NUMBER", "Noise added to all features.", f"{GRADIENTS}.smoothGradConfig.noiseSigma", read=_decimal
    )
    smooth_grad_noise_sigma_by_feature: list[str] = _explanation(
        "KEY=VALUE,…",
        "Noise added to each feature.",
        f"{GRADIENTS}.smoothGradConfig.featureNoiseSigma",
        read=_noise_by_feature,
        empty=IGNORED,
        default=[],
    )
    smooth_grad_noisy_sample_count: str | None = _explanation(
        "COUNT",
        "Samples of the gradient.",
        f"{GRADIENTS}.smoothGradConfig.noisySampleCount",
        read=whole_number,
    )


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
        "FILE", 'JSON {"instances": […]}, or a file that has it; - is standard input.', offer=files
    )
    trust: bool = switch("Run a model that another user may have made: its files may hold code.")
