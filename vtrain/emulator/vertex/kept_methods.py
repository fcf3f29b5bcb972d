"""The methods of resources that are kept: TensorBoards, datasets, and the metadata of experiments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vtrain.emulator.vertex.datasets import Datasets
from vtrain.emulator.vertex.ml_metadata import MlMetadata, Nodes
from vtrain.emulator.vertex.stored_resources import StoredResources
from vtrain.emulator.vertex.tensorboards import Tensorboards
from vtrain.emulator.vertex.training_service import TrainingService
from vtrain.emulator.vertex.vertex_call import (
    OPERATION,
    WHOLE,
    Document,
    Handler,
    Method,
    VertexCall,
    of_part,
)

_PAGE = ("pageSize", "pageToken")
_FOUND = ("filter", *_PAGE, "orderBy")
Part = Callable[[TrainingService], StoredResources[Any]]


def _life(
    noun: str,
    part: Part,
    *,
    created: tuple[str, ...] = (),
    reads: tuple[str, ...] = (),
    lists: tuple[str, ...] = (*_FOUND, "readMask"),
    deleted: tuple[str, ...] = (),
    is_slow: bool = False,
    delete: Handler | None = None,
) -> tuple[Method, ...]:
    """The methods that make, find, list and remove a resource.

    `created`, `reads`, `lists` and `deleted` are fields of their requests. With `is_slow` a creation is an
    operation, as each removal is.
    """
    field, plural = _field(noun), noun if noun.endswith("s") else f"{noun}s"
    create = of_part(part, StoredResources.create if is_slow else StoredResources.create_at_once)
    find, page = of_part(part, StoredResources.get), of_part(part, StoredResources.list_page)
    delete = delete or of_part(part, StoredResources.delete)
    return (
        Method(f"Create{noun}", "POST", "", create, OPERATION if is_slow else noun, field, created),
        Method(f"Get{noun}", "GET", "*", find, noun, fields=reads),
        Method(f"List{plural}", "GET", "", page, f"List{plural}Response", fields=lists),
        Method(f"Delete{noun}", "DELETE", "*", delete, OPERATION, fields=deleted),
    )


def _update(noun: str, handler: Handler, *more: str, answer: str = "") -> Method:
    fields = ("updateMask", *more)
    return Method(f"Update{noun}", "PATCH", "*", handler, answer or noun, _field(noun), fields)


def _field(noun: str) -> str:
    return noun[0].lower() + noun[1:]


# TensorBoards and datasets


def _boards(handler: Callable[[Tensorboards, VertexCall], Document]) -> Handler:
    return of_part(lambda service: service.tensorboards, handler)


def _part_of_board(noun: str, part: Part) -> tuple[Method, ...]:
    update = _update(noun, of_part(part, StoredResources.update))
    return (*_life(noun, part, created=(f"{_field(noun)}Id",)), update)


def _board(service: TrainingService) -> StoredResources[Any]:
    return service.tensorboards.boards


def _datasets(service: TrainingService) -> Datasets:
    return service.datasets


TENSORBOARD_METHODS = (
    *_life("Tensorboard", _board, is_slow=True),
    _update("Tensorboard", of_part(_board, StoredResources.update_slowly), answer=OPERATION),
    Method(
        "BatchReadTensorboardTimeSeriesData",
        "GET",
        "*:batchRead",
        _boards(Tensorboards.read_several),
        "BatchReadTensorboardTimeSeriesDataResponse",
        fields=("timeSeries",),
        named="tensorboard",
    ),
)
TENSORBOARD_EXPERIMENT_METHODS = (
    *_part_of_board("TensorboardExperiment", lambda service: service.tensorboards.experiments),
    Method(
        "BatchCreateTensorboardTimeSeries",
        "POST",
        "*:batchCreate",
        _boards(Tensorboards.create_series),
        "BatchCreateTensorboardTimeSeriesResponse",
        WHOLE,
        ("requests",),
        named="parent",
    ),
    Method(
        "WriteTensorboardExperimentData",
        "POST",
        "*:write",
        _boards(Tensorboards.write_experiment),
        "WriteTensorboardExperimentDataResponse",
        WHOLE,
        ("writeRunDataRequests",),
        named="tensorboardExperiment",
    ),
)
TENSORBOARD_RUN_METHODS = (
    *_part_of_board("TensorboardRun", lambda service: service.tensorboards.runs),
    Method(
        "BatchCreateTensorboardRuns",
        "POST",
        ":batchCreate",
        _boards(Tensorboards.create_runs),
        "BatchCreateTensorboardRunsResponse",
        WHOLE,
        ("requests",),
    ),
    Method(
        "WriteTensorboardRunData",
        "POST",
        "*:write",
        _boards(Tensorboards.write_run),
        "WriteTensorboardRunDataResponse",
        WHOLE,
        ("timeSeriesData",),
        named="tensorboardRun",
    ),
)
TIME_SERIES_METHODS = (
    *_part_of_board("TensorboardTimeSeries", lambda service: service.tensorboards.series),
    Method(
        "ReadTensorboardTimeSeriesData",
        "GET",
        "*:read",
        _boards(Tensorboards.read),
        "ReadTensorboardTimeSeriesDataResponse",
        fields=("maxDataPoints", "filter"),
        named="tensorboardTimeSeries",
    ),
    Method(
        "ExportTensorboardTimeSeriesData",
        "POST",
        "*:exportTensorboardTimeSeries",
        _boards(Tensorboards.export),
        "ExportTensorboardTimeSeriesDataResponse",
        WHOLE,
        _FOUND,
        named="tensorboardTimeSeries",
    ),
)
DATASET_METHODS = (
    *_life("Dataset", _datasets, reads=("readMask",), is_slow=True),
    _update("Dataset", of_part(_datasets, StoredResources.update)),
    Method(
        "ImportData",
        "POST",
        "*:import",
        of_part(_datasets, Datasets.import_data),
        OPERATION,
        WHOLE,
        ("importConfigs",),
    ),
    Method(
        "ExportData",
        "POST",
        "*:export",
        of_part(_datasets, Datasets.export_data),
        OPERATION,
        WHOLE,
        ("exportConfig",),
    ),
)

# metadata


def _metadata(handler: Callable[[MlMetadata, VertexCall], Document]) -> Handler:
    return of_part(lambda service: service.metadata, handler)


def _node(noun: str, part: Callable[[TrainingService], Nodes[Any]], *deleted: str) -> tuple[Method, ...]:
    """The life of a context, an execution or an artifact."""
    return (
        *_life(
            noun,
            part,
            created=(f"{_field(noun)}Id",),
            lists=_FOUND,
            deleted=("etag", *deleted),
            delete=_metadata(MlMetadata.delete),
        ),
        Method(
            f"Purge{noun}s",
            "POST",
            ":purge",
            _metadata(MlMetadata.purge),
            OPERATION,
            WHOLE,
            ("filter", "force"),
        ),
        _update(noun, of_part(part, Nodes.update), "allowMissing"),
    )


def _action(
    verb: str, rpc: str, handler: Callable[[MlMetadata, VertexCall], Document], named: str, *fields: str
) -> Method:
    """A method whose action has its name."""
    answer, body = ("LineageSubgraph", "") if verb == "GET" else (f"{rpc}Response", WHOLE)
    return Method(rpc, verb, f"*:{_field(rpc)}", _metadata(handler), answer, body, fields, named)


STORE_METHODS = _life(
    "MetadataStore",
    lambda service: service.metadata.stores,
    created=("metadataStoreId",),
    lists=_PAGE,
    deleted=("force",),
    is_slow=True,
)
CONTEXT_METHODS = (
    *_node("Context", lambda service: service.metadata.contexts, "force"),
    _action(
        "POST",
        "AddContextArtifactsAndExecutions",
        MlMetadata.add_members,
        "context",
        "artifacts",
        "executions",
    ),
    _action("POST", "AddContextChildren", MlMetadata.add_children, "context", "childContexts"),
    _action("POST", "RemoveContextChildren", MlMetadata.remove_children, "context", "childContexts"),
    _action("GET", "QueryContextLineageSubgraph", MlMetadata.query_context, "context"),
)
EXECUTION_METHODS = (
    *_node("Execution", lambda service: service.metadata.executions),
    _action("POST", "AddExecutionEvents", MlMetadata.add_events, "execution", "events"),
    _action("GET", "QueryExecutionInputsAndOutputs", MlMetadata.query_inputs_and_outputs, "execution"),
)
ARTIFACT_METHODS = (
    *_node("Artifact", lambda service: service.metadata.artifacts),
    _action(
        "GET", "QueryArtifactLineageSubgraph", MlMetadata.query_artifact, "artifact", "maxHops", "filter"
    ),
)
SCHEMA_METHODS = _life(
    "MetadataSchema",
    lambda service: service.metadata.schemas,
    created=("metadataSchemaId",),
    lists=("filter", *_PAGE),
)[:-1]
"""Without a removal, which the API does not have."""
