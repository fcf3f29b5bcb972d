"""`vtrain models`: the versions of trained models, here and on Vertex AI; predictions are in `predict`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from vtrain.backends import Query
from vtrain.backends.model_interface import ModelRegistryBackend
from vtrain.backends.pager import pages
from vtrain.backends.registry import find_backend, is_choice
from vtrain.commands.job_lists import query_all
from vtrain.commands.selection import show_list
from vtrain.commands.session import (
    Session,
    Target,
    find_target,
    open_session,
    resource_document,
    sent_document,
    wish_of,
)
from vtrain.core.config_file import read_text
from vtrain.core.references import LAST, shown_name
from vtrain.core.target import full_name
from vtrain.errors import ConfigError, NotFoundError, ServiceError, UsageError
from vtrain.flags.model_options import (
    GRADIENTS,
    ModelCopyFlags,
    ModelNameFlag,
    ModelVersionFlag,
    UploadFlags,
)
from vtrain.flags.options import CommonFlags, DryRunFlag, ListFlags, NameFlag, PlaceFlags
from vtrain.flags.row import fields_of
from vtrain.messages.codec import read_message
from vtrain.messages.model import Model, ModelPage, ModelTarget
from vtrain.messages.names import MODEL, parse_name
from vtrain.messages.structs import Operation
from vtrain.retry import wait_until
from vtrain.runtime.model_registry import ModelRegistry
from vtrain.settings import find_region, given_backend, home_folder, user_path
from vtrain.staging import file_uri

MODEL_TABLE = "table(name.basename():label=MODEL_ID, displayName)"
VERSION_TABLE = "table(name.basename():label=MODEL_ID, versionId, displayName)"
OPERATION_SECONDS = 1800.0
"""The time that gcloud waits for an upload or a copy."""
FASTEST_SECONDS, SLOWEST_SECONDS = 0.5, 10.0


def upload(spec: UploadFlags, run: DryRunFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Keep a new model, or another version of one."""
    check_required(spec)
    session = open_session(common, place, kind=MODEL)
    model = compose_model(spec)
    if session.is_local and model.artifact_uri and "://" not in model.artifact_uri:
        folder = user_path(model.artifact_uri).resolve()
        model = msgspec.structs.replace(model, artifact_uri=file_uri(folder))
    parent = session.full_name(spec.parent_model, MODEL) if spec.parent_model else ""
    target = ModelTarget(model_id=spec.model_id or "", parent=parent)
    if run.dry_run:
        place_of_it = {"parentModel": target.parent, "modelId": target.model_id}
        named = {name: value for name, value in place_of_it.items() if value}
        session.console.result({**named, "model": sent_document(model, {})}, "yaml")
        return
    registry = session.models
    _show_made(session, registry, "Uploaded", registry.upload_model(model, target))


