"""What vtrain processes that were killed had begun: half-made packages, builds, removals, memos."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from vtrain.atomic import GONE
from vtrain.engine.environments.layers import is_complete
from vtrain.engine.environments.plan import remembered_environment
from vtrain.leftovers.leftover import Leftover, Search, instant
from vtrain.leftovers.space import byte_count, last_change, refused, remove_path

REMOVALS = ("jobs", "packages", "environments/*")
BUILDS = "vtrain-build-*"


def temporary_files(search: Search) -> Iterator[Leftover]:
    """What nobody goes on with: removals that were begun, and what nothing was written to for an hour."""
    for path in _begun(search):
        yield _leftover(path, str(path.relative_to(search.home)))
    for path in Path(tempfile.gettempdir()).glob(BUILDS):
        if path.lstat().st_uid == os.geteuid() and last_change(path) < search.stale_before:
            yield _leftover(path, str(path))


def _begun(search: Search) -> Iterator[Path]:
    for place in REMOVALS:
        yield from sorted(search.home.glob(f"{place}/{GONE}*"))
    for path in sorted((search.home / "packages").glob(".building-*")):
        if last_change(path) < search.stale_before:
            yield path
    for memo in sorted((search.home / "environments" / "plans").glob("*")):
        if last_change(memo) < search.stale_before and not _is_about(memo):
            yield memo


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
        discard=partial(refused, partial(remove_path, path)),
    )
