"""The methods of the API that are emulated, and which part of the service has each of them.

A part is a class with `SERVICES`: its methods, by the services of gRPC and by the collections that they are
about; and with `MESSAGES`: those that its answers have. It is loaded when it is first asked for something,
with its messages: a program that only trains needs none of what serves models or keeps experiments.

Source of all methods: the `google.api.http` options of the services of `google/cloud/aiplatform/v1`, and of
`google/longrunning/operations.proto`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from vtrain.emulator.vertex.vertex_call import OPERATIONS, Method
from vtrain.messages.names import BATCH_PREDICTION_JOBS, DATASETS, ENDPOINTS, METADATA_STORES, TENSORBOARDS

_TRAINING = "training_service:TrainingService"
_PARTS = {
    BATCH_PREDICTION_JOBS: "batch_predictions:BatchPredictions",
    ENDPOINTS: "endpoints:Endpoints",
    TENSORBOARDS: "tensorboards:Tensorboards",
    DATASETS: "datasets:Datasets",
    METADATA_STORES: "ml_metadata:MlMetadata",
}
"""The parts that have a collection, and all that is below it; `_TRAINING` has all the others."""
SERVICES = {
    "JobService": (_TRAINING, _PARTS[BATCH_PREDICTION_JOBS]),
    "PipelineService": (_TRAINING,),
    "PersistentResourceService": (_TRAINING,),
    "ModelService": (_TRAINING,),
    "EndpointService": (_PARTS[ENDPOINTS],),
    "PredictionService": (_PARTS[ENDPOINTS],),
    "TensorboardService": (_PARTS[TENSORBOARDS],),
    "DatasetService": (_PARTS[DATASETS],),
    "MetadataService": (_PARTS[METADATA_STORES],),
    "Operations": (_TRAINING,),
}
"""The services of gRPC, and the parts that answer each."""


def part_of(collection: str) -> Any:
    """The class of the part that a collection belongs to."""
    return load_part(_PARTS.get(collection.partition("/")[0], _TRAINING))


@cache
def load_part(place: str) -> Any:
    """The class of a part, by `MODULE:CLASS`."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"{__package__}.{module}"), name)


def methods_of(service: str) -> Mapping[str, tuple[Method, ...]]:
    """The methods of a service of gRPC, by the collections that they are about."""
    parts = map(load_part, SERVICES.get(service, ()))
    return {name: methods for part in parts for name, methods in part.SERVICES.get(service, {}).items()}


def pattern_of(parts: Sequence[str]) -> str:
    """The collection of a path below a location, with `*` for ids of parents: `metadataStores/*/contexts`.

    Every resource has operations, which are one collection.
    """
    if parts and parts[-1] == OPERATIONS:
        return OPERATIONS
    return "/".join("*" if index % 2 else part for index, part in enumerate(parts))


def find_method(verb: str, parts: Sequence[str], *, of_one: bool, action: str) -> Method | None:
    """The method of a request of REST; None where it is not emulated."""
    wanted = verb, ("*" if of_one else "") + (f":{action}" if action else "")
    collection = pattern_of(parts)
    services = part_of(collection).SERVICES.values()
    methods = (method for service in services for method in service.get(collection, ()))
    return next((method for method in methods if (method.verb, method.path) == wanted), None)
