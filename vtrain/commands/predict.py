"""`vtrain models predict`: one prediction of a model, on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from vtrain.atomic import scratch_folder
from vtrain.backends.model_interface import ServingOrder
from vtrain.backends.registry import find_backend
from vtrain.commands.models import find_model
from vtrain.commands.session import Session, Target, open_named
from vtrain.core.compose import Images
from vtrain.core.config_file import origin_of, read_text
from vtrain.errors import ConfigError, NotFoundError, UnavailableError, UsageError
from vtrain.flags.model_options import ModelNameFlag, PredictFlags
from vtrain.flags.options import CommonFlags, NewestFlag, PlaceFlags
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.model import Model, ModelContainerSpec
from vtrain.messages.names import LOCAL_PROJECT, parse_name
from vtrain.runtime.serving import serving_contract
from vtrain.runtime.serving.artifacts import foreign_part
from vtrain.runtime.serving.model_server import FILES
from vtrain.runtime.serving.prediction_images import prediction_image
from vtrain.sizes import size_in_words
from vtrain.staging import LocalBuckets, file_uri, join_uri

FLAG = "--json-request"
PREDICTIONS = "predictions"


def predict(model: ModelNameFlag, spec: PredictFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """Serve a version of a model, ask it once, and print its predictions."""
    request = read_request(spec.json_request)
    target, name = _find(model, place, common)
    registry = target.backend.open_models(
        msgspec.structs.replace(target.settings, tell=target.console.progress)
    )
    found = registry.get_model(name)
    with scratch_folder(target.settings.home) as scratch:
        if not target.backend.is_local:
            _check_trust(
                spec, f"anyone who can write to {found.artifact_uri or 'it'} decides what runs here."
            )
        order = _order(found, registry.fetch_artifacts(found, scratch / "model"), scratch)
        if order.artifacts is not None and target.backend.is_local:
            _check_trust(spec, foreign_part(order.artifacts))
        here = target if target.backend.is_local else target.here(place.backend)
        session = here.open(_images(found))
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


def predict_job(job: NewestFlag, spec: PredictFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """Serve the model that a job has written, in the versions that it ran with, and ask it once."""
    request = read_request(spec.json_request)
    session, name = open_named(common, place, job.text)
    if not session.is_local:
        raise UnavailableError(
            "Only a job of this machine is asked without an upload.",
            hint="Keep its model, and ask that: vtrain models upload --help",
        )
    found = session.jobs.get(name)
    assert isinstance(found, CustomJob)
    output = found.job_spec.output_uri
    uri = join_uri(output, "model") if output else ""
    folder = LocalBuckets(session.settings.home).local_path(uri) if uri else Path()
    known = [(family, file) for family, files in FILES.items() for file in files]
    family = next((family for family, file in known if uri and (folder / file).exists()), "")
    if not family:
        names = sorted({file for _, file in known})
        raise NotFoundError(
            f"The job has written no model that can be served: {', '.join(names)}.",
            hint=f"A trainer saves its model in the folder that AIP_MODEL_DIR names: here {folder}."
            if uri
            else "",
        )
    _check_trust(spec, foreign_part(folder))
    image = ModelContainerSpec(image_uri=_SERVED_BY[family])
    model = Model(name=name, display_name=found.display_name, artifact_uri=uri, container_spec=image)
    serving = msgspec.structs.replace(session, backend=find_backend("process"))
    with scratch_folder(session.settings.home) as scratch:
        order = ServingOrder(model=model, artifacts=folder, scratch=scratch, job=name)
        predictions = _ask(serving, order, request)
    answer = {PREDICTIONS: predictions, "job": name, "displayName": found.display_name}
    session.console.result(answer, _default_format(predictions))


_SERVED_BY = {
    family: f"us-docker.pkg.dev/vertex-ai/prediction/{name}:latest"
    for family, name in {
        "sklearn": "sklearn-cpu.1-6",
        "xgboost": "xgboost-cpu.2-1",
        "tf": "tf2-cpu.2-15",
        "pytorch": "pytorch-cpu.2-4",
    }.items()
}
"""Images by whose rules the files of a family are served."""


def read_request(text: str | None) -> dict[str, Any]:
    """The request, itself or in a file; `-` is standard input. Raises ConfigError for anything else."""
    if text is None:
        raise UsageError(f"{FLAG}=FILE must be given.", hint=f"For example: {FLAG}='{_REQUEST}'")
    is_itself = text.lstrip().startswith(("{", "["))
    origin = "the text" if is_itself else origin_of(text)
    try:
        request = json.loads(text if is_itself else read_text(text, FLAG))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{FLAG}: {origin} is no JSON: {error}.", hint=_EXAMPLE) from error
    if not isinstance(request, dict) or "instances" not in request:
        raise ConfigError(f'{FLAG}: {origin} is no JSON object with "instances".', hint=_EXAMPLE)
    if not isinstance(request["instances"], list):
        raise ConfigError(f'{FLAG}: "instances" in {origin} is no list.', hint=_EXAMPLE)
    if not request["instances"]:
        raise ConfigError(f'{FLAG}: "instances" in {origin} is empty.', hint=_EXAMPLE)
    return request


_REQUEST = '{"instances": [[1.0, 2.0], [3.0, 4.0]]}'
_EXAMPLE = f"Write {_REQUEST}: a list with one item per prediction."


def _find(model: ModelNameFlag, place: PlaceFlags, common: CommonFlags) -> tuple[Target, str]:
    """The target with the model's registry, and its full name.

    For a model of Vertex AI `--backend` names the backend that serves it, not that of its registry.
    """
    full = parse_name(model.text.partition("@")[0])
    if full is not None and full.project != LOCAL_PROJECT:
        place = msgspec.structs.replace(place, backend="")
    return find_model(model, place, common)


def _check_trust(spec: PredictFlags, reason: str) -> None:
    """Raise ConfigError for a model that somebody else may have made, unless the user trusts them."""
    if reason and not spec.trust:
        raise ConfigError(
            f"The model may be somebody else's, and its files may hold code that runs as you: {reason}",
            hint="If you trust who made it, add --trust.",
        )


def _order(model: Model, artifacts: Path | None, scratch: Path) -> ServingOrder:
    """The order to serve it, with its files where they are now."""
    full = parse_name(model.name)
    if artifacts is not None and (full is None or full.project != LOCAL_PROJECT):
        model = msgspec.structs.replace(model, artifact_uri=file_uri(artifacts))
    return ServingOrder(model=model, artifacts=artifacts, scratch=scratch)


def _images(model: Model) -> Images:
    """The images that decide on the backend: a process can stand in for a pre-built one."""
    image = model.container_spec.image_uri if model.container_spec is not None else ""
    if prediction_image(image):
        return Images(executors=(image,))
    return Images(containers=(image,) if image else ())


def _ask(session: Session, order: ServingOrder, request: dict[str, Any]) -> list[Any]:
    """The predictions of a server that runs for this question alone."""
    if len(json.dumps(request).encode()) > serving_contract.LARGEST_REQUEST:
        limit = size_in_words(serving_contract.LARGEST_REQUEST)
        session.console.warn(f"The request is larger than {limit}: Vertex AI would refuse it.")
    route = serving_contract.served(order.model, "")
    settings = msgspec.structs.replace(session.settings, tell=session.console.tell)
    with session.backend.model_serving(settings).serve(order) as server:
        session.console.progress("Waiting for the model to load …")
        seconds = serving_contract.start_seconds(order.model)
        serving_contract.await_health(
            server.address, route.health_route, seconds, server.failure, session.console.progress
        )
        predictions = serving_contract.ask(server.address, route.predict_route, request)
        if said := server.remarks():
            end = "\n" if "\n" in said else " "
            session.console.warn(f"The model's server wrote:{end}{said}")
        return predictions


def _default_format(predictions: list[Any]) -> str:
    """The format that gcloud prints predictions in."""
    if predictions and isinstance(predictions[0], dict):
        keys = ", ".join(sorted(predictions[0]))
        return f'table({PREDICTIONS}:format="table({keys})")'
    return f"table[no-heading]({PREDICTIONS})"
