"""The removal of a job."""

from __future__ import annotations

from vtrain.atomic import remove_folder
from vtrain.engine.database import storage_errors
from vtrain.engine.folder import JobFolder
from vtrain.engine.store import Store


def delete_job(store: Store, name: str, folder: JobFolder) -> None:
    """Remove an ended job: folder, then rows. Whoever is killed in the middle of it can do it again.

    Raises StorageError where the disk refuses.
    """
    store.check_writable()
    with storage_errors(folder.path.parents[1]):
        remove_folder(folder.path)
    store.delete(name)
