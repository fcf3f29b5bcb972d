"""What vtrain processes that were killed had begun: half-made packages, builds, removals, memos."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from vtrain.atomic import GONE, SCRATCH, UNPUBLISHED, is_held
from vtrain.engine.environments.layers import is_complete
from vtrain.engine.environments.plan import remembered_environment
from vtrain.leftovers.leftover import Leftover, Search, instant
from vtrain.leftovers.space import byte_count, last_change, refused, remove_path
from vtrain.privacy import home_label

REMOVALS = ("jobs", "packages", "environments/*")
UNFINISHED = (
    "packages/.building-*",  # of older versions
    *(f"{place}/{UNPUBLISHED}*" for place in ("packages", "environments/plans", "logs")),
)


def temporary_files(search: Search) -> Iterator[Leftover]:
    """What nobody goes on with: removals that were begun, and what nothing was written to for an hour."""
    for path in _begun(search):
        yield _leftover(path, str(path.relative_to(search.home)))
    for path in Path(tempfile.gettempdir()).glob(f"{SCRATCH}{home_label(search.home)}-*"):
        if _is_abandoned(path, search):
            yield _leftover(path, str(path))


def _begun(search: Search) -> Iterator[Path]:
    for place in REMOVALS:
        yield from sorted(search.home.glob(f"{place}/{GONE}*"))
    for pattern in UNFINISHED:
        yield from (path for path in sorted(search.home.glob(pattern)) if _is_abandoned(path, search))
    for memo in sorted((search.home / "environments" / "plans").glob("[!.]*")):
        if search.is_stale(last_change(memo)) and not _is_about(memo):
            yield memo


def _is_abandoned(path: Path, search: Search) -> bool:
    """Whether nobody works on what was begun, and nobody has for an hour."""
    try:
        own = path.lstat().st_uid == os.geteuid()
        return own and search.is_stale(last_change(path)) and not is_held(path)
    except OSError:  # it has been finished meanwhile
        return False


def _is_about(memo: Path) -> bool:
    """Whether the environment is there that a memo is about."""
    environment = remembered_environment(memo)
    return environment is not None and is_complete(environment)


def _leftover(path: Path, name: str) -> Leftover:
    return Leftover(
        id=path.name,
        name=name,
        kind="temporary",
        created=instant(last_change(path)),
        size=byte_count(path),
        discard=partial(refused, partial(_discard, path)),
    )


def _discard(path: Path) -> str:
    """A folder that another command has set aside may come back: that one decides."""
    return "another command is removing it" if is_held(path) else remove_path(path)
