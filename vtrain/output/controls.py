"""Control characters on their way to a terminal: what would move the cursor or hide text is shown instead.

A display name, an error of a service or a trainer's line may hold any. C0 and C1 are Unicode's control
characters; the bidirectional ones reorder what is read (Unicode TR36, 3.6).
"""

from __future__ import annotations

import re

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_IN_WORDS = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{_BIDI}]")
_IN_A_NAME = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029{_BIDI}]")
_SGR = rb"\x1b\[[0-9;:]*m"
_C1_AND_BIDI = rb"\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]"  # in UTF-8
_IN_LINES = re.compile(rb"(" + _SGR + rb")|([\x00-\x08\x0b-\x1f\x7f]|" + _C1_AND_BIDI + rb")")
_RESET = b"\x1b[0m"


def visible(text: str) -> str:
    """The text with escapes (`\\x1b`, `\\u202e`) in place of control characters; newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return _IN_WORDS.sub(_escape, text.replace("\r\n", "\n"))


def on_one_line(text: str) -> str:
    """A name inside a sentence: as `visible` has it, newlines and tabs escaped too."""
    return text if text.isascii() and text.isprintable() else _IN_A_NAME.sub(_escape, text)


def for_terminal(line: bytes) -> bytes:
    """UTF-8 that a trainer wrote, as a terminal may be given it: colours stay, and end with the line.

    A carriage return begins a new line, so that nothing is written over what stands there.
    """
    line = line.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    shown = _IN_LINES.sub(_escape_bytes, line)
    return shown + _RESET if b"\x1b[" in shown else shown


def _escape_bytes(match: re.Match[bytes]) -> bytes:
    return match[1] or _escaped(match[2].decode()).encode()


def _escape(match: re.Match[str]) -> str:
    return _escaped(match[0])


def _escaped(letter: str) -> str:
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x20 else f"\\u{code:04x}"
