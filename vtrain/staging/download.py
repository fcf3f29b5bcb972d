"""Folders of Cloud Storage, copied to this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from vtrain.errors import StorageError
from vtrain.staging.client import Settings, refused
from vtrain.staging.transfer import is_same, without_repetition
from vtrain.staging.uris import split_object

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Client


def fetch_folder(
    client: Client, uri: str, folder: Path, settings: Settings, mend: Mapping[int, str]
) -> tuple[Path, ...]:
    """Copy the objects below a URI to a folder of this machine; the files.

    Raises StorageError for what is refused, for an object whose name leads out of the folder, and where there
    is none.
    """
    bucket, name = split_object(uri)
    prefix = f"{name.rstrip('/')}/" if name else ""
    with refused(uri, mend):
        listing = client.list_blobs(bucket, prefix=prefix, timeout=settings.timeout, retry=settings.retry())
        blobs = [blob for blob in without_repetition(listing, bucket) if not blob.name.endswith("/")]
    if not blobs:
        raise StorageError(f"There are no files in {uri}.")
    return tuple(_fetch(blob, _place(folder, blob, prefix), settings, mend) for blob in blobs)


def _place(folder: Path, blob: Blob, prefix: str) -> Path:
    """Where an object goes. Raises StorageError for a name that leads out of the folder."""
    place = Path(folder, str(blob.name).removeprefix(prefix)).resolve()
    if not place.is_relative_to(folder.resolve()) or place == folder.resolve():
        raise StorageError(f"{_uri(blob)} cannot be copied: its name leads out of the folder.")
    return place


def _fetch(blob: Blob, file: Path, settings: Settings, mend: Mapping[int, str]) -> Path:
    """Copy one object, in parts that are asked for again where a connection breaks."""
    blob.chunk_size = settings.chunk
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    except OSError as error:
        raise StorageError(f"Cannot write {file}: {error.strerror}.") from error
    with refused(_uri(blob), mend):
        blob.download_to_filename(str(file), timeout=settings.timeout, retry=settings.retry())
    if not is_same(file, blob):
        raise StorageError(f"{_uri(blob)} arrived damaged.", hint="Run the command again.")
    return file


def _uri(blob: Blob) -> str:
    return f"gs://{blob.bucket.name}/{blob.name}"
