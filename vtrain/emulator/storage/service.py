"""The stores of one home, opened together."""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from vtrain.emulator.storage.buckets import BucketStore
from vtrain.emulator.storage.catalog import Catalog
from vtrain.emulator.storage.objects import ObjectStore
from vtrain.emulator.storage.places import Places
from vtrain.emulator.storage.sessions import Sessions
from vtrain.settings import make_home
from vtrain.staging import LocalBuckets

FOLDER = "storage"
KEPT_SECONDS = 7 * 24 * 3600.0
"""How long uploads of a service that was killed stay on the disk."""


class StorageService:
    """Everything behind the API: buckets, objects, and uploads that go on. Close it to remove the last."""

    def __init__(self, home: Path) -> None:
        make_home(home)
        folder = home / FOLDER
        self.catalog = Catalog(folder)
        self._partials = _partial_folder(folder / "uploads")
        self.places = Places(LocalBuckets(home).folder, folder / "aside")
        self.buckets = BucketStore(self.places, self.catalog)
        self.objects = ObjectStore(self.places, self.catalog, self.buckets, self._partials)
        self.sessions = Sessions(self.objects)

    def names(self, bucket: str, prefix: str) -> set[str]:
        """The names of a bucket's objects that begin with a prefix."""
        self.buckets.get(bucket)
        aside = (name for name in self.catalog.names_aside(bucket) if name.startswith(prefix))
        return {*self.places.names(bucket, prefix), *aside}

    def close(self) -> None:
        """Let go of everything, and remove uploads that did not end."""
        self.sessions.close()
        self.catalog.close()
        shutil.rmtree(self._partials, ignore_errors=True)


def _partial_folder(parent: Path) -> Path:
    """A folder for this service's uploads; those that nobody has written to for a week are removed."""
    parent.mkdir(parents=True, exist_ok=True)
    for folder in parent.iterdir():
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > KEPT_SECONDS:
                shutil.rmtree(folder)
    return Path(tempfile.mkdtemp(dir=parent))
