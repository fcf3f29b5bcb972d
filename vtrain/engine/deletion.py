"""Removing what nobody needs any more: out of sight in one step, then from the disk."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from vtrain.engine.database import storage_errors
from vtrain.engine.folder import JobFolder
from vtrain.engine.store import Store

GONE = ".gone-"
"""How the name of a folder begins that is being removed; whoever finds one may go on with it."""


def delete_job(store: Store, name: str, folder: JobFolder) -> None:
    """Remove an ended job: folder, then rows. Whoever is killed in the middle of it can do it again.

    Raises StorageError where the disk refuses.
    """
    store.check_writable()
    with storage_errors(folder.path.parents[1]):
        remove_folder(folder.path)
    store.delete(name)


def remove_folder(folder: Path) -> None:
    """Remove a folder, if it is there; somebody else may be doing the same. Raises OSError."""
    clear(set_aside(folder))


def set_aside(folder: Path) -> Path:
    """Rename a folder, so that nobody finds a part of it; its name from now on. Raises OSError."""
    gone = folder.with_name(f"{GONE}{folder.name}")
    clear(gone)
    with suppress(FileNotFoundError):
        folder.rename(gone)
    return gone


def clear(gone: Path) -> None:
    """Remove from the disk what was set aside. Raises OSError."""
    import shutil

    while gone.exists():
        with suppress(FileNotFoundError):
            shutil.rmtree(gone)
