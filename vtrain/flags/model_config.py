"""Make a model of flags, by the rules of `gcloud ai models upload`."""

from __future__ import annotations

import json

from vtrain.core.config_file import read_text
from vtrain.core.job_layers import Document
from vtrain.errors import ConfigError, UsageError
from vtrain.flags.model_options import UploadFlags
from vtrain.flags.row import fields_of
from vtrain.messages.codec import read_message
from vtrain.messages.model import Model

METHODS = {
    "integrated-gradients": "integratedGradientsAttribution",
    "xrai": "xraiAttribution",
    "sampled-shapley": "sampledShapleyAttribution",
}
"""The ways of explaining a prediction, and the fields of the parameters that each has."""


def check_required(flags: UploadFlags) -> None:
    """Raise UsageError where a flag is missing that gcloud demands."""
    needed = {"--container-image-uri": flags.container_image_uri, "--display-name": flags.display_name}
    missing = [flag for flag, value in needed.items() if value is None]
    if missing:
        raise UsageError(f"{' and '.join(missing)} must be given.")
    if flags.model_id is not None and flags.parent_model is not None:
        raise UsageError("--model-id is for a new model, and --parent-model names one that is there.")


def compose_model(flags: UploadFlags) -> Model:
    """The version that flags describe.

    Raises UsageError where a flag does not parse, ConfigError for a file that cannot be read.
    """
    document = fields_of(flags)
    explanation = _explanation(flags, document.pop("explanation", {}))
    return read_message(Model, document | ({"explanationSpec": explanation} if explanation else {}))


def _explanation(flags: UploadFlags, given: Document) -> Document:
    """The ExplanationSpec; empty without a method, as gcloud then uses none of its flags."""
    method = (flags.explanation_method or "").lower()
    if not method:
        return {}
    if method not in METHODS:
        raise UsageError(f"--explanation-method: expected one of {', '.join(METHODS)}, found {method!r}.")
    is_shapley = method == "sampled-shapley"
    settings = {name: value for name, value in given.items() if (name == "pathCount") == is_shapley}
    if settings.get("smoothGradConfig", {}).keys() >= {"noiseSigma", "featureNoiseSigma"}:
        raise UsageError("Give --smooth-grad-noise-sigma or --smooth-grad-noise-sigma-by-feature, not both.")
    parameters = {METHODS[method]: settings} if settings else {}
    metadata = _metadata(flags.explanation_metadata_file)
    return {name: value for name, value in (("metadata", metadata), ("parameters", parameters)) if value}


def _metadata(path: str | None) -> Document:
    if not path:
        return {}
    try:
        found = json.loads(read_text(path, "--explanation-metadata-file"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--explanation-metadata-file: {path} is no JSON: {error}.") from error
    if not isinstance(found, dict):
        raise ConfigError(f"--explanation-metadata-file: {path} holds no JSON object.")
    return found
