"""Entries of a file system beside plain files: pipes and devices without an end, folders in folders."""

from __future__ import annotations

import stat
from pathlib import Path

MOST_FRAMES = 10_000
"""Python's limit for calls in calls, in vtrain's programs: a path has room for 2,048 folders in folders, and
walks over them take up to four calls for each. Python's own limit is 1,000."""
_HANDED_OVER = ("/dev/fd", "/proc/self/fd")
"""The folders of a process's own descriptors: `<(COMMAND)` of a shell is a pipe there, which ends."""
_SAFE = ("/dev/null", "/dev/stdin")
_KINDS = (
    (stat.S_ISDIR, "it is a folder"),
    (stat.S_ISFIFO, "it is a named pipe"),
    (stat.S_ISSOCK, "it is a socket"),
    (stat.S_ISCHR, "it is a device"),
    (stat.S_ISBLK, "it is a device"),
)


def why_special(path: Path) -> str:
    """Why a path is not read as a file, in a few words; empty for a file, and for what is not there."""
    if str(path) in _SAFE or str(path.parent) in _HANDED_OVER:
        return ""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # to open it raises the same, with its name
        return ""
    return next((words for is_kind, words in _KINDS if is_kind(mode)), "")
