"""Cached environments that no trainer has used for long, and no living job runs in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from vtrain.atomic import clear, set_aside
from vtrain.engine.environments.layers import is_changed, last_claimed, layers_below, withdraw
from vtrain.engine.environments.plan import remembered_environment
from vtrain.leftovers.leftover import Leftover, Search, instant
from vtrain.leftovers.living import LivingJobs, living_jobs
from vtrain.leftovers.space import USED_AGAIN, byte_count, refused

KINDS = ("packages", "dependencies", "frameworks", "wheels", "pip")
"""The folders of folders that `make_once` makes; those that read others come first."""


def cached_environments(search: Search) -> Iterator[Leftover]:
    """Environments, and what they are made of, that were used last before the search's time, or changed."""
    root = search.home / "environments"
    times = {folder: used for folder in environment_folders(root) if (used := _used(folder))}
    living = living_jobs(search.home)
    at_work = _with_below(_at_work(times, living))
    unused = {folder for folder, used in times.items() if search.is_unused(used) or is_changed(folder)}
    needed = _with_below(times.keys() - unused)
    for folder in times:
        if folder in unused and (folder in at_work or folder not in needed):
            yield _leftover(folder, times[folder], search, is_at_work=folder in at_work)


def environment_folders(root: Path) -> Iterator[Path]:
    """Environments, and what they are made of."""
    for kind in KINDS:
        yield from sorted(path for path in (root / kind).glob("[!.]*") if path.is_dir())


def _used(folder: Path) -> float:
    try:
        return last_claimed(folder)
    except FileNotFoundError:
        return 0.0


def _at_work(times: dict[Path, float], living: LivingJobs) -> Iterator[Path]:
    for folder, used in times.items():
        if folder / "bin" in living.programs or used >= living.preparing_since:
            yield folder


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


def _leftover(folder: Path, used: float, search: Search, *, is_at_work: bool) -> Leftover:
    return Leftover(
        id=folder.name,
        name=str(folder.relative_to(search.home)),
        kind="environment",
        created=instant(used),
        size=byte_count(folder),
        kept="a job uses it" if is_at_work else "",
        discard=partial(refused, partial(_discard, folder, used)),
    )


def _discard(folder: Path, seen: float) -> str:
    gone = withdraw(folder, seen, set_aside)
    if gone is None:
        return USED_AGAIN
    for memo in folder.parents[1].glob("plans/*.json"):
        if remembered_environment(memo) == folder:
            memo.unlink(missing_ok=True)
    clear(gone)
    return ""
