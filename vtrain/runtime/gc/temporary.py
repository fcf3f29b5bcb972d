"""Unfinished work of vtrain processes that were killed: half-made packages, builds, removals."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from vtrain.atomic import GONE, SCRATCH, UNPUBLISHED, is_held
from vtrain.privacy import home_label
from vtrain.runtime.gc.candidate import Candidate, Search, byte_count, last_change, refused, remove_path
from vtrain.times import from_epoch

REMOVALS = ("jobs", "packages", "environments/*")
PUBLISHED = ("packages", "packages/*", "logs")
"""The folders of a home in which files are published, apart from those of jobs, which supervisors tidy."""
UNFINISHED = tuple(f"{place}/{UNPUBLISHED}*" for place in PUBLISHED)


def temporary_files(search: Search) -> Iterator[Candidate]:
    """Removals that were begun, and temporary files to which nothing was written for an hour."""
    for path in _begun(search):
        yield _candidate(path, str(path.relative_to(search.home)))
    for path in Path(tempfile.gettempdir()).glob(f"{SCRATCH}{home_label(search.home)}-*"):
        if _is_abandoned(path, search):
            yield _candidate(path, str(path))


def _begun(search: Search) -> Iterator[Path]:
    for place in REMOVALS:
        yield from sorted(search.home.glob(f"{place}/{GONE}*"))
    for pattern in UNFINISHED:
        yield from (path for path in sorted(search.home.glob(pattern)) if _is_abandoned(path, search))


def _is_abandoned(path: Path, search: Search) -> bool:
    """Whether nobody works on what was begun, and nobody has for an hour."""
    try:
        own = path.lstat().st_uid == os.geteuid()
        return own and search.is_stale(last_change(path)) and not is_held(path)
    except OSError:  # it has been finished meanwhile
        return False


def _candidate(path: Path, name: str) -> Candidate:
    return Candidate(
        id=path.name,
        name=name,
        kind="temporary",
        created=from_epoch(last_change(path), 0),
        size=byte_count(path),
        discard=partial(refused, partial(remove_path, path)),
    )
