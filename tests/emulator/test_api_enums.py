"""The numbers of enums, against the descriptors of the installed google-cloud-aiplatform."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from lib.api_methods import EMULATED, ROWS

from vtrain.emulator.vertex.grpc_messages import load_message
from vtrain.messages.codec import fields, snake_case
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
    walked = set[type[Any]]()
    for cls in EMULATED.values():
        check_enums(cls, load_message("v1", "JobService", cls.__name__).DESCRIPTOR, walked)
    assert StudySpec in walked and MachineSpec in walked


def test_every_request_has_the_fields_of_the_api() -> None:
    from google.longrunning import operations_pb2

    for service, _, method in ROWS:
        name = f"{method.rpc}Request"
        own = service != "Operations"
        request = load_message("v1", service, name) if own else getattr(operations_pb2, name)
        found = {field.json_name for field in request.DESCRIPTOR.fields}
        assert found - {"name", "parent", method.body, method.named} == set(method.fields), name


def test_every_method_is_one_of_the_api() -> None:
    for service, _, method in ROWS:
        if service != "Operations":
            module = import_module(f"google.cloud.aiplatform_v1.services.{snake_case(service)}")
            assert hasattr(getattr(module, f"{service}Client"), snake_case(method.rpc)), method.rpc
            if method.answer not in ("Empty", "Operation", "HttpBody"):
                assert load_message("v1", service, method.answer)
