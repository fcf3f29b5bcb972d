"""What the service answers instead of a result: an HTTP status, a reason of Google's list, a sentence."""

from __future__ import annotations

from typing import Any


class Refusal(Exception):
    """A request that is answered with an error. `reason` is the word that clients tell errors apart by."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message

    def document(self) -> dict[str, Any]:
        """The error as Google's JSON APIs write it."""
        detail = {"message": self.message, "domain": "global", "reason": self.reason}
        return {"error": {"code": self.status, "message": self.message, "errors": [detail]}}


def invalid(message: str) -> Refusal:
    """A request whose words make no sense."""
    return Refusal(400, "invalid", message)


def no_bucket(bucket: str) -> Refusal:
    """There is no such bucket."""
    return Refusal(404, "notFound", f"There is no bucket {bucket!r}.")


def no_object(bucket: str, name: str) -> Refusal:
    """There is no such object."""
    return Refusal(404, "notFound", f"No such object: {bucket}/{name}")
