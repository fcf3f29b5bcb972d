"""Digests: SHA-256 in hexadecimal digits, of bytes, of a file and of a document."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

_BLOCK_BYTES = 1 << 20


class Readable(Protocol):
    """Bytes that are read in blocks."""

    def read(self, size: int, /) -> bytes | None: ...


def content_digest(content: bytes) -> str:
    """The SHA-256 of bytes."""
    from hashlib import sha256  # late: with it comes OpenSSL, half a megabyte in every supervisor

    return sha256(content).hexdigest()


def file_digest(path: Path, size: int | None = None) -> str:
    """The SHA-256 of a file's content, or of its first `size` bytes, read in blocks. Raises OSError."""
    with path.open("rb", buffering=0) as file:
        return stream_digest(file, size)


def stream_digest(stream: Readable, size: int | None = None) -> str:
    """The SHA-256 of the rest of a stream, or of `size` bytes of it, read in blocks. Raises OSError."""
    from hashlib import sha256

    found, left = sha256(), sys.maxsize if size is None else size
    while block := stream.read(min(_BLOCK_BYTES, left)):
        found.update(block)
        left -= len(block)
    return found.hexdigest()


def document_digest(document: object, encode: Callable[[Any], Any] | None = None) -> str:
    """The SHA-256 of a value's JSON. `encode` turns values that JSON does not have into others."""
    return content_digest(msgspec.json.encode(document, enc_hook=encode))
