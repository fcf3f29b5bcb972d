"""Uploads to Cloud Storage: several at a time, and only of objects that are not there."""

from __future__ import annotations

import base64
import io
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from vtrain.errors import StorageError
from vtrain.staging.buckets import Show, Staged
from vtrain.staging.cloud_client import CONTENT_TYPE, MEBIBYTE, Mend, Settings, SimpleUploader, refused
from vtrain.staging.uris import split_object

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Client

Item = TypeVar("Item")
Result = TypeVar("Result")

FIELDS = "items(name,size,crc32c,generation),nextPageToken"
ATTEMPTS = 4
"""Attempts at an object that somebody else writes at the same time."""

BAR = 24
"""Width of the bar in letters."""


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """A file, and where it goes."""

    file: Path
    uri: str


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
        self.progress = Progress(len(uploads), sum(upload.file.stat().st_size for upload in uploads))
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
            for blob in listing:
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
                self.progress.add(size=upload.file.stat().st_size)
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
        size = upload.file.stat().st_size
        if size <= self.settings.chunk:
            self.simple.send(bucket, name, upload.file.read_bytes(), generation)
            self._count(size)
            return
        blob.chunk_size = self.settings.chunk
        with _Counted(upload.file, self._count) as stream:
            blob.upload_from_file(
                stream,
                size=size,
                content_type=CONTENT_TYPE,
                if_generation_match=generation,
                checksum="crc32c",
                timeout=self.settings.timeout,
                retry=self.settings.retry(),
            )
            self._count(stream.pending)
        int(blob.generation)  # an answer without one is not the service's

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


def is_same(file: Path, blob: Blob) -> bool:
    """Whether an object has a file's content: as many bytes, with the same checksum if it has one."""
    return bool(blob.size == file.stat().st_size and blob.crc32c in (None, _crc32c(file)))


def _crc32c(file: Path) -> str:
    """The checksum of a file as the service writes it."""
    from google_crc32c import Checksum

    checksum = Checksum()
    with file.open("rb") as stream:
        while data := stream.read(MEBIBYTE):
            checksum.update(data)
    return base64.b64encode(checksum.digest()).decode("ascii")


TICK = 0.1
"""Seconds between two looks at how far the work is."""
GRACE = 2.0
"""Seconds for the threads to notice that the work is over."""


class ThreadPool(Generic[Item, Result]):
    """Calls one function for many items, `size` at a time."""

    # The threads are daemons, unlike those of concurrent.futures: a command that is interrupted does not wait
    # for an upload to end.

    def __init__(self, do: Callable[[Item], Result], size: int, tick: Callable[[], None]) -> None:
        self.do = do
        self.size = size
        self.tick = tick
        self.over = Event()
        self._todo: SimpleQueue[tuple[int, Item]] = SimpleQueue()
        self._done: SimpleQueue[tuple[int, Result | BaseException]] = SimpleQueue()

    def work_through(self, items: Sequence[Item]) -> tuple[Result, ...]:
        """The results in the order of the items. Raises what the first that failed has raised."""
        for pair in enumerate(items):
            self._todo.put(pair)
        threads = [Thread(target=self._work, daemon=True) for _ in range(min(self.size, len(items)))]
        for thread in threads:
            thread.start()
        try:
            results = self._collect(len(items))
        except Exception:
            self.over.set()
            _wait_for(threads)
            raise
        finally:
            self.over.set()
        _wait_for(threads)
        return tuple(results[number] for number in range(len(items)))

    def _work(self) -> None:
        while not self.over.is_set():
            try:
                number, item = self._todo.get_nowait()
            except Empty:
                return
            try:
                self._done.put((number, self.do(item)))
            except BaseException as error:  # it is raised where the results are collected
                self._done.put((number, error))

    def _collect(self, count: int) -> dict[int, Result]:
        results: dict[int, Result] = {}
        due = 0.0
        while len(results) < count:
            if time.monotonic() >= due:
                self.tick()
                due = time.monotonic() + TICK
            try:
                number, result = self._done.get(timeout=TICK)
            except Empty:
                continue
            if isinstance(result, BaseException):
                raise result
            results[number] = result
        return results


def _wait_for(threads: Sequence[Thread]) -> None:
    deadline = time.monotonic() + GRACE
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))
