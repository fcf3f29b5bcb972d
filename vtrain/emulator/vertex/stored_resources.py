"""Resources that programs create beside training, and that are only kept: nothing runs for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from re import Pattern
from typing import Any, Generic, TypeVar, cast

import msgspec

from vtrain.emulator.vertex.documents import listed_as, read_request, updated
from vtrain.emulator.vertex.filters import Restriction, Test, resource_test
from vtrain.emulator.vertex.operations import Operations
from vtrain.emulator.vertex.resource_files import ID, REGION, ResourceFiles
from vtrain.emulator.vertex.resource_listing import list_files
from vtrain.emulator.vertex.vertex_call import (
    OPERATION,
    PAGE,
    Document,
    Handler,
    Method,
    VertexCall,
    field_of,
)
from vtrain.emulator.vertex.vertex_refusals import invalid
from vtrain.messages.codec import camel_case, fields, from_document, snake_case, to_document
from vtrain.messages.structs import Resource
from vtrain.runtime.supervisor_process import random_job_id
from vtrain.times import timestamp

LARGEST = 1 << 20
"""Bytes of a resource that is only kept, as JSON."""
_FIXED = frozenset(["valueType", "pluginName", "source"])
"""Fields that the API calls immutable."""
FOUND = ("filter", *PAGE, "orderBy")
"""The fields of requests for lists of such resources."""
R = TypeVar("R", bound=Resource)


class StoredResources(Generic[R]):
    """One collection of such resources."""

    own_ids: Pattern[str] = ID
    """The ids that clients may give."""

    def __init__(
        self,
        home: Path,
        collection: str,
        message: type[Resource],
        operations: Operations,
        *,
        kept: type[R] | None = None,
        needs: tuple[str, ...] = ("displayName",),
        is_unique: bool = False,
        test_of: Callable[[Restriction], Test] = resource_test,
    ) -> None:
        """`kept` is `message` with fields that the API does not have; `needs` are the required fields.

        With `is_unique` no two below one parent have the same display name. `test_of` gives the tests of
        filters.
        """
        self._noun = message.__name__
        self._field = snake_case(self._noun)
        self._message = message
        self._kept = cast(type[R], kept or message)
        self._needs = needs
        self._is_unique = is_unique
        self._test_of = test_of
        self._operations = operations
        self.files = ResourceFiles[R](home, collection, self._kept, self._noun)

    def create(self, call: VertexCall) -> Document:
        """Keep a new resource. The answer is its operation."""
        made = self.make(call)
        return self._operation(call.of_one(made.name.rpartition("/")[2]), "Create", made)

    def create_at_once(self, call: VertexCall) -> Document:
        """The same, for messages whose creation is no operation."""
        return self.shown(self.make(call))

    def create_several(self, calls: Iterable[VertexCall]) -> list[Document]:
        """The same for a batch, which reads the names below each parent once."""
        taken: dict[str, set[str]] = {}
        return [self.shown(self.make(call, taken)) for call in calls]

    def make(self, call: VertexCall, taken: dict[str, set[str]] | None = None) -> Any:
        """A new resource, with the id of the request or a number.

        `taken` keeps the display names below each parent for the next call.
        """
        if not REGION.fullmatch(call.location):
            raise invalid(f"{call.location[:100]!r} is not a region.")
        own_id = call.place.id or call.text(f"{camel_case(self._field)}Id")
        if own_id and not self.own_ids.fullmatch(own_id):
            raise invalid(f"{self._field}_id: {own_id[:200]!r} does not match {self.own_ids.pattern}.")
        wanted = self._read(call)
        given = to_document(wanted)
        self.check(given)
        for name in self._needs:
            if name not in given:
                raise invalid(f"{self._field}.{snake_case(name)} is required.")
        if self._is_unique:
            self._take_display_name(call.parent, wanted.display_name, {} if taken is None else taken)
        now = timestamp()
        name = call.of_one(own_id or random_job_id()).name
        made = self.completed({**given, "name": name, "createTime": now, "updateTime": now})
        self.files.add(made)
        return made

    def _take_display_name(self, parent: str, name: str, taken: dict[str, set[str]]) -> None:
        """Raise VertexRefusal where another one below the parent has the name."""
        if parent not in taken:
            taken[parent] = {getattr(one, "display_name", "") for one in self.files.below(parent)}
        if name in taken[parent]:
            raise invalid(f"{self._field}.display_name: {name[:200]!r} already exists.")
        taken[parent].add(name)

    def completed(self, document: Document) -> Any:
        """A new resource with the fields that only the service writes."""
        return from_document(self._kept, document)

    def shown(self, resource: Any) -> Document:
        """A resource as the API has it."""
        known = fields(self._message)
        return {name: value for name, value in to_document(resource).items() if name in known}

    def get(self, call: VertexCall) -> Document:
        """A resource."""
        return self.shown(self.files.find(call.name))

    def list_page(self, call: VertexCall) -> Document:
        """A page of the resources of a region, or of all, or below a parent."""
        listed = listed_as(self._message)
        return list_files(call, self.files, self.shown, listed=listed, test_of=self._test_of)

    def update(self, call: VertexCall) -> Document:
        """Change fields of a resource."""
        return self.shown(self._changed(call))

    def update_slowly(self, call: VertexCall) -> Document:
        """The same, for messages whose update is an operation."""
        return self._operation(call, "Update", self._changed(call))

    def delete(self, call: VertexCall) -> Document:
        """Forget a resource."""
        self.files.remove(call.name)
        return self._operations.deleted(call)

    def _changed(self, call: VertexCall) -> R:
        wanted = self._read(call)
        with self.files.changing(call.name) as found:
            return self.files.change(self.updated(found, wanted, call.text("updateMask")))

    def updated(self, found: R, wanted: Any, mask: str) -> R:
        """A resource with what a mask names of `wanted`. Raises VertexRefusal."""
        changed = updated(found, wanted, mask, self.changeable, needs_name="displayName" in self._needs)
        self.check(self.shown(changed))
        return changed

    def check(self, document: Document) -> None:
        """Raise VertexRefusal for a resource that is too large."""
        if len(msgspec.json.encode(document)) > LARGEST:
            raise invalid(f"{self._field}: the resource has more than {LARGEST} bytes.")

    @property
    def changeable(self) -> frozenset[str]:
        """The fields that an update changes."""
        return frozenset(fields(self._message).keys() - self._message.output_fields - _FIXED)

    def _read(self, call: VertexCall) -> Any:
        return read_request(self._message, call.body, self._field)

    def _operation(self, call: VertexCall, verb: str, resource: R) -> Document:
        answer = {"@type": call.type_url(self._noun), **self.shown(resource)}
        return self._operations.add(call, answer, f"{verb}{self._noun}OperationMetadata")


def of_part(part: str, name: str) -> Handler:
    """A handler that is a method of what `part`, an attribute, holds; where that is empty, of its owner."""
    return lambda owner, call: getattr(getattr(owner, part) if part else owner, name)(call)


def life(
    noun: str,
    part: str = "",
    *,
    created: tuple[str, ...] = (),
    reads: tuple[str, ...] = (),
    lists: tuple[str, ...] = (*FOUND, "readMask"),
    deleted: tuple[str, ...] = (),
    is_slow: bool = False,
    delete: Handler | None = None,
) -> tuple[Method, ...]:
    """The methods that make, find, list and remove the resources of `of_part(part, …)`.

    `created`, `reads`, `lists` and `deleted` are fields of their requests. With `is_slow` a creation is an
    operation, as each removal is.
    """
    plural = noun if noun.endswith("s") else f"{noun}s"
    create = of_part(part, "create" if is_slow else "create_at_once")
    find, page, remove = (of_part(part, name) for name in ("get", "list_page", "delete"))
    return (
        Method(f"Create{noun}", "POST", "", create, OPERATION if is_slow else noun, field_of(noun), created),
        Method(f"Get{noun}", "GET", "*", find, noun, fields=reads),
        Method(f"List{plural}", "GET", "", page, f"List{plural}Response", fields=lists),
        Method(f"Delete{noun}", "DELETE", "*", delete or remove, OPERATION, fields=deleted),
    )


def update_method(noun: str, part: str = "", *more: str, is_slow: bool = False) -> Method:
    """The method that changes such a resource; `more` are fields of its request."""
    handler = of_part(part, "update_slowly" if is_slow else "update")
    answer, fields = OPERATION if is_slow else noun, ("updateMask", *more)
    return Method(f"Update{noun}", "PATCH", "*", handler, answer, field_of(noun), fields)
