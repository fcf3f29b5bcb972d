"""`vtrain gc`: gives back the space of what vtrain keeps."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from vtrain.commands.session import open_console
from vtrain.errors import UsageError
from vtrain.flags.options import CommonFlags, DryRunFlag, PruneFlags
from vtrain.settings import home_folder

TABLE = "table(name, kind, sizeText:label=SIZE, created, status)"


def gc(prune: PruneFlags, run: DryRunFlag, common: CommonFlags) -> None:
    """Remove what `leftovers` finds, and list it with what became of it."""
    console = open_console(common)
    if not prune.images:
        raise UsageError(
            "gc needs to be told what to remove.",
            hint="Give --images: images that vtrain built, and what ended jobs left in the engine.",
        )
    from vtrain.containers.engine import connect
    from vtrain.leftovers import active_jobs, cached_images, orphans, remove

    home = home_folder()
    with closing(connect()) as engine:
        active = active_jobs(home)
        documents = []
        for stale in orphans(engine, home, active):
            kept = "" if run.dry_run else remove(engine, stale)
            documents.append(_document(stale, kept, dry_run=run.dry_run))
        for image in cached_images(engine, active):
            kept = image.kept if image.kept or run.dry_run else remove(engine, image)
            documents.append(_document(image, kept, dry_run=run.dry_run))
    if not documents and console.format is None:
        console.status("There is nothing to remove.")
        return
    console.results(documents, TABLE)


def _document(leftover: Any, kept: str, *, dry_run: bool) -> dict[str, Any]:
    status = f"kept: {kept}" if kept else "would be removed" if dry_run else "removed"
    return {
        "name": leftover.name,
        "id": leftover.id,
        "kind": leftover.kind,
        "size": leftover.size,
        "sizeText": _size(leftover.size),
        "created": leftover.created,
        "status": status,
    }


def _size(size: int) -> str:
    return f"{size / 1e6:.0f} MB" if size else ""
