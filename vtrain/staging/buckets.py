"""Buckets: the interface of all kinds, and `file://` and `gs://` as folders of this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec

from vtrain.errors import ConfigError, StorageError
from vtrain.rooted import Root
from vtrain.staging.uris import split_uri

_BLOCK = 1 << 20
Show = Callable[[str], None]
"""Shows how far a transfer is, on a terminal; called many times."""


class Staged(msgspec.Struct, frozen=True, kw_only=True):
    """One staged file: its URI, and whether it had to be written."""

    uri: str
    written: bool


class Buckets(Protocol):
    """Places for packages. Staging is by content, so an existing package is not written again."""

    def accept(self, uri: str) -> None:
        """Raise ConfigError for a URI that the job could not read. Asks nobody."""

    def examine(self, staging_uri: str, output_uri: str = "") -> None:
        """Raise StorageError unless the job's buckets are there, and the first takes what is staged."""

    def stage_all(self, uris: Mapping[Path, str], show: Show) -> tuple[Staged, ...]:
        """Put each file at its URI, unless it is there. Raises StorageError, naming what refused."""


class LocalBuckets:
    """`file:///…`, and `gs://NAME/…` under the home's `buckets/NAME`."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "buckets"

    def local_path(self, uri: str) -> Path:
        """The file or folder that a URI means on this machine. Raises ConfigError for any other scheme."""
        scheme, rest = split_uri(uri)
        if scheme == "file":
            return Path(rest)
        bucket, _, name = rest.partition("/")
        path = (self.folder / bucket / name).resolve()
        if not path.is_relative_to((self.folder / bucket).resolve()):
            raise ConfigError(f"{uri} leads out of its bucket.")
        return path

    def root(self, uri: str) -> Root:
        """The folder that a URI means. No link below its bucket is followed: a job may have made it.

        Raises ConfigError as `local_path` does.
        """
        scheme, rest = split_uri(uri)
        if scheme == "file":  # the user's path, links and all
            return Root(Path(rest))
        bucket, _, name = rest.partition("/")
        place = os.path.normpath(name) if name.strip("/") else ""
        if place.split("/")[0] == "..":
            raise ConfigError(f"{uri} leads out of its bucket.")
        return Root(self.folder / bucket, "" if place == "." else place.strip("/"))

    def accept(self, uri: str) -> None:
        """Raise ConfigError for a URI that means no path of this machine."""
        self.local_path(uri)

    def examine(self, staging_uri: str, output_uri: str = "") -> None:
        """Folders are made when they are written to: there is nothing to ask for."""

    def stage_all(self, uris: Mapping[Path, str], show: Show) -> tuple[Staged, ...]:  # noqa: ARG002 - a disk is quick
        """Copy each file to its URI, unless it is there; raises StorageError where the disk refuses."""
        try:
            return tuple(self.stage(file, uri) for file, uri in uris.items())
        except OSError as error:
            reason = error.strerror or str(error)
            hint = f"Remove the folder {error.filename}." if isinstance(error, IsADirectoryError) else ""
            raise StorageError(f"Cannot stage {error.filename}: {reason}.", hint=hint) from error

    def stage(self, file: Path, uri: str) -> Staged:
        """Put a file at a URI that is made of its content; nothing is written when it is there."""
        root, name = self.root(uri.rpartition("/")[0]), split_uri(uri)[1].rpartition("/")[2]
        with suppress(OSError), root.folder() as folder:
            os.utime(folder)  # what was used lately is not removed as unused
        # The name promises the content, but a user, a job or a damaged disk may have put other bytes there.
        with suppress(OSError), root.open(name) as there, file.open("rb") as own:
            if _is_same(own, there):
                return Staged(uri=uri, written=False)
        with root.publishing(name, make_mode=0o777) as target, file.open("rb") as source:
            shutil.copyfileobj(source, target)
        return Staged(uri=uri, written=True)


def _is_same(one: BinaryIO, other: BinaryIO) -> bool:
    """Whether two files have the same content."""
    if os.fstat(one.fileno()).st_size != os.fstat(other.fileno()).st_size:
        return False
    while block := one.read(_BLOCK):
        if other.read(len(block)) != block:
            return False
    return not other.read(1)
