"""A request of the API, as REST and gRPC both bring it, and the method that answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from vtrain.emulator.vertex.vertex_refusals import invalid
from vtrain.messages.codec import snake_case
from vtrain.messages.names import LOCAL_PROJECT, ResourceName

Document = dict[str, Any]
WHOLE = "*"
"""The body is the request itself."""
EMPTY, OPERATION = "Empty", "Operation"
OPERATIONS = "operations"
PAGE = ("pageSize", "pageToken")
LIST = ("filter", *PAGE, "readMask")
"""The fields of requests for lists."""
HTTP_BODY = "HttpBody"
"""The answer of a method whose bodies, of request and answer, may be of any type (`google.api.HttpBody`)."""


class VertexCall(msgspec.Struct, frozen=True, kw_only=True):
    """One request: the resource or collection that it is about, in the client's project, and its fields.

    `fields` are those of the API's request message, in camelCase, without the body. `version` is that of the
    API: `v1` or `v1beta1`.
    """

    place: ResourceName
    fields: Mapping[str, Any]
    body: Any = None
    version: str = "v1"

    @property
    def name(self) -> str:
        """The name of the resource on this machine."""
        return str(msgspec.structs.replace(self.place, project=LOCAL_PROJECT))

    @property
    def parent(self) -> str:
        """The name of the resource that it is below, on this machine."""
        return self.name.rsplit("/", 2)[0]

    def of_one(self, resource_id: str) -> VertexCall:
        """The same request about one resource of its collection."""
        return msgspec.structs.replace(self, place=msgspec.structs.replace(self.place, id=resource_id))

    @property
    def location(self) -> str:
        """The region, or `-` for all."""
        return self.place.location

    def type_url(self, message: str) -> str:
        """The type of a message of this version, as an `Any` names it."""
        return f"type.googleapis.com/google.cloud.aiplatform.{self.version}.{message}"

    def text(self, field: str) -> str:
        """A field that is text; empty where it is absent.

        Raises VertexRefusal for a value of another type.
        """
        value = self.fields.get(field)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise invalid(f"Invalid value at '{snake_case(field)}' (TYPE_STRING), {str(value)[:300]}")
        return value

    def flag(self, field: str) -> bool:
        """A field that is true or false, which a query spells. Raises VertexRefusal for another value."""
        value = self.fields.get(field, False)
        if value not in (True, False, "true", "false"):
            raise invalid(f"Invalid value at '{snake_case(field)}' (TYPE_BOOL), {str(value)[:300]}")
        return value in (True, "true")

    def names(self, field: str) -> list[str]:
        """A field with names of resources on this machine; a query joins them by commas.

        Raises VertexRefusal for a value of another type.
        """
        value = self.fields.get(field) or []
        found = value.split(",") if isinstance(value, str) else value
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise invalid(f"{snake_case(field)}: expected a list of names.")
        return found


Handler = Callable[[Any, VertexCall], Document]
"""A function of a part of the service that answers one method."""


class Method(msgspec.Struct, frozen=True):
    """One method of a service.

    `path` is that of REST behind the collection: `*` for one resource of it, and an action behind a colon.
    `body` is the field of the request that the body of REST holds, and `answer` the message of the answer.
    `fields` are those of the request beside `body` and the name or the parent. `named` is the field of gRPC's
    request with the resource's name.
    """

    rpc: str
    verb: str
    path: str
    handler: Handler
    answer: str
    body: str = ""
    fields: tuple[str, ...] = ()
    named: str = "name"

    @property
    def of_one(self) -> bool:
        """Whether it is about one resource, and not about a collection."""
        return self.path.startswith("*")


Services = dict[str, dict[str, tuple[Method, ...]]]
"""The methods of a part, by the services of gRPC and by the collections that they are about."""


def field_of(noun: str) -> str:
    """The field of requests that holds such a message."""
    return noun[0].lower() + noun[1:]


def job_methods(
    noun: str, create: Handler, get: Handler, find: Handler, cancel: Handler, delete: Handler
) -> tuple[Method, ...]:
    """The methods of a kind of job."""
    return (
        Method(f"Create{noun}", "POST", "", create, noun, field_of(noun)),
        Method(f"Get{noun}", "GET", "*", get, noun),
        Method(f"List{noun}s", "GET", "", find, f"List{noun}sResponse", fields=LIST),
        Method(f"Cancel{noun}", "POST", "*:cancel", cancel, EMPTY, WHOLE),
        Method(f"Delete{noun}", "DELETE", "*", delete, OPERATION),
    )
