"""`vtrain models predict`: one prediction of a model, on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from vtrain.backends.models import ServingOrder
from vtrain.commands.registered_models import find_model
from vtrain.commands.session import Session
from vtrain.errors import ConfigError, UsageError
from vtrain.flags.compose import Images
from vtrain.flags.input_files import origin_of, read_text
from vtrain.flags.model_options import ModelNameFlag, PredictFlags
from vtrain.flags.options import CommonFlags, PlaceFlags
from vtrain.messages.model import Model
from vtrain.messages.names import LOCAL_PROJECT, parse_name
from vtrain.runtime.serving import contract
from vtrain.runtime.serving.artifacts import check_artifacts, foreign_part
from vtrain.runtime.serving.prediction_images import prediction_image
from vtrain.sizes import size_in_words

FLAG = "--json-request"
PREDICTIONS = "predictions"


def predict(model: ModelNameFlag, spec: PredictFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """Serve a version of a model, ask it once, and print its predictions."""
    if spec.json_request is None:
        raise UsageError(f"{FLAG}=FILE must be given.")
    request = read_request(spec.json_request)
    target, name = find_model(model, place, common)
    found = target.backend.open_models(target.settings).get_model(name)
    order = _order(found, target.settings.home, trust=spec.trust)
    session = target.open(_images(found))
    if len(json.dumps(request).encode()) > contract.LARGEST_REQUEST:
        limit = size_in_words(contract.LARGEST_REQUEST)
        session.console.warn(f"The request is larger than {limit}: Vertex AI would refuse it.")
    predictions = _ask(session, order, request)
    if len(predictions) != len(request["instances"]):
        session.console.warn(
            f"The model answered {len(request['instances'])} instances with {len(predictions)} predictions."
        )
    answer = {
        PREDICTIONS: predictions,
        "model": found.name,
        "modelDisplayName": found.display_name,
        "modelVersionId": found.version_id,
    }
    session.console.result(answer, _default_format(predictions))


def read_request(path: str) -> dict[str, Any]:
    """The request in a file; `-` is standard input. Raises ConfigError for what is no request."""
    origin = origin_of(path)
    try:
        request = json.loads(read_text(path, FLAG).removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{FLAG}: {origin} is no JSON: {error}.", hint=_EXAMPLE) from error
    if not isinstance(request, dict) or "instances" not in request:
        raise ConfigError(f'{FLAG}: {origin} is no JSON object with "instances".', hint=_EXAMPLE)
    if not isinstance(request["instances"], list):
        raise ConfigError(f'{FLAG}: "instances" in {origin} is no list.', hint=_EXAMPLE)
    if not request["instances"]:
        raise ConfigError(f'{FLAG}: "instances" in {origin} is empty.', hint=_EXAMPLE)
    return request


_EXAMPLE = 'Write {"instances": [[1.0, 2.0], [3.0, 4.0]]}: a list with one item per prediction.'


def _order(model: Model, home: Path, *, trust: bool) -> ServingOrder:
    """The order to serve it. Raises ConfigError for files that are missing, or another user's."""
    full = parse_name(model.name)
    if full is None or full.project != LOCAL_PROJECT:
        raise ConfigError(
            f"Model {model.name} is not on this machine, and predictions are run here.",
            hint=f"Copy its files, and upload them:\n$ gcloud storage cp -r {model.artifact_uri or 'URI'} .\n"
            "$ vtrain models upload --backend=local --artifact-uri=FOLDER …",
        )
    artifacts = check_artifacts(model, home)
    if artifacts is not None and not trust and (reason := foreign_part(artifacts)):
        raise ConfigError(
            f"The model may be another user's, and its files may hold code that runs as you: {reason}",
            hint="If you trust who made it, add --trust.",
        )
    return ServingOrder(model=model, artifacts=artifacts)


def _images(model: Model) -> Images:
    """What decides where it is served: a process can stand in for a pre-built image."""
    image = model.container_spec.image_uri if model.container_spec is not None else ""
    if prediction_image(image):
        return Images(executors=(image,))
    return Images(containers=(image,) if image else ())


def _ask(session: Session, order: ServingOrder, request: dict[str, Any]) -> list[Any]:
    """The predictions of a server that runs for this question alone."""
    route = contract.served(order.model, "")
    settings = msgspec.structs.replace(session.settings, tell=session.console.tell)
    with session.backend.model_serving(settings).serve(order) as server:
        session.console.progress("Waiting for the model to load …")
        seconds = contract.start_seconds(order.model)
        contract.await_health(server.port, route.health_route, seconds, server.failure)
        predictions = contract.ask(server.port, route.predict_route, request)
        if said := server.remarks():
            session.console.warn(f"The model's server wrote:\n{said}")
        return predictions


def _default_format(predictions: list[Any]) -> str:
    """The format that gcloud prints predictions in."""
    if predictions and isinstance(predictions[0], dict):
        keys = ", ".join(sorted(predictions[0]))
        return f'table({PREDICTIONS}:format="table({keys})")'
    return f"table[no-heading]({PREDICTIONS})"
