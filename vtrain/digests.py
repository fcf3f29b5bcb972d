"""Digests: SHA-256 in hexadecimal digits, of bytes, of a file and of a document."""

from __future__ import annotations

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


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's content, read in blocks. Raises OSError."""
    with path.open("rb", buffering=0) as file:
        return stream_digest(file)


def stream_digest(stream: Readable) -> str:
    """The SHA-256 of the rest of a stream, read in blocks. Raises OSError."""
    from hashlib import sha256

    found = sha256()
    while block := stream.read(_BLOCK_BYTES):
        found.update(block)
    return found.hexdigest()


def document_digest(document: object, encode: Callable[[Any], Any] | None = None) -> str:
    """The SHA-256 of a value's JSON. `encode` turns values that JSON does not have into others."""
    return content_digest(msgspec.json.encode(document, enc_hook=encode))
