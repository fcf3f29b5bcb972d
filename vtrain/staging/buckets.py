"""What every kind of bucket does: take files that are named by their content."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

Show = Callable[[str], None]
"""Shows how far a transfer is, on a terminal; called many times."""


class Staged(msgspec.Struct, frozen=True, kw_only=True):
    """One staged file: its URI, and whether it had to be written."""

    uri: str
    written: bool


class Buckets(Protocol):
    """Where packages are staged. Staging is by content, so what is there is not written again."""

    def accept(self, uri: str) -> None:
        """Raise ConfigError for a URI that the job could not read. Asks nobody."""

    def examine(self, staging_uri: str, output_uri: str = "") -> None:
        """Raise StorageError unless the job's buckets are there, and the first takes what is staged."""

    def stage_all(self, uris: Mapping[Path, str], show: Show) -> tuple[Staged, ...]:
        """Put each file at its URI, unless it is there. Raises StorageError, naming what refused."""
