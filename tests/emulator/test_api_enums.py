"""The emulator's numbers of enums, against the descriptors of the installed google-cloud-aiplatform."""

from __future__ import annotations

from typing import Any

import pytest

from vtrain.emulator.api.documents import ENUMS
from vtrain.emulator.api.methods import METHODS, SERVICES
from vtrain.emulator.grpc.messages import load_messages
from vtrain.messages.codec import fields
from vtrain.messages.resources import RESOURCES

pytestmark = pytest.mark.api


def enums_below(
    cls: type[Any], descriptor: Any, found: dict[tuple[str, str], dict[str, int]], walked: set[type[Any]]
) -> None:
    """Collect the enums of a message, and of all below it."""
    walked.add(cls)
    of_api = {field.json_name: field for field in descriptor.fields}
    for field in fields(cls).values():
        described = of_api[field.name]
        if described.enum_type is not None:
            values = {value.name: value.number for value in described.enum_type.values}
            found[cls.__name__, field.name] = values
        elif field.message is not None and field.message not in walked:
            enums_below(field.message, described.message_type, found, walked)


def test_every_enum_has_the_numbers_of_the_api() -> None:
    from google.cloud import aiplatform_v1

    found: dict[tuple[str, str], dict[str, int]] = {}
    walked: set[type[Any]] = set()
    for cls in RESOURCES.values():
        enums_below(cls, getattr(aiplatform_v1, cls.__name__).pb().DESCRIPTOR, found, walked)
    assert found == ENUMS


def test_every_request_has_the_fields_of_the_api() -> None:
    from google.longrunning import operations_pb2

    messages = load_messages("v1")
    for method in (method for methods in METHODS.values() for method in methods):
        name = f"{method.rpc}Request"
        request = messages[name].pb() if name in messages else getattr(operations_pb2, name)
        found = {field.json_name for field in request.DESCRIPTOR.fields}
        assert found - {"name", "parent", method.body} == set(method.fields), name


def test_every_method_is_one_of_the_api() -> None:
    from google.cloud import aiplatform_v1

    for name, collections in SERVICES.items():
        service = name.rpartition(".")[2]
        if service == "Operations":
            continue
        client = getattr(aiplatform_v1, f"{service}Client")
        for method in (method for collection in collections for method in METHODS[collection]):
            snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in method.rpc)
            assert hasattr(client, snake.lstrip("_")), method.rpc
            assert method.answer in ("Empty", "Operation") or hasattr(aiplatform_v1, method.answer)
