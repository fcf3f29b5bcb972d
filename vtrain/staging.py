"""Where packages are staged: buckets of `file://`, and of `gs://` kept in a folder on local backends.

Staging is by content: a name is made of what it holds, so what is there is not written again.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import msgspec

from vtrain.errors import ConfigError, StorageError

_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")


class Staged(msgspec.Struct, frozen=True, kw_only=True):
    """One staged file: its URI, and whether it had to be written."""

    uri: str
    written: bool


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

    def stage(self, file: Path, uri: str) -> Staged:
        """Put a file at a URI that is made of its content; nothing is written when it is there."""
        target = self.local_path(uri)
        if target.exists() and target.stat().st_size == file.stat().st_size:
            return Staged(uri=uri, written=False)
        _write_atomically(file, target)
        return Staged(uri=uri, written=True)


def split_uri(uri: str) -> tuple[str, str]:
    """Scheme and rest of a bucket URI: `("gs", "bucket/object")` or `("file", "/path")`.

    Raises ConfigError for another scheme, a bad bucket name, a `file:` URI with a host.
    """
    if uri.startswith("gs://"):
        rest = uri.removeprefix("gs://")
        bucket = rest.partition("/")[0]
        if not _BUCKET.fullmatch(bucket):
            raise ConfigError(f"{uri}: {bucket!r} is not the name of a bucket.")
        return "gs", rest
    parts = urlsplit(uri)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise ConfigError(
                f"{uri}: a file URI names an absolute path.", hint="Write file:///absolute/path."
            )
        return "file", unquote(parts.path)
    raise ConfigError(f"{uri}: expected gs://BUCKET/… or file:///….")


def file_uri(path: Path) -> str:
    """The `file://` URI of a path."""
    return "file://" + quote(str(path.absolute()))


def join_uri(uri: str, *parts: str) -> str:
    """A URI below another."""
    return "/".join([uri.rstrip("/"), *parts])


def stage_all(buckets: LocalBuckets, uris: Mapping[Path, str]) -> tuple[Staged, ...]:
    """Stage several files, each at its URI; raises StorageError, naming the place, when the disk refuses."""
    try:
        return tuple(buckets.stage(file, uri) for file, uri in uris.items())
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"Cannot stage {error.filename2 or error.filename}: {reason}.") from error


def _write_atomically(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        shutil.copyfile(source, partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
