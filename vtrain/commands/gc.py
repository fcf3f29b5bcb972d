"""`vtrain gc`: gives back the space of what vtrain keeps, and removes what it left behind."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from vtrain.commands.session import open_console
from vtrain.errors import EngineError, UsageError
from vtrain.flags.grammar import duration_seconds
from vtrain.flags.options import CommonFlags, DryRunFlag, PruneFlags
from vtrain.output.console import Console
from vtrain.settings import home_folder

if TYPE_CHECKING:
    from vtrain.leftovers.leftover import Leftover, Search

TABLE = "table(name, kind, sizeText:label=SIZE, created, status)"
AGE_FLAG, OLDER_THAN = "--older-than", "30d"
_NO_UNIT = re.compile(r"[0-9.]\s*\Z")


def gc(prune: PruneFlags, run: DryRunFlag, common: CommonFlags) -> None:
    """Remove what `leftovers` finds, and list it with what became of it."""
    console = open_console(common)
    search = _search(prune)
    found = _found(console, prune, search)
    documents = [_document(leftover, dry_run=run.dry_run) for leftover in found]
    if documents or console.format is not None:
        console.results(documents, TABLE)
    _sum_up(console, documents, dry_run=run.dry_run)
    if run.dry_run:
        _tell_usage(console, prune, search, documents)


def _search(prune: PruneFlags) -> Search:
    from vtrain.leftovers.leftover import Search

    return Search(
        home=home_folder(),
        older_than=_age(prune.older_than),
        now=time.time(),
        all_homes=prune.all_homes,
    )


def _age(text: str | None) -> float:
    """Seconds. A number without a unit is refused: 30 means days to most, and seconds remove everything."""
    text = OLDER_THAN if text is None else text
    if _NO_UNIT.search(text):
        raise UsageError(f"{AGE_FLAG}: {text!r} has no unit.", hint="Write days or hours, such as 7d or 12h.")
    return duration_seconds(text, AGE_FLAG)


def _found(console: Console, prune: PruneFlags, search: Search) -> Iterator[Leftover]:
    from vtrain.containers.engine import connect
    from vtrain.leftovers.sweep import on_engine, on_machine

    any_age = prune.images and prune.older_than is None
    try:
        with closing(connect()) as engine:
            yield from on_engine(engine, search, float("inf") if any_age else search.unused_since)
    except EngineError as error:
        if prune.images:
            raise
        console.status(f"Images and containers are left as they are: {error.message}")
    if not prune.images:
        yield from on_machine(search)


def _document(leftover: Leftover, *, dry_run: bool) -> dict[str, Any]:
    from vtrain.leftovers.space import bytes_in_words

    kept = leftover.kept or ("" if dry_run else leftover.discard())
    status = f"kept: {kept}" if kept else "would be removed" if dry_run else "removed"
    return {
        "name": leftover.name,
        "id": leftover.id,
        "kind": leftover.kind,
        "size": leftover.size,
        "sizeText": bytes_in_words(leftover.size) if leftover.size else "",
        "created": leftover.created,
        "status": status,
    }


def _tell_usage(console: Console, prune: PruneFlags, search: Search, documents: list[dict[str, Any]]) -> None:
    """A line for each kind: what is there, and how much of it would go."""
    from vtrain.containers.engine import connect
    from vtrain.leftovers.space import bytes_in_words
    from vtrain.leftovers.usage import usage_of_home, usage_of_images

    found = [] if prune.images else [*usage_of_home(search.home)]
    with suppress(EngineError), closing(connect()) as engine:
        found.append(usage_of_images(engine, search.home))
    for usage in found:
        going = [entry for entry in documents if entry["kind"] in usage.kinds and not _stays(entry)]
        noun = usage.noun if usage.count == 1 else f"{usage.noun}s"
        words = f"{usage.count} {noun}, {bytes_in_words(usage.size)}"
        console.status(f"{words}; {len(going)} would go, {bytes_in_words(sum(e['size'] for e in going))}.")


def _stays(document: dict[str, Any]) -> bool:
    return str(document["status"]).startswith("kept")


def _sum_up(console: Console, documents: Iterable[dict[str, Any]], *, dry_run: bool) -> None:
    from vtrain.leftovers.space import bytes_in_words

    going = [document for document in documents if not _stays(document)]
    if not going:
        console.status("There is nothing to remove.")
        return
    items = "1 item" if len(going) == 1 else f"{len(going)} items"
    size = bytes_in_words(sum(document["size"] for document in going))
    console.status(f"{'Would remove' if dry_run else 'Removed'} {items}, {size}.")
