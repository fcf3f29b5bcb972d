"""Errors in the envelope of Google's APIs, made of those that the backends raise.

Codes are those of `google.rpc.Code`, with the HTTP status that belongs to each.
"""

from __future__ import annotations

from typing import Any

from vtrain.errors import (
    ConfigError,
    ConflictError,
    FieldError,
    HomeError,
    NotFoundError,
    ServiceBusyError,
    StorageError,
    UnavailableError,
    UsageError,
    VtrainError,
)
from vtrain.messages.codec import snake_case

HTTP = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNIMPLEMENTED": 405,
    "UNAVAILABLE": 503,
}
"""The HTTP status of each code. That of `UNIMPLEMENTED` is 501, which gcloud asks again for half a minute."""
CODES = {
    "INVALID_ARGUMENT": 3,
    "NOT_FOUND": 5,
    "ALREADY_EXISTS": 6,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
    "ABORTED": 10,
    "UNIMPLEMENTED": 12,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
    "UNAUTHENTICATED": 16,
}
"""The numbers of `google.rpc.Code`."""
_STATUSES: tuple[tuple[type[VtrainError], str], ...] = (
    (NotFoundError, "NOT_FOUND"),
    (ConflictError, "ALREADY_EXISTS"),
    (ServiceBusyError, "RESOURCE_EXHAUSTED"),
    (UnavailableError, "FAILED_PRECONDITION"),
    (HomeError, "FAILED_PRECONDITION"),
    (StorageError, "UNAVAILABLE"),
    (ConfigError, "INVALID_ARGUMENT"),
    (UsageError, "INVALID_ARGUMENT"),
)
_FIELDS_OF_FLAGS = {"--artifact-uri": "artifact_uri", "--dataset": "input_data_config.dataset_id"}
"""What clients of the API know in the place of flags that errors name."""


class VertexRefusal(Exception):
    """An error answer. `status` is the name of a `google.rpc.Code`."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message.encode("utf-8", "replace").decode()  # a model's words may hold anything

    @property
    def http_status(self) -> int:
        """The HTTP status of the answer."""
        return HTTP[self.status]

    def document(self) -> dict[str, Any]:
        """The error as Google's APIs write it."""
        return {"error": {"code": self.http_status, "message": self.message, "status": self.status}}


def invalid(message: str) -> VertexRefusal:
    """The error for a request with an invalid value."""
    return VertexRefusal("INVALID_ARGUMENT", message)


def refusal_of(error: VtrainError, root: str = "") -> VertexRefusal:
    """The answer for an error of a backend; `root` is the field of the request that the document was in."""
    status = next((name for cls, name in _STATUSES if isinstance(error, cls)), "UNAVAILABLE")
    if isinstance(error, FieldError):
        path = ".".join(filter(None, (root, snake_case(error.path))))
        problem = error.message.partition(": ")[2]
        return VertexRefusal(status, f"List of found errors:\t1.Field: {path}; Message: {problem}\t")
    message = error.message
    for flag, field in _FIELDS_OF_FLAGS.items():
        message = message.replace(flag, field)
    return VertexRefusal(status, message)


def words_of(error: VtrainError) -> str:
    """An error for a client of which nobody else says what to do."""
    return f"{error.message} {error.hint}".strip()
