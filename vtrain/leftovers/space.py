"""How much a folder holds, when it was used last, and its removal."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from vtrain.atomic import clear, holding, set_aside

USED_AGAIN = "it was used just now"


def files_below(path: Path) -> Iterator[os.stat_result]:
    """The states of a file, or of a folder and all that lies in it; what vanishes meanwhile is left out."""
    with suppress(OSError):
        yield path.lstat()
    for folder, folders, names in os.walk(path):
        for name in (*folders, *names):
            with suppress(OSError):
                yield os.lstat(os.path.join(folder, name))  # noqa: PTH118 - of a hundred thousand files


def byte_count(path: Path) -> int:
    """The bytes of all files in a folder, or of a file."""
    return sum(found.st_size for found in files_below(path) if not stat.S_ISDIR(found.st_mode))


def last_change(path: Path) -> float:
    """When something in a folder was last written or used, in seconds since the epoch; 0 where nothing is."""
    return max((found.st_mtime for found in files_below(path)), default=0.0)


def bytes_in_words(count: int) -> str:
    """`12.3 MB`; units are powers of 1000."""
    size, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 999.5 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" or size >= 99.95 else f"{size:.1f} {unit}"


def refused(act: Callable[[], str]) -> str:
    """Do it; why that did not come about, in a few words. Somebody else who was faster is no reason."""
    try:
        return act()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)


def remove_path(path: Path) -> str:
    """Remove a file, or a folder with all that lies in it. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        clear(path)
    else:
        path.unlink()
    return ""


def withdraw_unused(folder: Path, seen: float) -> str:
    """Remove a folder that nobody has used since it was `seen` with that time; why it stays otherwise.

    Whoever uses it says so by its time, before it looks whether it is there.
    """
    if not folder.exists():
        clear(set_aside(folder))  # another command was killed while it removed it
        return ""
    with holding(folder):
        gone = set_aside(folder)
        if last_change(gone) != seen:
            gone.rename(folder)
            return USED_AGAIN
        clear(gone)
    return ""
