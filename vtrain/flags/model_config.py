"""Make a model of flags, by the rules of `gcloud ai models upload`."""

from __future__ import annotations

import json
from typing import Any

from vtrain.core.config_file import read_text
from vtrain.errors import ConfigError, UsageError
from vtrain.flags.grammar import join_dicts, whole_number
from vtrain.flags.model_options import UploadFlags
from vtrain.flags.row import fields_of
from vtrain.messages.codec import read_message
from vtrain.messages.model import Model

Document = dict[str, Any]
METHODS = ("integrated-gradients", "xrai", "sampled-shapley")


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
    if explanation := _explanation(flags):
        document["explanationSpec"] = explanation
    return read_message(Model, document)


def _explanation(flags: UploadFlags) -> Document:
    """The ExplanationSpec; empty without a method, as gcloud then uses none of its flags."""
    method = (flags.explanation_method or "").lower()
    if not method:
        return {}
    if method not in METHODS:
        raise UsageError(f"--explanation-method: expected one of {', '.join(METHODS)}, found {method!r}.")
    parameters: Document
    if method == "sampled-shapley":
        paths = _number(flags.explanation_path_count, "--explanation-path-count")
        parameters = {"sampledShapleyAttribution": _given({"pathCount": paths})}
    else:
        name = "xraiAttribution" if method == "xrai" else "integratedGradientsAttribution"
        steps = _number(flags.explanation_step_count, "--explanation-step-count")
        parameters = {name: _given({"stepCount": steps, "smoothGradConfig": _smooth_grad(flags)})}
    return _given({"metadata": _metadata(flags.explanation_metadata_file), "parameters": parameters})


def _smooth_grad(flags: UploadFlags) -> Document:
    by_feature = join_dicts(flags.smooth_grad_noise_sigma_by_feature, "--smooth-grad-noise-sigma-by-feature")
    if flags.smooth_grad_noise_sigma is not None and by_feature:
        raise UsageError("Give --smooth-grad-noise-sigma or --smooth-grad-noise-sigma-by-feature, not both.")
    features = [
        {"name": name, "sigma": _decimal(text, "--smooth-grad-noise-sigma-by-feature")}
        for name, text in by_feature.items()
    ]
    sigma = flags.smooth_grad_noise_sigma
    return _given(
        {
            "noiseSigma": None if sigma is None else _decimal(sigma, "--smooth-grad-noise-sigma"),
            "featureNoiseSigma": {"noiseSigma": features} if features else None,
            "noisySampleCount": _number(
                flags.smooth_grad_noisy_sample_count, "--smooth-grad-noisy-sample-count"
            ),
        }
    )


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


def _number(text: str | None, flag: str) -> int | None:
    return None if text is None else whole_number(text, flag)


def _decimal(text: str, flag: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{flag}: expected a number, found {text!r}.") from None


def _given(values: Document) -> Document:
    """The fields that have a value."""
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}
