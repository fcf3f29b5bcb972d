"""Errors that the service answers with, and preconditions on generations, which lead to such errors.

Reasons are those of Google's JSON APIs (cloud.google.com/storage/docs/json_api/v1/status-codes).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec


class StorageRefusal(Exception):
    """An error response. Clients tell errors apart by `reason`."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message

    def document(self) -> dict[str, Any]:
        """The error as Google's JSON APIs write it."""
        detail = {"message": self.message, "domain": "global", "reason": self.reason}
        return {"error": {"code": self.status, "message": self.message, "errors": [detail]}}


def invalid(message: str) -> StorageRefusal:
    """The error for a request with an invalid value."""
    return StorageRefusal(400, "invalid", message)


def no_bucket(bucket: str) -> StorageRefusal:
    """The error for a bucket that does not exist."""
    message = f"There is no bucket {bucket!r}. Create it, or start the emulator with --bucket={bucket}."
    return StorageRefusal(404, "notFound", message)


def no_object(bucket: str, name: str) -> StorageRefusal:
    """The error for an object that does not exist."""
    return StorageRefusal(404, "notFound", f"No such object: {bucket}/{name}")


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """Preconditions on generation and metageneration; None is no condition.

    Generation 0 means that the object does not exist.
    """

    generation_match: int | None = None
    generation_not_match: int | None = None
    metageneration_match: int | None = None
    metageneration_not_match: int | None = None

    @classmethod
    def of_query(cls, query: Mapping[str, str], prefix: str = "if") -> Conditions:
        """The conditions of a request; `prefix` is `ifSource` for the source of a copy."""
        return cls(
            generation_match=whole_number(query, f"{prefix}GenerationMatch"),
            generation_not_match=whole_number(query, f"{prefix}GenerationNotMatch"),
            metageneration_match=whole_number(query, f"{prefix}MetagenerationMatch"),
            metageneration_not_match=whole_number(query, f"{prefix}MetagenerationNotMatch"),
        )

    def check(self, generation: int, metageneration: int, *, reading: bool = False) -> None:
        """Raise StorageRefusal (412; 304 for a reader who has it already) unless the conditions hold."""
        matches = ((self.generation_match, generation), (self.metageneration_match, metageneration))
        for wanted, found in matches:
            if wanted is not None and wanted != found:
                raise _failed(f"{wanted} was wanted, {found} is there")
        differs = ((self.generation_not_match, generation), (self.metageneration_not_match, metageneration))
        for unwanted, found in differs:
            if unwanted is not None and unwanted == found:
                raise _failed(f"{found} is there", status=304 if reading else 412)


def _failed(what: str, status: int = 412) -> StorageRefusal:
    return StorageRefusal(status, "conditionNotMet", f"A precondition does not hold: {what}.")


def whole_number(query: Mapping[str, str], key: str) -> int | None:
    """An integer of the query; None where it is absent. Raises StorageRefusal for other text."""
    text = query.get(key)
    if text is None:
        return None
    if not re.fullmatch(r"-?[0-9]{1,19}", text):
        raise invalid(f"{key}: {text[:100]!r} is not a whole number.")
    return int(text)
