"""The files that hold objects, and the partial files that become objects in one step.

The object `models/a.txt` is the file `models/a.txt` of the bucket's folder. Some names cannot be paths: those
with an empty, `.` or `..` component (`a//b`, `folder/`), those with a component of more than 255 bytes, those
with one like the name of a file that is still being written, and `a/b` where `a` is a file (or `a` where `a/`
has files). Their files are in `storage/aside/BUCKET`, named by a hash of the object's name.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import google_crc32c

from vtrain.atomic import UNPUBLISHED, publishing_file, sync_file, sync_folder
from vtrain.digests import content_digest
from vtrain.emulator.storage.refusals import Refusal, invalid, no_bucket
from vtrain.staging import is_bucket_name

LONGEST_COMPONENT = 255
"""Bytes of a file's name on the usual file systems."""
LONGEST_PATH = 4000
"""Bytes of a path, a little below the limit of Linux (4096)."""


class BucketFolders:
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
        """The file of an object whose name cannot be a path."""
        return self._aside_folder(bucket) / content_digest(name.encode())

    def _aside_folder(self, bucket: str) -> Path:
        self.bucket(bucket)
        return self._aside / bucket

    def find(self, bucket: str, name: str) -> Path | None:
        """The file of an existing object."""
        plain = self._plain(bucket, name)
        if plain is not None and _is_file(plain):
            return plain
        aside = self.aside(bucket, name)
        return aside if _is_file(aside) else None

    def prepare_file(self, bucket: str, name: str) -> Path:
        """The file to write an object to. Makes its folder, and removes empty folders of its name."""
        plain = self._plain(bucket, name)
        if plain is not None and _clear_path(plain):
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
        """Whether a file of `find` or `prepare_file` lies aside."""
        return path.is_relative_to(self._aside)

    def remove(self, bucket: str) -> None:
        """Remove the folders of a bucket without objects; raises OSError where a file is left."""
        remove_empty(self.bucket(bucket))
        shutil.rmtree(self._aside_folder(bucket), ignore_errors=True)

    def _plain(self, bucket: str, name: str) -> Path | None:
        """An object's path in its bucket's folder; None if the name is no path, or if a link leads out."""
        components = name.split("/")
        if any(
            part in ("", ".", "..") or "\0" in part or part.startswith(UNPUBLISHED) for part in components
        ):
            return None
        if any(len(part.encode()) > LONGEST_COMPONENT for part in components):
            return None
        folder = self.bucket(bucket).resolve()
        path = folder.joinpath(*components)
        inside = len(bytes(path)) <= LONGEST_PATH and path.parent.resolve() == path.parent
        return path if inside else None


def open_object(path: Path) -> BinaryIO:
    """The file of an object, open for reading.

    Raises FileNotFoundError where something else has just taken its place: a link of a job may lead out, and
    a pipe would never be opened.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return os.fdopen(descriptor, "rb")


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _clear_path(path: Path) -> bool:
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
    tree = list(os.walk(folder, topdown=False))
    if folder.is_symlink() or any(files for _, _, files in tree):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(folder))
    for path, _, _ in tree:
        Path(path).rmdir()  # fails where a job has just written a file


def _walk(folder: Path, base: str) -> Iterator[str]:
    """The regular files below a folder, by their paths from it behind `base`.

    Links are not followed. Files that are still being written, as by `staging`, are left out.
    """
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
            elif entry.is_file(follow_symlinks=False) and _is_object(entry.name):
                yield names + entry.name


def _is_object(name: str) -> bool:
    """Whether a file is an object: its name is UTF-8, and none of a file that is still being written."""
    return not name.startswith(UNPUBLISHED) and not any("\ud800" <= letter <= "\udfff" for letter in name)


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
        """Close the file, and keep its content."""
        self._file.close()

    def write(self, data: bytes) -> None:
        """Append bytes."""
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        self._md5.update(data)
        self._crc32c.update(data)
        self.size += len(data)

    def write_files(self, paths: Iterable[Path]) -> None:
        """Append the content of files."""
        for path in paths:
            with open_object(path) as source:
                while data := source.read(COPIED_AT_ONCE):
                    self.write(data)

    @property
    def md5(self) -> str:
        """The MD5 of the content, in base64."""
        return base64.b64encode(self._md5.digest()).decode()

    @property
    def crc32c(self) -> str:
        """The CRC32C of the content, in base64."""
        return base64.b64encode(self._crc32c.digest()).decode()

    def check(self, expected: Mapping[str, Any]) -> None:
        """Raise Refusal unless the content has the `md5Hash` and the `crc32c` that the client sent."""
        for name, found in (("md5Hash", self.md5), ("crc32c", self.crc32c)):
            wanted = expected.get(name)
            if wanted and wanted != found:
                raise invalid(f"{name}: the content has {found}, and {wanted} was sent.")

    def move_to(self, path: Path, time: int) -> os.stat_result:
        """Replace a file in one step, and set its modification time in ns. Returns the file's status."""
        self._file.close()
        sync_file(self.path)
        os.utime(self.path, ns=(time, time))
        status = self.path.stat()
        try:
            self.path.replace(path)
            sync_folder(path.parent)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            # The bucket is a link to another disk.
            with publishing_file(path, mode=None) as beside:
                shutil.copyfile(self.path, beside)
                os.utime(beside, ns=(time, time))
                status = beside.stat()
        return status

    def discard(self) -> None:
        """Close the file, and remove it unless it was moved."""
        self._file.close()
        self.path.unlink(missing_ok=True)


def file_crc32c(path: Path) -> str:
    """The CRC32C of an object's file in base64. Raises FileNotFoundError as `open_object` does."""
    checksum = google_crc32c.Checksum()
    with open_object(path) as file:
        while data := file.read(COPIED_AT_ONCE):
            checksum.update(data)
    return base64.b64encode(checksum.digest()).decode()
