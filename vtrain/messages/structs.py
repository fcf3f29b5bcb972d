"""The base of all messages, the kinds of fields that differ in JSON, and messages that many others contain.

The annotations of messages are evaluated at every start, so their modules do not import `annotations`.
"""

from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec

Int64 = Annotated[int, "int64"]
"""A 64-bit integer: a string in JSON (`"replicaCount": "1"`), as proto3 JSON has it."""

Duration = Annotated[str, "duration"]
"""A span of time in seconds with the suffix `s`: `"3600s"`, `"3.5s"`."""
MOST_SECONDS = 315_576_000_000
"""The limit of a duration: 10,000 years. Source: `google/protobuf/duration.proto`."""


class EnumNames(NamedTuple):
    """The names of an enum by their numbers. With `is_open` the service may know others."""

    by_number: dict[int, str]
    is_open: bool


def enum(names: str, prefix: str = "", *, is_open: bool = False) -> EnumNames:
    """The names in the order of their numbers, which begin at 0; a number without a name is a `-`."""
    numbered = {number: prefix + name for number, name in enumerate(names.split()) if name != "-"}
    return EnumNames(numbered, is_open)


EnumName = Annotated[str, enum("", is_open=True)]
"""An enum by name, of which vtrain knows no name."""

Value = Annotated[Any, "value"]
"""`google.protobuf.Value`: any JSON."""

Answer = Annotated[dict[str, Any] | None, "answer"]


class Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A frozen message of the API; a field with its default value is absent from JSON."""


class Resource(Message, frozen=True):
    """A message that the service names and stores.

    `answer` is no field of the API: it is the document that the service wrote, with the fields and values
    that vtrain does not know, and None for a resource made by vtrain. `output_fields` are set by the service
    alone, and absent from requests.
    """

    output_fields: ClassVar[frozenset[str]] = frozenset(
        "name state createTime startTime endTime updateTime error webAccessUris "
        "satisfiesPzs satisfiesPzi".split()
    )
    answer: Answer = None


class EncryptionSpec(Message, frozen=True):
    kms_key_name: str = ""


class GcsDestination(Message, frozen=True):
    output_uri_prefix: str = ""


class Status(Message, frozen=True):
    """`google.rpc.Status`: the cause of a failure. `details` are `google.rpc` messages with `@type`."""

    code: int = 0
    message: str = ""
    details: tuple[dict[str, Any], ...] = ()


class Operation(Resource, frozen=True):
    """`google.longrunning.Operation`: work that the service continues after its answer."""

    name: str = ""
    metadata: dict[str, Any] | None = None
    done: bool = False
    error: Status | None = None
    response: dict[str, Any] | None = None


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a list of resources: with all of `labels`. `page_token` goes on after a page."""

    collection: str = "customJobs"
    project: str = "local"
    location: str = ""
    page_size: int = 100
    page_token: str = ""
    labels: dict[str, str] = {}
