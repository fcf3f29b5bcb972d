"""From the place where code ran to the place where its author edits it."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from vtrain.failure import Traceback

_INSTALLED = re.compile(r".*/(?:site-packages|files|work)/(.+)")
_FRAME = re.compile(r'(\s*File ")([^"]+)(", line \d+.*)')


def in_source(trace: Traceback, source_folder: str) -> Traceback:
    """The traceback with the paths of the user's own files, wherever those are still there."""
    if not source_folder:
        return trace
    lines = tuple(
        _FRAME.sub(lambda m: m[1] + _path(m[2], source_folder) + m[3], line) for line in trace.lines
    )
    return msgspec.structs.replace(trace, lines=lines, file=_path(trace.file, source_folder))


def _path(file: str, source_folder: str) -> str:
    match = _INSTALLED.fullmatch(file)
    for root in (Path(source_folder), Path(source_folder) / "src") if match else ():
        if match and (root / match[1]).is_file():
            return str(root / match[1])
    return file
