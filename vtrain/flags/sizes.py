"""Sizes on the command line: `64m`, `1.5g`, a number of bytes."""

from __future__ import annotations

from vtrain.engine.sizes import LARGEST as LARGEST
from vtrain.engine.sizes import read_size
from vtrain.errors import UsageError


def size_in_bytes(text: str, flag: str) -> int:
    """The bytes of a size; units are powers of 1024. Raises UsageError for what is none, and for 0."""
    try:
        return read_size(text)
    except ValueError:
        raise UsageError(f"{flag}: {text!r} is not a size.", hint="Write 512m or 2g.") from None
