"""Make a model of flags, by the rules of `gcloud ai models upload`."""

from __future__ import annotations

import json
from typing import Any

from vtrain.core.config_file import read_text
from vtrain.errors import ConfigError, UsageError
from vtrain.flags.model_options import GRADIENTS, UploadFlags
from vtrain.flags.row import fields_of
from vtrain.messages.codec import read_message
from vtrain.messages.model import Model

_SHAPLEY = "sampledShapleyAttribution"
METHODS = {
    "integrated-gradients": (GRADIENTS, GRADIENTS),
    "xrai": ("xraiAttribution", GRADIENTS),
    "sampled-shapley": (_SHAPLEY, _SHAPLEY),
}
"""The field of each method, and the one that its flags set."""


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
    given = document.pop("explanationSpec", {}).get("parameters", {})
    method = (flags.explanation_method or "").lower()
    if method and method not in METHODS:
        raise UsageError(f"--explanation-method: expected one of {', '.join(METHODS)}, found {method!r}.")
    if method:  # without one gcloud uses none of the other flags
        field, source = METHODS[method]
        parameters = given.get(source, {})
        if len(parameters.get("smoothGradConfig", {}).keys() - {"noisySampleCount"}) > 1:
            noise = "--smooth-grad-noise-sigma"
            raise UsageError(f"Give {noise} or {noise}-by-feature, not both.")
        metadata = _metadata(flags.explanation_metadata_file)
        document["explanationSpec"] = {"parameters": {field: parameters}}
        document["explanationSpec"] |= {"metadata": metadata} if metadata else {}
    return read_message(Model, document)


def _metadata(path: str | None) -> dict[str, Any]:
    if not path:
        return {}
    try:
        found = json.loads(read_text(path, "--explanation-metadata-file"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--explanation-metadata-file: {path} is no JSON: {error}.") from error
    if not isinstance(found, dict):
        raise ConfigError(f"--explanation-metadata-file: {path} holds no JSON object.")
    return found
