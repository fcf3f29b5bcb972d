"""Our messages against the descriptors of google-cloud-aiplatform: when the API grows, they say so."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from lib.api_methods import EMULATED

from vtrain.messages.codec import fields

pytestmark = [pytest.mark.api, pytest.mark.filterwarnings("ignore")]

WELL_KNOWN = {
    "google.protobuf.Duration": "duration",
    "google.protobuf.Timestamp": "string",
    "google.protobuf.Any": "document",
    "google.protobuf.Value": "value",
    "google.protobuf.Struct": "document",
    "google.protobuf.BoolValue": "bool",
    "google.protobuf.Int32Value": "int32",
    **dict.fromkeys(
        (
            f"google.cloud.aiplatform.v1.{name}"
            for name in (
                "ExplanationSpec",
                "DeployedModelRef",
                "Checkpoint",
                "Model.ExportFormat",
                "Model.DataStats",
                "Model.BaseModelSource",
                "Probe.ExecAction",
                "Probe.HttpGetAction",
                "Probe.GrpcAction",
                "Probe.TcpSocketAction",
                "AutoscalingMetricSpec",
                "ClientConnectionConfig",
                "DeployedModel.Status",
                "FasterDeploymentConfig",
                "GenAiAdvancedFeaturesConfig",
                "MetadataStore.DataplexConfig",
                "MetadataStore.MetadataStoreState",
                "PredictRequestResponseLoggingConfig",
                "PrivateEndpoints",
                "PrivateServiceConnectConfig",
                "ResourcesConsumed",
                "SavedQuery",
                "SpeculativeDecodingSpec",
                "TensorboardTimeSeries.Metadata",
                "UnmanagedContainerModel",
                "VertexMultimodalDatasetDestination",
                "VertexMultimodalDatasetSource",
            )
        ),
        "document",
    ),
}
STRING = 9
SCALARS = {1: "double", 3: "int64", 5: "int32", 8: "bool", STRING: "string", 12: "string", 14: "enum"}
"""Kinds by the numbers of `google.protobuf.FieldDescriptorProto.Type`."""


@pytest.fixture(scope="module")
def types() -> Any:
    """The messages of the installed google-cloud-aiplatform."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from google.cloud.aiplatform_v1 import types
    except ImportError as error:
        if os.environ.get("VTRAIN_REQUIRE_API") == "1":
            raise
        pytest.skip(f"google-cloud-aiplatform is not installed ({error}); nox -s api installs it")
    return types


def pairs(
    cls: type[msgspec.Struct], descriptor: Any, seen: set[type]
) -> Iterator[tuple[type[msgspec.Struct], Any]]:
    """Each message below `cls`, once, with its descriptor."""
    if cls in seen:
        return
    seen.add(cls)
    yield cls, descriptor
    theirs = {field.json_name: field for field in descriptor.fields}
    for name, field in fields(cls).items():
        if field.message is not None and name in theirs:
            yield from pairs(field.message, theirs[name].message_type, seen)


def their_field(field: Any) -> tuple[str, str, bool]:
    """Kind, message and repetition of a field, in our words."""
    message = field.message_type
    repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == 3
    if message is None:
        return SCALARS[field.type], "", repeated
    if message.GetOptions().map_entry:
        return "map" if message.fields_by_name["value"].type == STRING else "document", "", False
    if message.full_name in WELL_KNOWN:
        return WELL_KNOWN[message.full_name], "", repeated
    return "message", message.name, repeated


def our_fields(cls: type[msgspec.Struct]) -> dict[str, tuple[str, str, bool]]:
    """The same of a message of ours."""
    return {
        name: (field.kind, field.message.__name__ if field.message else "", field.repeated)
        for name, field in fields(cls).items()
    }


@pytest.mark.parametrize("cls", EMULATED.values(), ids=lambda cls: cls.__name__)
def test_every_field_of_the_api_is_ours_and_none_is_invented(types: Any, cls: type[msgspec.Struct]) -> None:
    differences = {}
    for ours, theirs in pairs(cls, getattr(types, cls.__name__).pb().DESCRIPTOR, set()):
        api = {field.json_name: their_field(field) for field in theirs.fields}
        own = our_fields(ours)
        for name in api.keys() | own.keys():
            if api.get(name) != own.get(name):
                differences[f"{ours.__name__}.{name}"] = (
                    f"the API has {api.get(name)}, we have {own.get(name)}"
                )
    assert not differences


@pytest.mark.parametrize("cls", EMULATED.values(), ids=lambda cls: cls.__name__)
def test_enums_that_list_their_names_list_those_of_the_api(types: Any, cls: type[msgspec.Struct]) -> None:
    for ours, theirs in pairs(cls, getattr(types, cls.__name__).pb().DESCRIPTOR, set()):
        api = {field.json_name: field.enum_type for field in theirs.fields if field.enum_type}
        for name, field in fields(ours).items():
            if field.names:
                assert set(field.names) == {value.name for value in api[name].values}, f"{ours}.{name}"
