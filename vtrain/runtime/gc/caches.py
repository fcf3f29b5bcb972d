"""Cached packages, at home and staged, and cached environments that were not used for long."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from vtrain.atomic import GONE, clear, set_aside
from vtrain.runtime.environments.layers import last_claimed, layers_below, withdraw
from vtrain.runtime.gc.candidate import (
    ELSEWHERE,
    USED_AGAIN,
    Candidate,
    Search,
    byte_count,
    last_change,
    refused,
    withdraw_unused,
)
from vtrain.runtime.gc.living import job_document, living_jobs, package_folders
from vtrain.runtime.home import Home
from vtrain.runtime.store import Store
from vtrain.times import from_epoch

_CONTENT = re.compile(r"[0-9a-f]{64}")
KINDS = ("packages", "dependencies", "wheels")
"""The folders of folders that `make_once` makes; readers come first."""


def packed_packages(search: Search) -> Iterator[Candidate]:
    """Packages in the home's own folder, by their content's name."""
    yield from _unused(Home(search.home).packages.glob("*"), search)


def staged_packages(search: Search, store: Store) -> Iterator[Candidate]:
    """Packages in buckets of this home with which jobs were submitted that ended long ago.

    Only what vtrain has named itself: a folder named by its content, with a package of that name in it.
    """
    ended = store.ended_before(from_epoch(search.before))
    documents = (job_document(record, Home(search.home).job(record.name).path) for record in ended)
    buckets = Home(search.home).buckets.resolve()
    folders = {folder for folder in package_folders(documents, search.home) if folder.is_relative_to(buckets)}
    yield from _unused((folder for folder in folders if _is_ours(folder)), search)


def _is_ours(folder: Path) -> bool:
    """Whether vtrain staged it, or began to remove it."""
    begun = folder.with_name(f"{GONE}{folder.name}")
    return any(any(place.glob(f"*-{folder.name[:16]}.tar.gz")) for place in (folder, begun))


def _unused(folders: Iterable[Path], search: Search) -> Iterator[Candidate]:
    times = {folder.resolve(): last_change(folder) for folder in folders if _CONTENT.fullmatch(folder.name)}
    living = living_jobs(search.home)
    for folder, used in sorted(times.items()):
        if search.is_unused(used):
            yield Candidate(
                id=folder.name,
                name=str(folder.relative_to(search.home.resolve())),
                label=f"package {folder.name[:12]}",
                kind="package",
                created=from_epoch(used, 0),
                size=byte_count(folder),
                kept="a job uses it" if folder in living.packages else "",
                discard=partial(refused, partial(withdraw_unused, folder, used)),
            )


def cached_environments(search: Search) -> Iterator[Candidate]:
    """Environments, and what they are made of, that were used last before the search's time."""
    root = Home(search.home).environments
    times = {folder: used for folder in environment_folders(root) if (used := _used(folder))}
    living = living_jobs(search.home)
    at_work = _with_below(
        folder
        for folder, used in times.items()
        if folder / "bin" in living.programs or used >= living.preparing_since
    )
    unused = {folder for folder, used in times.items() if search.is_unused(used)}
    needed = _with_below(times.keys() - unused)
    for folder in times:
        if folder in unused and (folder in at_work or folder not in needed):
            yield _candidate(folder, times[folder], search, is_at_work=folder in at_work)


def environment_folders(root: Path) -> Iterator[Path]:
    """Environments, and what they are made of."""
    for kind in KINDS:
        yield from sorted(path for path in (root / kind).glob("[!.]*") if path.is_dir())


def _used(folder: Path) -> float:
    try:
        return last_claimed(folder)
    except FileNotFoundError:
        return 0.0


def _with_below(folders: Iterable[Path]) -> frozenset[Path]:
    """The folders, and all that they read."""
    found: set[Path] = set()
    waiting = list(folders)
    while waiting:
        folder = waiting.pop()
        if folder not in found:
            found.add(folder)
            waiting += layers_below(folder)
    return frozenset(found)


def _candidate(folder: Path, used: float, search: Search, *, is_at_work: bool) -> Candidate:
    return Candidate(
        id=folder.name,
        name=str(folder.relative_to(search.home)),
        label=f"{folder.parent.name} {folder.name[:12]}",
        kind="environment",
        created=from_epoch(used, 0),
        size=byte_count(folder),
        kept="a job uses it" if is_at_work else "",
        discard=partial(refused, partial(_discard, folder, used)),
    )


def _discard(folder: Path, seen: float) -> str:
    gone = withdraw(folder, seen, set_aside)
    if gone is None:
        return USED_AGAIN if folder.exists() else ELSEWHERE
    clear(gone)
    return ""
