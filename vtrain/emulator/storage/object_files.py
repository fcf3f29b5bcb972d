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
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple

import google_crc32c

from vtrain.atomic import UNPUBLISHED, sync_file
from vtrain.digests import content_digest
from vtrain.emulator.storage.object_listing import Position
from vtrain.emulator.storage.storage_refusals import StorageRefusal, invalid, no_bucket
from vtrain.rooted import LONGEST_PATH, NOT_THERE, Root, sync
from vtrain.staging import is_bucket_name

LONGEST_COMPONENT = 255
"""Bytes of a file's name on the usual file systems."""


class ObjectFile(NamedTuple):
    """The place of an object: in its bucket's folder, or aside."""

    root: Root
    place: str
    is_aside: bool

    def status(self) -> os.stat_result:
        """The status of the file. Raises FileNotFoundError where there is none, or something else."""
        with self._found():
            status = self.root.status(self.place)
            if stat.S_ISREG(status.st_mode):
                return status
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.place)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The file, open for reading. Raises FileNotFoundError where there is none, or something else."""
        with self._found(), self.root.open(self.place) as file:
            yield file

    def exists(self) -> bool:
        """Whether there is a regular file."""
        try:
            return bool(self.status())
        except OSError:
            return False

    @contextmanager
    def _found(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in NOT_THERE:
                raise
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.place) from error

    def remove(self) -> None:
        """Remove the file, if it is there."""
        with suppress(FileNotFoundError):
            self.root.remove_file(self.place)


class BucketFolders:
    """The folders of one home's buckets."""

    def __init__(self, buckets: Path, aside: Path) -> None:
        self.buckets = buckets
        self._aside = aside

    def bucket(self, bucket: str) -> Path:
        """The folder of a bucket. Raises StorageRefusal for what is not the name of a bucket.

        A bucket may be a link of the user's, as it may be for jobs: no job can make one beside the buckets.
        """
        if not is_bucket_name(bucket):
            raise no_bucket(bucket)
        return self.buckets / bucket

    def has_bucket(self, bucket: str) -> bool:
        """Whether there is a bucket of that name."""
        try:
            return self.bucket(bucket).is_dir()
        except StorageRefusal:
            return False

    def aside(self, bucket: str, name: str) -> ObjectFile:
        """The file of an object whose name cannot be a path."""
        self.bucket(bucket)
        return ObjectFile(Root(self._aside), f"{bucket}/{content_digest(name.encode())}", is_aside=True)

    def find(self, bucket: str, name: str) -> ObjectFile | None:
        """The file of an existing object."""
        places = (self._plain(bucket, name), self.aside(bucket, name))
        return next((file for file in places if file is not None and file.exists()), None)

    def prepare_file(self, bucket: str, name: str) -> ObjectFile:
        """The file to write an object to. Makes its folder, and removes empty folders of its name."""
        plain = self._plain(bucket, name)
        if plain is not None:
            with suppress(OSError), plain.root.above(plain.place, make_mode=0o777):
                if plain.root.is_folder(plain.place):
                    plain.root.remove_empty(plain.place)
                return plain
        aside = self.aside(bucket, name)
        with aside.root.above(aside.place, make_mode=0o777):
            return aside

    def names(self, bucket: str, prefix: str, position: Position) -> Iterator[str]:
        """The names of the plain objects that begin with a prefix, from a position on, in order.

        A folder is read when its turn comes. It stands in the order with the `/` that its objects have there.
        """
        root, folder = Root(self.bucket(bucket)), prefix.rpartition("/")[0]
        waiting = [f"{folder}/" if folder else ""]
        while waiting:
            place = waiting.pop()
            if not position.reaches(place):
                continue
            if place and not place.endswith("/"):
                yield place
                continue
            found: list[str] = []
            with suppress(OSError), root.folder(place[:-1]) as descriptor, os.scandir(descriptor) as scan:
                for entry in filter(_is_listed, scan):
                    below = place + entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "")
                    if position.reaches(below) and below.startswith(prefix) and len(below) <= LONGEST_PATH:
                        found.append(below)
            waiting += sorted(found, reverse=True)

    def remove(self, bucket: str) -> None:
        """Remove the folders of a bucket without objects; raises OSError where a file is left."""
        Root(self.bucket(bucket)).remove_empty()
        shutil.rmtree(self._aside / bucket, ignore_errors=True)

    def _plain(self, bucket: str, name: str) -> ObjectFile | None:
        """The file of an object in its bucket's folder; None if the name is no path."""
        components = name.split("/")
        if any(
            part in ("", ".", "..") or "\0" in part or part.startswith(UNPUBLISHED) for part in components
        ):
            return None
        if any(len(part.encode()) > LONGEST_COMPONENT for part in components):
            return None
        return ObjectFile(Root(self.bucket(bucket)), name, is_aside=False)


def _is_listed(entry: os.DirEntry[str]) -> bool:
    """Whether it is an object, or a folder of some: named in UTF-8, and not still being written."""
    is_text = not any("\ud800" <= letter <= "\udfff" for letter in entry.name)
    is_either = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
    return is_either and is_text and not entry.name.startswith(UNPUBLISHED)


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

    def write_files(self, files: Iterable[ObjectFile]) -> None:
        """Append the content of files."""
        for file in files:
            with file.open() as source:
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
        """Raise StorageRefusal unless the content has the `md5Hash` and the `crc32c` that the client sent."""
        for name, found in (("md5Hash", self.md5), ("crc32c", self.crc32c)):
            wanted = expected.get(name)
            if wanted and wanted != found:
                raise invalid(f"{name}: the content has {found}, and {wanted} was sent.")

    def move_to(self, target: ObjectFile, time: int) -> os.stat_result:
        """Replace a file in one step, and set its modification time in ns. Returns the file's status."""
        self._file.close()
        sync_file(self.path)
        os.utime(self.path, ns=(time, time))
        status = self.path.stat()
        try:
            with target.root.above(target.place) as (folder, name):
                os.replace(self.path, name, dst_dir_fd=folder)
                sync(folder)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            # The bucket is a link to another disk.
            with target.root.publishing(target.place) as beside, self.path.open("rb") as source:
                shutil.copyfileobj(source, beside)
                beside.flush()
                os.utime(beside.fileno(), ns=(time, time))
                status = os.fstat(beside.fileno())
        return status

    def discard(self) -> None:
        """Close the file, and remove it unless it was moved."""
        self._file.close()
        self.path.unlink(missing_ok=True)


def file_crc32c(file: ObjectFile) -> str:
    """The CRC32C of an object's file in base64. Raises FileNotFoundError as `ObjectFile.open` does."""
    checksum = google_crc32c.Checksum()
    with file.open() as source:
        while data := source.read(COPIED_AT_ONCE):
            checksum.update(data)
    return base64.b64encode(checksum.digest()).decode()
