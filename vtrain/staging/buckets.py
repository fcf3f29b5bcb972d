"""Buckets: the interface of all kinds, and `file://` and `gs://` as folders of this machine."""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

from vtrain.atomic import UNPUBLISHED, publishing_file
from vtrain.errors import ConfigError, StorageError
from vtrain.staging.uris import split_uri

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
            name = error.filename2 or error.filename
            if Path(str(name)).name.startswith(UNPUBLISHED):
                name = Path(str(name)).parent  # the folder is at fault, and nobody knows the temporary name
            hint = f"Remove the folder {name}." if isinstance(error, IsADirectoryError) else ""
            raise StorageError(f"Cannot stage {name}: {reason}.", hint=hint) from error

    def stage(self, file: Path, uri: str) -> Staged:
        """Put a file at a URI that is made of its content; nothing is written when it is there."""
        target = self.local_path(uri)
        with suppress(OSError):
            os.utime(target.parent)  # what was used lately is not removed as unused
        # The name promises the content, but a user or a damaged disk may have put other bytes there.
        if target.is_file() and filecmp.cmp(file, target, shallow=False):
            return Staged(uri=uri, written=False)
        target.parent.mkdir(parents=True, exist_ok=True)
        with publishing_file(target, mode=None) as temporary:
            shutil.copyfile(file, temporary)
        return Staged(uri=uri, written=True)
