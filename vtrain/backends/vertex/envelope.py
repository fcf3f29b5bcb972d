"""What the API wraps its errors in, and no more of it than is shown."""

from __future__ import annotations

import msgspec


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """One field, and what is wrong with it."""

    field: str = ""
    description: str = ""


class Detail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One of the messages that come along with an error; most name no fields."""

    field_violations: tuple[Violation, ...] = ()


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """The error: an HTTP status, its name (`NOT_FOUND`), and the service's words."""

    code: int = 0
    status: str = ""
    message: str = ""
    details: tuple[Detail, ...] = ()


class _Envelope(msgspec.Struct, frozen=True):
    error: ErrorBody


def read_envelope(content: bytes) -> ErrorBody | None:
    """The error in an answer; None where somebody else than the API has written it."""
    try:
        return msgspec.json.decode(content, type=_Envelope).error
    except (msgspec.DecodeError, RecursionError):
        return None
