"""Uploads to Cloud Storage: several at a time, and only of objects that are not there."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import msgspec

from vtrain.errors import StorageError
from vtrain.staging.buckets import Show, Staged
from vtrain.staging.cloud_client import CONTENT_TYPE, MEBIBYTE, Mend, Settings, SimpleUploader, refused
from vtrain.staging.thread_pool import ThreadPool
from vtrain.staging.uris import split_object

if TYPE_CHECKING:
    from google.api_core.page_iterator import HTTPIterator
    from google.cloud.storage import Blob, Client

FIELDS = "items(name,size,crc32c,generation),nextPageToken"
MOST_PAGES = 10_000
"""Pages of a bucket's list."""
ATTEMPTS = 4
"""Attempts at an object that somebody else writes at the same time."""

BAR = 24
"""Width of the bar in letters."""


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """A file, and where it goes."""

    file: Path
    uri: str


class _Moment(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a file that change when somebody writes to it."""

    size: int
    modified: int
    inode: int


class Sender:
    """Sends files with one client, which its threads share."""

    def __init__(
        self, client: Client, simple: SimpleUploader, settings: Settings, show: Show, mend: Mend
    ) -> None:
        self.client = client
        self.simple = simple
        self.settings = settings
        self.show = show
        self.mend = mend
        self.present: dict[str, Blob] = {}

    def send_all(self, uploads: Sequence[Upload]) -> tuple[Staged, ...]:
        """Send what is not there. Raises StorageError, naming what refused."""
        self.present = self._look(uploads)
        self.progress = Progress(len(uploads), sum(_moment(upload.file).size for upload in uploads))
        self.pool = ThreadPool(self._send, self.settings.workers, lambda: self.show(str(self.progress)))
        return self.pool.work_through(uploads)

    def _look(self, uploads: Sequence[Upload]) -> dict[str, Blob]:
        """The objects that are there, by URI. Without the right to list, each upload asks."""
        names: dict[str, list[str]] = {}
        for upload in uploads:
            bucket, name = split_object(upload.uri)
            names.setdefault(bucket, []).append(name)
        return {uri: blob for bucket in names for uri, blob in self._list(bucket, sorted(names[bucket]))}

    def _list(self, bucket: str, names: Sequence[str]) -> Iterable[tuple[str, Blob]]:
        from google.api_core.exceptions import Forbidden

        wanted = set(names)
        with suppress(Forbidden), refused(f"gs://{bucket}", self.mend(bucket), passing=Forbidden):
            listing = self.client.list_blobs(
                bucket,
                start_offset=names[0],
                end_offset=names[-1] + "!",  # the end itself is not listed
                fields=FIELDS,
                timeout=self.settings.timeout,
                retry=self.settings.retry(),
            )
            for blob in without_repetition(listing, bucket):
                if blob.name in wanted:
                    yield f"gs://{bucket}/{blob.name}", blob

    def _send(self, upload: Upload) -> Staged:
        with refused(upload.uri, self.mend(split_object(upload.uri)[0])):
            written = self._send_unless_there(upload, self.present.get(upload.uri))
        self.progress.add(files=1)
        return Staged(uri=upload.uri, written=written)

    def _send_unless_there(self, upload: Upload, found: Blob | None) -> bool:
        """Send a file unless it is there; whether it was sent. Of several that send it at once, one does."""
        from google.api_core.exceptions import Forbidden, PreconditionFailed

        bucket, name = split_object(upload.uri)
        for _ in range(ATTEMPTS):
            if found is not None and is_same(upload.file, found):
                self.progress.add(size=_moment(upload.file).size)
                return False
            try:
                self._transmit(upload, found.generation if found is not None else 0)
                return True
            except PreconditionFailed:
                try:
                    found = self.client.bucket(bucket).get_blob(
                        name, timeout=self.settings.timeout, retry=self.settings.retry()
                    )
                except Forbidden:
                    return False  # it is there, under a name made of its content
        raise StorageError(f"{upload.uri} is being written by somebody else.", hint="Run the command again.")

    def _transmit(self, upload: Upload, generation: int) -> None:
        """Send a file in place of that generation (0: of nothing). Repeating is safe, for it is named."""
        bucket, name = split_object(upload.uri)
        blob = self.client.bucket(bucket).blob(name)
        before = _moment(upload.file)
        if before.size > self.settings.chunk:
            sent = self._send_in_parts(upload, blob, before.size, generation)
        else:
            content = upload.file.read_bytes()
            sent = self.simple.send(bucket, name, content, generation)
            self._count(len(content))
        if _moment(upload.file) != before:
            self._take_back(blob, sent)
            raise _changed(upload)

    def _send_in_parts(self, upload: Upload, blob: Blob, size: int, generation: int) -> int:
        """Send a large file by a resumable upload; the generation that it is now."""
        blob.chunk_size = self.settings.chunk
        with _Counted(upload.file, self._count) as stream:
            try:
                blob.upload_from_file(
                    stream,
                    size=size,
                    content_type=CONTENT_TYPE,
                    if_generation_match=generation,
                    checksum="crc32c",
                    timeout=self.settings.timeout,
                    retry=self.settings.retry(),
                )
            except ValueError as error:  # of fewer bytes in the file, or of an answer that is no JSON
                if upload.file.stat().st_size == size:
                    raise
                raise _changed(upload) from error
            self._count(stream.pending)
        return int(blob.generation)

    def _take_back(self, blob: Blob, generation: int) -> None:
        """Remove an object that is not what its name says. The next staging would notice it, too."""
        from google.api_core.exceptions import GoogleAPICallError

        with suppress(GoogleAPICallError):
            blob.delete(if_generation_match=generation, timeout=self.settings.timeout)

    def _count(self, size: int) -> None:
        """Count bytes that have arrived. Raises StorageError when another file has failed meanwhile."""
        self.progress.add(size=size)
        if self.pool.over.is_set():
            raise StorageError("Staging was given up.")


class Progress:
    """The progress of a transfer, as one line; several threads add to it."""

    def __init__(self, files: int, size: int) -> None:
        self.files = files
        self.size = size
        self._lock = Lock()
        self._files = 0
        self._bytes = 0

    def add(self, *, files: int = 0, size: int = 0) -> None:
        """Count files and bytes that have arrived, or were there."""
        with self._lock:
            self._files += files
            self._bytes += size

    def __str__(self) -> str:
        full = BAR * self._bytes // self.size if self.size else BAR
        bar = "#" * full + "." * (BAR - full)
        sent, size = (f"{count / 1_000_000:.1f}" for count in (self._bytes, self.size))
        return f"Staging {self._files} of {self.files} files  {bar}  {sent} of {size} MB"


class _Counted(io.FileIO):
    """A file that reports each block as sent when the next one is read."""

    def __init__(self, file: Path, count: Callable[[int], None]) -> None:
        super().__init__(str(file))
        self.count = count
        self.pending = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.count(self.pending)
        data = super().read(-1 if size is None else size) or b""
        self.pending = len(data)
        return data


def _moment(file: Path) -> _Moment:
    found = file.stat()
    return _Moment(size=found.st_size, modified=found.st_mtime_ns, inode=found.st_ino)


def without_repetition(listing: HTTPIterator, bucket: str) -> Iterator[Blob]:
    """The objects of all pages. Raises StorageError where the pages do not end."""
    seen: set[str | None] = set()
    for page in listing.pages:
        yield from page
        if listing.next_page_token in seen or len(seen) >= MOST_PAGES:
            raise StorageError(f"The list of gs://{bucket} does not end: its pages repeat.")
        seen.add(listing.next_page_token)


def is_same(file: Path, blob: Blob) -> bool:
    """Whether an object has a file's content: as many bytes, with the same checksum if it has one."""
    return bool(blob.size == _moment(file).size and blob.crc32c in (None, _crc32c(file)))


def _crc32c(file: Path) -> str:
    """The checksum of a file as the service writes it."""
    from google_crc32c import Checksum

    checksum = Checksum()
    with file.open("rb") as stream:
        while data := stream.read(MEBIBYTE):
            checksum.update(data)
    return base64.b64encode(checksum.digest()).decode("ascii")


def _changed(upload: Upload) -> StorageError:
    return StorageError(f"{upload.file} changed while it was staged.", hint="Run the command again.")
