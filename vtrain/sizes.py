"""Sizes as text: read as Docker writes them (`64m`, `1.5g`, a number of bytes), and printed for people."""

from __future__ import annotations

import re

LARGEST = 2**63 - 1
"""The largest int64, the type of sizes in the Engine API."""
GIB, MIB = 2**30, 2**20
_SIZE = r"(?i)([0-9]{1,19}(?:\.[0-9]{1,9})?) ?(?:([bkmgt])i?b?)?"
"""Compiled at its first use, which few commands have."""
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def read_size(text: str) -> int:
    """The bytes of a size; units are powers of 1024. Raises ValueError for other text, and for 0."""
    match = re.fullmatch(_SIZE, text)
    number, unit = (match[1], (match[2] or "").lower()) if match else ("0", "")
    scale = _UNITS[unit]
    size = int(float(number) * scale) if "." in number else int(number) * scale
    if not 0 < size <= LARGEST:
        raise ValueError(text)
    return size


def memory_in_words(size: int) -> str:
    """`22.4 GB`, or `512 MB`. Google writes GB and means 2**30 bytes, and so do we."""
    return f"{round(size / GIB, 1):g} GB" if size >= GIB else f"{round(size / MIB, 1):g} MB"


def size_in_words(count: int) -> str:
    """`12.3 MB`; units are powers of 1000."""
    size, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 999.5 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" or size >= 99.95 else f"{size:.1f} {unit}"
