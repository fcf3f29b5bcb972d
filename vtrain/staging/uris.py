"""URIs of buckets: `gs://BUCKET/OBJECT` and `file:///PATH`, taken apart and put together."""

from __future__ import annotations

import re
from pathlib import Path

from vtrain.errors import ConfigError

_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")


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
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(uri)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise ConfigError(
                f"{uri}: a file URI names an absolute path.", hint="Write file:///absolute/path."
            )
        return "file", unquote(parts.path)
    raise ConfigError(f"{uri}: expected gs://BUCKET/… or file:///….")


def split_object(uri: str) -> tuple[str, str]:
    """Bucket and object name of a `gs://` URI; raises ConfigError as `split_uri` does, and for `file:`."""
    scheme, rest = split_uri(uri)
    if scheme != "gs":
        raise ConfigError(f"{uri}: expected gs://BUCKET/….")
    bucket, _, name = rest.partition("/")
    return bucket, name


def file_uri(path: Path) -> str:
    """The `file://` URI of a path."""
    from urllib.parse import quote

    return "file://" + quote(str(path.absolute()))


def join_uri(uri: str, *parts: str) -> str:
    """A URI below another."""
    return "/".join([uri.rstrip("/"), *parts])
