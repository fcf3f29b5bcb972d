"""Content on its way in: a file beside the buckets that becomes an object in one step."""

from __future__ import annotations

import base64
import hashlib
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import google_crc32c

from vtrain.atomic import sync_file, sync_folder
from vtrain.emulator.storage.refusals import invalid

COPIED_AT_ONCE = 1 << 20
"""Bytes read and written in one step."""


class Partial:
    """A file that is written once, with the checksums of what it holds. Leaving its block removes it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / uuid.uuid4().hex
        self.size = 0
        self._file = self.path.open("xb", buffering=0)
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._crc32c = google_crc32c.Checksum()

    def __enter__(self) -> Partial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    @contextmanager
    def reopened(self) -> Iterator[None]:
        """Add to a file that is closed between requests."""
        self._file = self.path.open("ab", buffering=0)
        try:
            yield
        finally:
            self._file.close()

    def close(self) -> None:
        """Let the descriptor go, and keep what was written."""
        self._file.close()

    def write(self, data: bytes) -> None:
        """Add to the end."""
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        self._md5.update(data)
        self._crc32c.update(data)
        self.size += len(data)

    def write_files(self, paths: Iterable[Path]) -> None:
        """Add the content of files."""
        for path in paths:
            with path.open("rb") as source:
                while data := source.read(COPIED_AT_ONCE):
                    self.write(data)

    @property
    def md5(self) -> str:
        """The MD5 of all that was written, in base64."""
        return base64.b64encode(self._md5.digest()).decode()

    @property
    def crc32c(self) -> str:
        """Its CRC32C, in base64."""
        return base64.b64encode(self._crc32c.digest()).decode()

    def check(self, expected: Mapping[str, Any]) -> None:
        """Raise Refusal unless the content has the `md5Hash` and the `crc32c` that the client sent."""
        for name, found in (("md5Hash", self.md5), ("crc32c", self.crc32c)):
            wanted = expected.get(name)
            if wanted and wanted != found:
                raise invalid(f"{name}: the content has {found}, and {wanted} was sent.")

    def move_to(self, path: Path, time: int) -> os.stat_result:
        """Take the place of a file in one step, with a modification time in ns; the file's status."""
        self._file.close()
        sync_file(self.path)
        os.utime(self.path, ns=(time, time))
        status = self.path.stat()
        self.path.replace(path)
        sync_folder(path.parent)
        return status

    def discard(self) -> None:
        """Remove what was not moved."""
        self._file.close()
        self.path.unlink(missing_ok=True)


def file_crc32c(path: Path) -> str:
    """The CRC32C of a file in base64."""
    checksum = google_crc32c.Checksum()
    with path.open("rb") as file:
        while data := file.read(COPIED_AT_ONCE):
            checksum.update(data)
    return base64.b64encode(checksum.digest()).decode()
