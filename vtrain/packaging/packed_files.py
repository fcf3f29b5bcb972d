"""The files of a package: how they are now, and warnings of those that will not do what they are meant to."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from vtrain.digests import file_digest
from vtrain.errors import PackagingError
from vtrain.packaging.direct import Member
from vtrain.packaging.source import printable
from vtrain.sizes import size_in_words
from vtrain.text_files import encoding_of

SIZE_WARNING = 50 * 1000 * 1000
"""Bytes of a package from which on a warning names its largest files."""
_SHELL_SUFFIXES = (".sh", ".bash")
_MOST_BYTES = 64 * 1024
"""How much of a script is read."""


class PackedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the package: its path relative to the folder, size in bytes, and sha256."""

    path: str
    size: int
    executable: bool
    digest: str

    def member(self, folder: Path, name: str = "") -> Member:
        """The file, which lies in `folder`, as a member of an archive; by its own path, or another name."""
        return Member(
            name=name or self.path,
            content=folder / self.path,
            executable=self.executable,
            digest=self.digest,
        )


def pack_file(folder: Path, path: str) -> PackedFile:
    """The present state of a file. Raises PackagingError if it cannot be read."""
    try:
        status = (folder / path).stat()
        content = file_digest(folder / path)
    except OSError as error:
        raise PackagingError(f"Cannot read {printable(path)}: {error.strerror}.") from None
    return PackedFile(path=path, size=status.st_size, executable=bool(status.st_mode & 0o100), digest=content)


def file_warnings(folder: Path, files: Sequence[PackedFile], entry: str = "") -> Iterator[str]:
    """A sentence for each script that no shell can read, and for a package that is very large.

    A shell takes the line ends of Windows, and a byte-order mark, for parts of commands. It runs the `entry`
    whatever its name, unless it is Python's.
    """
    for file in files:
        is_shells = file.path.endswith(_SHELL_SUFFIXES) or (
            file.path == entry and not file.path.endswith(".py")
        )
        if not (is_shells or file.executable):
            continue
        with (folder / file.path).open("rb") as script:
            text = script.read(_MOST_BYTES)
        name = printable(file.path)
        if is_shells and encoding_of(text):
            yield f"{name} begins with a byte-order mark, which no shell reads; save it as UTF-8 without one"
            continue
        who, what = ("shell", "each line") if is_shells else ("system", "its first line")
        wrong = text if is_shells else text.partition(b"\n")[0] + b"\n" if text.startswith(b"#!") else b""
        if b"\r\n" in wrong:
            yield (
                f"{name} has Windows line ends, which the {who} reads as a part of {what}; "
                f"`sed -i 's/\\r$//' {shlex.quote(name)}` removes them"
            )
    total = sum(file.size for file in files)
    if total > SIZE_WARNING:
        largest = sorted(files, key=lambda file: (-file.size, file.path))[:5]
        shown = ", ".join(f"{printable(file.path)} ({size_in_words(file.size)})" for file in largest)
        yield f"the package holds {size_in_words(total)}; the largest files are {shown}"
