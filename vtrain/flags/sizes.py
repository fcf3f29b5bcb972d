"""Sizes as Docker writes them: `64m`, `1.5g`, a number of bytes."""

from __future__ import annotations

import re

from vtrain.errors import UsageError

LARGEST = 2**63 - 1
"""What the Engine API's int64 holds."""
_SIZE = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,9})?) ?(?:([bkmgt])i?b?)?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def size_in_bytes(text: str, flag: str) -> int:
    """The bytes of a size; units are powers of 1024. Raises UsageError for what is none, and for 0."""
    match = _SIZE.fullmatch(text)
    number, unit = (match[1], (match[2] or "").lower()) if match else ("0", "")
    scale = _UNITS[unit]
    size = int(float(number) * scale) if "." in number else int(number) * scale
    if not 0 < size <= LARGEST:
        raise UsageError(f"{flag}: {text!r} is not a size.", hint="Write 512m or 2g.")
    return size
