"""Warnings of scripts with line ends of Windows, or a byte-order mark, which a shell reads as commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from vtrain.packaging.source import printable
from vtrain.text_files import encoding_of

_SHELL_SUFFIXES = (".sh", ".bash")
_MOST_BYTES = 64 * 1024
"""How much of a script is read."""


def line_end_warnings(folder: Path, files: Iterable[tuple[str, bool]], entry: str = "") -> Iterator[str]:
    """A sentence for each script among the files, which are paths and whether they are executable.

    The shell runs the `entry` whatever its name, unless it is Python's.
    """
    for path, executable in files:
        is_shells = path.endswith(_SHELL_SUFFIXES) or (path == entry and not path.endswith(".py"))
        if not (is_shells or executable):
            continue
        with (folder / path).open("rb") as file:
            text = file.read(_MOST_BYTES)
        name = printable(path)
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
