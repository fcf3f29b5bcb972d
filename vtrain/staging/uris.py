"""URIs of buckets: `gs://BUCKET/OBJECT` and `file:///PATH`, taken apart and put together."""

from __future__ import annotations

import os
import re
from pathlib import Path

from vtrain.errors import ConfigError
from vtrain.properties import Choice
from vtrain.settings import machine_setting

# Compiled at their first use: most commands import them and need none.
_BUCKET = r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"
_ADDRESS = r"[0-9]{1,3}(\.[0-9]{1,3}){3}"
LONGEST_COMPONENT = 63
"""Characters of a bucket's name between two dots."""


def is_bucket_name(name: str) -> bool:
    """Whether a bucket can have this name, by the rules of Cloud Storage.

    Google's own buckets have names that nobody else can create; these pass, because jobs may read them.
    """
    if not re.fullmatch(_BUCKET, name) or re.fullmatch(_ADDRESS, name):
        return False
    return all(0 < len(component) <= LONGEST_COMPONENT for component in name.split("."))


def split_uri(uri: str) -> tuple[str, str]:
    """Scheme and rest of a bucket URI: `("gs", "bucket/object")` or `("file", "/path")`.

    Raises ConfigError for another scheme, a bad bucket name, and a `file:` URI with more than a path.
    """
    if uri.startswith("gs://"):
        rest = uri.removeprefix("gs://")
        bucket = rest.partition("/")[0]
        if not is_bucket_name(bucket):
            raise ConfigError(
                f"{uri}: {bucket!r} is not the name of a bucket.",
                hint="It has 3 to 63 characters: lowercase letters, digits, dots, dashes and underscores.",
            )
        return "gs", _without_nul(rest)
    from urllib.parse import unquote, urlsplit

    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise ConfigError(f"{uri}: {error}.", hint="Give gs://BUCKET/… or file:///….") from None
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise ConfigError(
                f"{uri}: a file URI names an absolute path.", hint="Write file:///absolute/path."
            )
        if parts.query or parts.fragment:
            raise ConfigError(f"{uri}: a file URI ends before ? and #.", hint="Write %3F for ?, %23 for #.")
        return "file", _without_nul(unquote(parts.path, errors="surrogateescape"))
    hint = "" if parts.scheme else f"For a folder of this machine (--base-output-dir): {file_uri(Path(uri))}"
    raise ConfigError(f"{uri}: expected gs://BUCKET/… or file:///….", hint=hint)


def find_staging_bucket(flag: str) -> str:
    """The staging bucket as a URI, or empty: `--staging-bucket`, `VTRAIN_STAGING_BUCKET`, pyproject.toml.

    Raises ConfigError, naming which, for a URI without a bucket.
    """
    configured = machine_setting("VTRAIN_STAGING_BUCKET", "staging-bucket")
    chosen = Choice(value=flag, origin="--staging-bucket") if flag else configured
    if chosen is None:
        return ""
    uri = chosen.value if "://" in chosen.value else f"gs://{chosen.value}"
    try:
        split_uri(uri)
    except ConfigError as error:
        raise ConfigError(f"{chosen.origin}: {error.message}", hint=error.hint) from None
    return uri


def _without_nul(path: str) -> str:
    if "\0" in path:
        raise ConfigError(f"{path!r}: no path has a NUL character.")
    return path


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

    return "file://" + quote(os.fsencode(path.absolute()))


def join_uri(uri: str, *parts: str) -> str:
    """A URI below another."""
    return "/".join([uri.rstrip("/"), *parts])
