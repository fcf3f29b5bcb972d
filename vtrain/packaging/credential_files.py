"""Credentials of Google Cloud among a trainer's files, known by their content: they are never packaged."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from vtrain.errors import PackagingError
from vtrain.packaging.unpacking import DAMAGED, packed_members

LARGEST = 64 * 1024
"""Bytes of the largest file that is read; a key has about 2,400."""
_SECRETS = {"service_account": "private_key", "authorized_user": "refresh_token"}
"""The `type` of a credentials file, and the field that makes it one. Source: google.auth's loaders."""
_NAMES = {"service_account": "a service-account key", "authorized_user": "a user's credentials"}
_SOURCES = (".py", ".pyi", ".pyc", ".so")
"""Suffixes of files that hold no credentials, and are most of a trainer."""
HINT = "Give credentials at run time: --service-account on Vertex AI, --credentials on this machine."


def credentials_kind(path: Path, size: int) -> str:
    """`a service-account key` or `a user's credentials`, where the file is one."""
    if size > LARGEST or path.name.endswith(_SOURCES):
        return ""
    try:
        return kind_of(path.read_bytes())
    except OSError:  # it cannot be packed either, which says so
        return ""


def kind_of(content: bytes) -> str:
    """The same of a file's content."""
    if not any(kind.encode() in content and field.encode() in content for kind, field in _SECRETS.items()):
        return ""
    try:
        document = msgspec.json.decode(content.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    kind = document.get("type") if isinstance(document, dict) else ""
    if not isinstance(kind, str) or kind not in _SECRETS:
        return ""
    return _NAMES[kind] if _SECRETS[kind] in document else ""


def check_archive(path: Path) -> None:
    """Raise PackagingError for a wheel, a .zip or a .tar.gz with credentials in it.

    An archive that cannot be read is left to the installer.
    """
    with suppress(*DAMAGED):
        for file in packed_members(path):
            if (
                file.size <= LARGEST
                and not file.name.endswith(_SOURCES)
                and (kind := kind_of(file.read(LARGEST)))
            ):
                raise PackagingError(f"{path.name} holds {kind}: {file.name!r}.", hint=HINT)
