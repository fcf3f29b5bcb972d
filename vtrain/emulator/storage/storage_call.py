"""A request with its parameters, and responses in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from vtrain.emulator.storage.storage_refusals import Conditions, StorageRefusal, whole_number


class StorageCall(msgspec.Struct, frozen=True, kw_only=True):
    """A request with its names decoded. `base` is the service's address as the client wrote it."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    repeated: tuple[tuple[str, str], ...]
    headers: Mapping[str, str]
    body: bytes
    base: str

    @property
    def bucket(self) -> str:
        """The bucket of the path."""
        return self.path["bucket"]

    @property
    def object(self) -> str:
        """The object of the path."""
        return self.path["object"]

    @property
    def generation(self) -> int | None:
        """The generation that the client means; None is the present one."""
        return whole_number(self.query, "generation")

    @property
    def conditions(self) -> Conditions:
        """The preconditions of the request. Raises StorageRefusal."""
        return Conditions.of_query(self.query)

    def document(self) -> dict[str, Any]:
        """The body as a JSON object; empty without a body. Raises StorageRefusal."""
        return read_json(self.body)

    def flag(self, name: str) -> bool:
        """Whether a switch of the query is on."""
        return self.query.get(name, "").lower() == "true"


def read_json(data: bytes) -> dict[str, Any]:
    """A document that a client wrote. Raises StorageRefusal for what is not a JSON object."""
    if not data.strip():
        return {}
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StorageRefusal(400, "parseError", f"The body is not a JSON object: {error}.") from None


def answer(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A document as JSON."""
    data = msgspec.json.encode(document)
    return Response(data, status, dict(headers or {}), media_type="application/json; charset=UTF-8")


def answer_refusal(refusal: StorageRefusal) -> Response:
    """An error; one that says "you have it already" has no body, and one about a body ends the connection."""
    if refusal.status == 304:
        return Response(status_code=304)
    headers = {"connection": "close"} if refusal.status in (408, 413) else {}
    return answer(refusal.document(), refusal.status, headers)
