"""`google.longrunning.Operation`: work that the service goes on with after it has answered."""

from typing import Any

from vtrain.messages.base import Resource, Status


class Operation(Resource, frozen=True):
    name: str = ""
    metadata: dict[str, Any] | None = None
    done: bool = False
    error: Status | None = None
    response: dict[str, Any] | None = None
