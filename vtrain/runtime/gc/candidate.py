"""Candidates for removal: their age, their size, and how they are removed."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from vtrain.atomic import GONE, clear, holding, set_aside

FRESH_SECONDS = 3600.0
"""Things made or used within this time stay: a command that has not submitted its job yet may need it."""
FRESH_OF_ALL_SECONDS = 10.0
"""The same for a search for all that there is, to which the user has agreed."""
ELSEWHERE = "removed by another command"
"""The answer of `discard` where another command was faster."""
USED_AGAIN, AT_WORK = "it was used just now", "another command is removing it"
SUPERVISED, HAS_PROCESS = "a supervisor has it", "it has a process"
NO_FAULT = frozenset(("", ELSEWHERE, USED_AGAIN, AT_WORK, SUPERVISED, HAS_PROCESS))
"""The answers of `discard` after which nothing has to be mended: it is gone, or goes later."""
OUTPUT = "output"
"""The kind of the files that trainers made. Only a search that names it looks for them."""
ON_MACHINE = ("job", "environment", "package", "process", "cgroup", "temporary", OUTPUT)
ON_ENGINE = ("image", "runtime", "container", "network")
KINDS = (*ON_MACHINE, *ON_ENGINE)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """Something of vtrain's."""

    id: str
    name: str
    kind: str
    """One of `KINDS`."""
    created: str
    """When it was made or used last, in RFC 3339."""
    label: str = ""
    """A shorter name for people, where there is one."""
    size: int = 0
    """In bytes."""
    kept: str = ""
    """Why it stays; empty when it may go."""
    discard: Callable[[], str]
    """Removes it, and answers nothing, why it stays after all, or ELSEWHERE."""


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """The home to search, and the age of what may go: `older_than` in seconds, `now` since the epoch.

    `kinds` limits the search; empty: all but the output of jobs. `all_homes`: of images, those count that
    another home made; `images_of_any_age`: however new they are. `is_for_all`: what stays is found too, and
    what was used some seconds ago goes.
    """

    home: Path
    older_than: float
    now: float
    kinds: frozenset[str] = frozenset()
    all_homes: bool = False
    images_of_any_age: bool = False
    is_for_all: bool = False

    def wants(self, *kinds: str) -> bool:
        """Whether the search is for one of these kinds."""
        return not self.kinds.isdisjoint(kinds) if self.kinds else kinds != (OUTPUT,)

    @property
    def why_recent(self) -> str:
        """Why a thing stays that was used not long enough ago."""
        return "used just now" if self.older_than <= self._fresh else "newer than --older-than"

    @property
    def before(self) -> float:
        """The time before which a job must have ended to be removed."""
        return self.now - self.older_than

    @property
    def unused_since(self) -> float:
        """The time before which a thing must have been used last to be removed."""
        return self.now - max(self.older_than, self._fresh)

    @property
    def _fresh(self) -> float:
        return FRESH_OF_ALL_SECONDS if self.is_for_all else FRESH_SECONDS

    def is_unused(self, moment: float) -> bool:
        """Whether what was used last at that time may go; a time to come is that of a clock set back."""
        return moment < self.unused_since or moment > self.now + FRESH_SECONDS

    def is_stale(self, moment: float) -> bool:
        """Whether a thing may go that was written to last at that time, and that no job is known to use."""
        return abs(self.now - moment) >= FRESH_SECONDS


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The things of one kind. `kinds` are the words for them in a table of candidates."""

    noun: str
    kinds: tuple[str, ...]
    count: int
    size: int


def files_below(path: Path) -> Iterator[os.stat_result]:
    """The states of a file, or of a folder and all that lies in it; what vanishes meanwhile is left out."""
    with suppress(OSError):
        yield path.lstat()
    for folder, folders, names in os.walk(path):
        for name in (*folders, *names):
            with suppress(OSError):
                yield os.lstat(os.path.join(folder, name))  # noqa: PTH118 - of a hundred thousand files


def byte_count(path: Path, seen: set[tuple[int, int]] | None = None) -> int:
    """The bytes of all files in a folder, or of a file: of those with several names once.

    Those that were `seen` before do not count; the others are added.
    """
    seen = set() if seen is None else seen
    total = 0
    for found in files_below(path):
        file = (found.st_dev, found.st_ino)
        if stat.S_ISDIR(found.st_mode) or file in seen:
            continue
        if found.st_nlink > 1:
            seen.add(file)
        total += found.st_size
    return total


def last_change(path: Path) -> float:
    """When something in a folder was last written or used, in seconds since the epoch; 0 where nothing is."""
    return max((found.st_mtime for found in files_below(path)), default=0.0)


def remove_path(path: Path, _seen: float = 0.0) -> str:
    """Remove a file, or a folder with all that lies in it; why it stays where another command works there.

    Raises OSError, and FileNotFoundError where another command has removed it.
    """
    descriptor = -1 if path.is_symlink() else os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if descriptor >= 0:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.lstat()
        if path.is_dir() and not path.is_symlink():
            clear(path)
        else:
            path.unlink()
    except BlockingIOError:
        return AT_WORK
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    return ""


def withdraw_unused(folder: Path, seen: float) -> str:
    """Remove a folder that nobody has used since it was `seen` with that time; why it stays otherwise.

    A process that uses it says so by its time, before it looks whether it is there.
    """
    if not folder.exists():
        return remove_path(folder.with_name(f"{GONE}{folder.name}"))  # another command may have been killed
    with holding(folder):
        if not folder.exists():
            return ELSEWHERE
        gone = set_aside(folder)
        if last_change(gone) != seen:
            gone.rename(folder)
            return USED_AGAIN
        clear(gone)
    return ""
