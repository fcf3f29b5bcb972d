"""Text files of the user's, which are UTF-8 unless a byte-order mark says otherwise."""

from __future__ import annotations

import codecs

_MARKS = (
    (codecs.BOM_UTF8, "UTF-8"),
    (codecs.BOM_UTF32_LE, "UTF-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def encoding_of(data: bytes) -> str:
    """The encoding that a byte-order mark names; empty where there is none."""
    return next((name for mark, name in _MARKS if data.startswith(mark)), "")


def decoded(data: bytes, errors: str = "strict") -> str:
    """The text without its mark. Raises UnicodeDecodeError."""
    return data.removeprefix(codecs.BOM_UTF8).decode(encoding_of(data) or "UTF-8", errors)


def why_not_utf8(data: bytes) -> str:
    """Why a reader that knows UTF-8 alone cannot read a file; empty where it can."""
    encoding = encoding_of(data)
    if encoding.endswith(("16", "32")):
        return f"it is {encoding}, as PowerShell writes it; save it as UTF-8"
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "it is not UTF-8 text"
    return ""
