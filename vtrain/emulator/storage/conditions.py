"""Preconditions: do it only if the object, or the bucket, is still the one that the client saw."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from vtrain.emulator.storage.refusals import Refusal, invalid


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """What has to hold for generation and metageneration; None is no condition.

    Generation 0 stands for "there is none".
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
        """Raise Refusal (412; 304 for a reader who has it already) unless the conditions hold."""
        matches = ((self.generation_match, generation), (self.metageneration_match, metageneration))
        for wanted, found in matches:
            if wanted is not None and wanted != found:
                raise _failed(f"{wanted} was wanted, {found} is there")
        differs = ((self.generation_not_match, generation), (self.metageneration_not_match, metageneration))
        for unwanted, found in differs:
            if unwanted is not None and unwanted == found:
                raise _failed(f"{found} is there", status=304 if reading else 412)


def _failed(what: str, status: int = 412) -> Refusal:
    return Refusal(status, "conditionNotMet", f"A precondition does not hold: {what}.")


def whole_number(query: Mapping[str, str], key: str) -> int | None:
    """A number of the query. Raises Refusal for what is none."""
    text = query.get(key)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise invalid(f"{key}: {text!r} is not a whole number.") from None
