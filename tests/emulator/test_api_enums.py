"""The numbers of enums, against the descriptors of the installed google-cloud-aiplatform."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from vtrain.emulator.vertex.documents import EMULATED
from vtrain.emulator.vertex.grpc_messages import load_messages
from vtrain.emulator.vertex.methods import METHODS, SERVICES
from vtrain.messages.codec import fields
from vtrain.messages.custom_job import MachineSpec
from vtrain.messages.hyperparameter_tuning_job import StudySpec

pytestmark = pytest.mark.api


def check_enums(cls: type[Any], descriptor: Any, walked: set[type[Any]]) -> None:
    """Compare the enums of a message, and of all below it."""
    walked.add(cls)
    of_api = {field.json_name: field for field in descriptor.fields}
    for field in fields(cls).values():
        described = of_api[field.name]
        if described.enum_type is not None:
            values = {value.number: value.name for value in described.enum_type.values}
            assert field.enum == values, f"{cls.__name__}.{field.name}"
        elif field.message is not None and field.message not in walked:
            check_enums(field.message, described.message_type, walked)


def test_every_enum_has_the_numbers_of_the_api() -> None:
    messages, walked = load_messages("v1"), set[type[Any]]()
    for cls in EMULATED.values():
        check_enums(cls, messages[cls.__name__].pb().DESCRIPTOR, walked)
    assert StudySpec in walked and MachineSpec in walked


def test_every_request_has_the_fields_of_the_api() -> None:
    from google.longrunning import operations_pb2

    messages = load_messages("v1")
    for method in (method for methods in METHODS.values() for method in methods):
        name = f"{method.rpc}Request"
        request = messages[name].pb() if name in messages else getattr(operations_pb2, name)
        found = {field.json_name for field in request.DESCRIPTOR.fields}
        assert found - {"name", "parent", method.body, method.named} == set(method.fields), name


def test_every_method_is_one_of_the_api() -> None:
    messages = load_messages("v1")
    for name, methods in SERVICES.items():
        service = name.rpartition(".")[2]
        if service == "Operations":
            continue
        module = import_module(f"google.cloud.aiplatform_v1.services.{_snake_case(service)}")
        client = getattr(module, f"{service}Client")
        for method in methods:
            assert hasattr(client, _snake_case(method.rpc)), method.rpc
            assert method.answer in ("Empty", "Operation", "HttpBody", *messages)


def _snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
