"""Where objects lie: their names as paths in the bucket's folder, or aside where that cannot be.

`models/a.txt` is the file `models/a.txt` of the bucket's folder. What no file can be named lies in
`storage/aside/BUCKET`, by a hash of its name: names with an empty, `.` or `..` component (`a//b`, `folder/`),
with a component of more than 255 bytes, and `a/b` where `a` is a file (or `a` where `a/` has files).
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from vtrain.emulator.storage.refusals import Refusal, no_bucket
from vtrain.staging import is_bucket_name

LONGEST_COMPONENT = 255
"""Bytes of a file's name on the usual file systems."""
LONGEST_PATH = 4000
"""Bytes of a path, a little below what Linux takes."""


class Places:
    """The folders of one home's buckets."""

    def __init__(self, buckets: Path, aside: Path) -> None:
        self.buckets = buckets
        self._aside = aside

    def bucket(self, bucket: str) -> Path:
        """The folder of a bucket. Raises Refusal for what is not the name of a bucket.

        A bucket may be a link of the user's, as it may be for jobs: no job can make one beside the buckets.
        """
        if not is_bucket_name(bucket):
            raise no_bucket(bucket)
        return self.buckets / bucket

    def has_bucket(self, bucket: str) -> bool:
        """Whether there is a bucket of that name."""
        try:
            return self.bucket(bucket).is_dir()
        except Refusal:
            return False

    def aside(self, bucket: str, name: str) -> Path:
        """The file of an object whose name is no path."""
        return self._aside_folder(bucket) / hashlib.sha256(name.encode()).hexdigest()

    def _aside_folder(self, bucket: str) -> Path:
        self.bucket(bucket)
        return self._aside / bucket

    def find(self, bucket: str, name: str) -> Path | None:
        """The file of an object that is there."""
        plain = self._plain(bucket, name)
        if plain is not None and _is_file(plain):
            return plain
        aside = self.aside(bucket, name)
        return aside if _is_file(aside) else None

    def make_room(self, bucket: str, name: str) -> Path:
        """The file that an object is to be written to; its folder is there, and nothing is in the way."""
        plain = self._plain(bucket, name)
        if plain is not None and _make_way(plain):
            return plain
        aside = self.aside(bucket, name)
        aside.parent.mkdir(parents=True, exist_ok=True)
        return aside

    def names(self, bucket: str, prefix: str = "") -> Iterator[str]:
        """The names of the plain objects that begin with a prefix, in no order."""
        folder = prefix.rpartition("/")[0]
        start = self._plain(bucket, folder) if folder else self.bucket(bucket)
        if start is not None and not start.is_symlink():
            base = f"{folder}/" if folder else ""
            yield from (name for name in _walk(start, base) if name.startswith(prefix))

    def is_aside(self, path: Path) -> bool:
        """Whether a file of `find` or `make_room` lies aside."""
        return path.is_relative_to(self._aside)

    def remove(self, bucket: str) -> None:
        """Remove the folders of a bucket without objects; raises OSError where a file is left."""
        remove_empty(self.bucket(bucket))
        shutil.rmtree(self._aside_folder(bucket), ignore_errors=True)

    def _plain(self, bucket: str, name: str) -> Path | None:
        """The path of that name in the bucket's folder, which no symbolic link leads out of; None without."""
        components = name.split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in components):
            return None
        if any(len(part.encode()) > LONGEST_COMPONENT for part in components):
            return None
        folder = self.bucket(bucket).resolve()
        path = folder.joinpath(*components)
        inside = len(bytes(path)) <= LONGEST_PATH and path.parent.resolve() == path.parent
        return path if inside else None


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _make_way(path: Path) -> bool:
    """Make the folder of a path, and remove empty folders that have its place; False where files have it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and not path.is_symlink():
            remove_empty(path)
    except OSError:
        return False
    return True


def remove_empty(folder: Path) -> None:
    """Remove a folder with nothing but folders in it; raises OSError where there is anything else."""
    if any(files for _, _, files in os.walk(folder)):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(folder))
    if folder.is_dir():
        shutil.rmtree(folder)


def _walk(folder: Path, base: str) -> Iterator[str]:
    """The regular files below a folder, by their paths from it behind `base`; links are not followed."""
    folders = [(str(folder), base)]
    while folders:
        path, names = folders.pop()
        try:
            entries = list(os.scandir(path))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append((entry.path, f"{names}{entry.name}/"))
            elif entry.is_file(follow_symlinks=False) and _is_text(entry.name):
                yield names + entry.name


def _is_text(name: str) -> bool:
    """Whether a file's name is UTF-8, as an object's has to be."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)
