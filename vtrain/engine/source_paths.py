"""From the place where code ran to the place where its author edits it."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from vtrain.failure import Traceback, missing_module

_INSTALLED = re.compile(r".*/(?:site-packages|files|work|usr/app|opt/vtrain/site)/(.+)")
_PACKAGED = re.compile(r".*/(?:site-packages|work|usr/app|opt/vtrain/site)/((?!vtrain_script/).+)")
_FRAME = re.compile(r'(File ")([^"]+)(", line \d+.*)')


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


def sibling_hint(trace: Traceback, source_folder: str) -> str:
    """What to write instead of a bare import of a module that lies beside the importing file; or nothing.

    `trace` is as Python wrote it, with the paths of the code that ran.
    """
    top = missing_module(trace.exception).partition(".")[0]
    match = _PACKAGED.fullmatch(trace.file)
    package = ".".join(Path(match[1]).parent.parts) if match else ""
    if not (top and package):
        return ""
    beside = Path(_path(trace.file, source_folder) if source_folder else trace.file).with_name(top)
    if not (beside.with_suffix(".py").is_file() or beside.is_dir()):
        return ""
    return f"`{top}` is a module of {package}: write `from {package} import {top}`."
