"""The build context: a tar archive, the same bytes for the same files, written while it is sent."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from vtrain.errors import ImageError

_BLOCK_BYTES = 512 * 1024
_FILE_MODE = 0o644
_PROGRAM_MODE = 0o755


class ContextFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the context. `name` is relative, with `/`; `content` is the bytes, or the file with them."""

    name: str
    content: bytes | Path
    executable: bool = False


def tar_stream(files: Iterable[ContextFile]) -> Iterator[bytes]:
    """The archive in blocks, sorted by name. Raises ImageError for a file that cannot be read, or changes.

    Owner, group and times are all zero: the layers of an image depend on the content alone.
    """
    for file in sorted(files, key=lambda file: file.name):
        yield from _entry(file)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _entry(file: ContextFile) -> Iterator[bytes]:
    if isinstance(file.content, bytes):
        yield from _blocks(file, io.BytesIO(file.content), len(file.content))
        return
    try:
        with file.content.open("rb") as source:
            yield from _blocks(file, source, source.seek(0, io.SEEK_END))
    except OSError as error:
        raise ImageError(
            f"The image cannot be built: {file.content} cannot be read ({error.strerror}).",
            hint="Make it readable, or leave it out with an ignore file.",
        ) from error


def _blocks(file: ContextFile, source: BinaryIO, size: int) -> Iterator[bytes]:
    info = tarfile.TarInfo(file.name)
    info.size = size
    info.mode = _PROGRAM_MODE if file.executable else _FILE_MODE
    yield info.tobuf(tarfile.PAX_FORMAT)
    source.seek(0)
    left = size
    while left:
        block = source.read(min(left, _BLOCK_BYTES))
        if not block:
            raise ImageError(
                f"The image cannot be built: {file.content!s} became shorter while it was read.",
                hint="Build again when nothing writes to it.",
            )
        left -= len(block)
        yield block
    yield bytes(-size % tarfile.BLOCKSIZE)