def copy(spec: ModelCopyFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """Copy a version to a region, as a new model or as another version of one."""
    if not spec.source_model:
        raise UsageError("--source-model=MODEL must be given.")
    if spec.destination_model_id is not None and spec.destination_parent_model is not None:
        raise UsageError("Give --destination-model-id or --destination-parent-model, not both.")
    session = open_session(common, place, kind=MODEL)
    parent = spec.destination_parent_model
    target = ModelTarget(
        model_id=spec.destination_model_id or "", parent=session.full_name(parent, MODEL) if parent else ""
    )
    base, at, version = spec.source_model.partition("@")
    region = find_region("", local=session.is_local)[0] if parse_name(base) is None else ""
    source = f"{full_name(base, MODEL, project=session.settings.project, location=region)}{at}{version}"
    registry = session.models
    _show_made(session, registry, "Copied", registry.copy_model(source, target, spec.kms_key_name or ""))


def list_models(listing: ListFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """List models, each by its default version."""
    session = open_session(common, place, kind=MODEL)
    _show(session, listing, session.models.list_models, query_all(session, MODEL), MODEL_TABLE)


def list_version(model: ModelNameFlag, listing: ListFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """List the versions of a model."""
    session, name = open_model(model, place, common)
    ask = partial(session.models.list_model_versions, name.partition("@")[0])
    _show(session, listing, ask, Query(collection=MODEL.collection), VERSION_TABLE)


def describe(model: ModelNameFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Print one version of a model: the default one, where none is named."""
    session, name = open_model(model, place, common)
    session.console.result(resource_document(session.models.get_model(name)), "yaml")


def delete(model: ModelNameFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Remove a model with all its versions."""
    session, name = open_model(model, place, common, only_one=True)
    _show_deleted(session, name, session.models.delete_model(name))


def delete_version(model: ModelVersionFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Remove one version of a model."""
    session, name = open_model(model, place, common, only_one=True)
    _show_deleted(session, name, session.models.delete_model_version(name))


def open_model(
    model: NameFlag, place: PlaceFlags, common: CommonFlags, *, only_one: bool = False
) -> tuple[Session, str]:
    """The session of a command about a model, and the model's full name, with the version that it has."""
    target, name = find_model(model, place, common, only_one=only_one)
    return target.open(), name


def find_model(
    model: NameFlag, place: PlaceFlags, common: CommonFlags, *, only_one: bool = False
) -> tuple[Target, str]:
    """The target of a command about a model, and its full name. Raises ConfigError for what is none.

    A model of this machine is also named by its display name, or `@last`: of several the newest is meant, or
    ConfigError is raised where it may be `only_one`.
    """
    base, at, version = (LAST, "", "") if model.text == LAST else model.text.partition("@")
    if at and not re.fullmatch("[A-Za-z0-9-]+", version):
        raise ConfigError(f"{model.text!r} names no version.", hint="Write ID@VERSION or ID@ALIAS.")
    named = _named_here(base, place, common)
    if len(named) > 1 and only_one:
        names = [f"vtrain {MODEL.group} describe {each.name}" for each in named]
        raise ConfigError(f"{len(named)} models are called {base}.", hint="\n".join(["Name one:", *names]))
    base = named[0].name if named else base
    target = find_target(common, place, name=base, kind=MODEL)
    if len(named) > 1:
        called = model.text.partition("@")[0]
        target.console.status(f"{len(named)} models are called {called}; this is the newest: {base}")
    project, location = target.settings.project, target.settings.region
    return target, f"{full_name(base, MODEL, project=project, location=location)}{at}{version}"


def _named_here(word: str, place: PlaceFlags, common: CommonFlags) -> list[Model]:
    """The models of this machine that a word means, unless it is an id: the newest first.

    Raises NotFoundError for the newest where there is none.
    """
    chosen = given_backend(place.backend)
    is_elsewhere = chosen is not None and not (is_choice(chosen.value) or find_backend(chosen.value).is_local)
    if is_elsewhere or not word or "/" in word or wish_of(common, place).names_service:
        return []
    query = Query(collection=MODEL.collection, location=place.region.rpartition("/")[2])
    models = ModelRegistry(home_folder()).list_models(query).models
    if word == LAST:
        if not models:
            raise NotFoundError("There is no model on this machine yet.")
        return [models[0]]
    if any(each.name.endswith(f"/{word}") for each in models):
        return []
    return [each for each in models if each.display_name == word]


def _show(
    session: Session, listing: ListFlags, ask: Callable[[Query], ModelPage], query: Query, table: str
) -> None:
    """List what is on all pages, and warn of damaged entries."""
    damaged: list[str] = []

    def documents() -> Iterator[dict[str, Any]]:
        for page in pages(ask, query):
            damaged.extend(page.damaged)
            yield from map(resource_document, page.models)

    show_list(session.console, listing, documents(), default=table, uri_of=session.uri_of)
    if damaged:
        session.console.warn(f"Entries in the store are damaged, and not listed: {', '.join(damaged)}.")


def _show_made(session: Session, registry: ModelRegistryBackend, done: str, operation: Operation) -> None:
    """Wait for the version, say what it is called, and print the answer in `--format`."""
    if not operation.done:
        session.console.status(f"Waiting for operation [{operation.name.rpartition('/')[2]}] …")
    response = _finished(registry, operation).response or {}
    name, version = shown_name(response.get("model", "")), response.get("modelVersionId", "")
    session.console.status(f"{done} {MODEL.noun} [{name}], version {version}.")
    session.console.progress(f"\n$ vtrain {MODEL.group} describe {name}@{version}\n")
    session.console.result({key: value for key, value in response.items() if key != "@type"})


def _finished(registry: ModelRegistryBackend, operation: Operation) -> Operation:
    """The operation once it is done. Raises ServiceError where it failed, or takes too long."""

    def is_done() -> bool:
        nonlocal operation
        if not operation.done:
            operation = registry.get_operation(operation)
        return operation.done

    if not wait_until(is_done, OPERATION_SECONDS, FASTEST_SECONDS, longest=SLOWEST_SECONDS):
        raise ServiceError(f"{operation.name} is not done after {math.ceil(OPERATION_SECONDS / 60)} minutes.")
    if operation.error is not None:
        raise ServiceError(operation.error.message or "The operation failed.")
    return operation


def _show_deleted(session: Session, name: str, operation: Operation) -> None:
    """Say whether it is gone already, and print the operation in `--format`."""
    noun = f"{MODEL.noun} [{name}]"
    session.console.status(
        f"Deleted {noun}." if operation.done else f"{noun} is being deleted: {operation.name}"
    )
    session.console.result(resource_document(operation))


# the version that flags describe, by the rules of `gcloud ai models upload`


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
