"""What every message is made of: its base, and the kinds of fields that JSON tells apart.

The annotations of messages are evaluated at every start, so they are not left as text (no `annotations`
import in their modules).
"""

from typing import Annotated, Any, ClassVar

import msgspec

Int64 = Annotated[int, "int64"]
"""A 64-bit integer: a string in JSON (`"replicaCount": "1"`), as proto3 JSON has it."""

Duration = Annotated[str, "duration"]
"""A span of time in seconds with the suffix `s`: `"3600s"`, `"3.5s"`."""

EnumName = Annotated[str, "enum"]
"""An enum by name, and any name: the service may know more than we do."""

Value = Annotated[Any, "value"]
"""`google.protobuf.Value`: whatever JSON holds."""

Answer = Annotated[dict[str, Any] | None, "answer"]


class Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A frozen message of the API; a field with its default value is absent from JSON."""


class Resource(Message, frozen=True):
    """A message that the service names and keeps.

    `answer` is no field of the API: it is the document that the service wrote, with the fields and values
    that we do not know; None for what was made here. `output_fields` are those that the service writes and a
    request does not carry.
    """

    output_fields: ClassVar[frozenset[str]] = frozenset(
        [
            "name",
            "state",
            "createTime",
            "startTime",
            "endTime",
            "updateTime",
            "error",
            "webAccessUris",
            "satisfiesPzs",
            "satisfiesPzi",
        ]
    )
    answer: Answer = None


class EncryptionSpec(Message, frozen=True):
    kms_key_name: str = ""


class GcsDestination(Message, frozen=True):
    output_uri_prefix: str = ""


class Status(Message, frozen=True):
    """`google.rpc.Status`: why something ended badly. `details` are `google.rpc` messages with `@type`."""

    code: int = 0
    message: str = ""
    details: tuple[dict[str, Any], ...] = ()
