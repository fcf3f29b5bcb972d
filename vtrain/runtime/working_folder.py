"""The working directory of a replica: the trainer's files, anew for each attempt, and its own to change.

The packages at its top lie there without their `__init__.py`, so that the installed ones are imported, as on
Vertex AI. A script finds an empty folder, as its package copies the files itself. All of it stays with the
job; at the end the files that were not the trainer's before are named.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO

import msgspec

from vtrain.atomic import clear
from vtrain.errors import PackagingError
from vtrain.packaging.archive import SNAPSHOT, packed_files
from vtrain.packaging.source import printable
from vtrain.privacy import make_private
from vtrain.runtime.folder import DamagedFileError, JobFolder, ReplicaFolder, read_struct, write_struct
from vtrain.runtime.home import Home
from vtrain.runtime.launching import PrepareFailed

BYTECODE = "__pycache__"
MOST_COUNTED = 1000
"""Files that are counted in a folder; more are reported as more."""
MOST_NAMED = 3
REMARKS = "remarks.json"
BUCKETS = "gs:"
"""The folder that a program makes which takes `gs://NAME` for a path."""
BESIDE_BUCKETS = "beside-buckets"
"""A file in an attempt's folder: its container had that folder in its working directory."""
_BLOCK = 1 << 20


class Remarks(msgspec.Struct, frozen=True, kw_only=True):
    """Sentences about the working directories of an ended job: what is new there, and a warning."""

    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def keep_files(archive: str, folder: JobFolder) -> None:
    """Keep the trainer's files with the job; nothing without an archive. Raises OSError."""
    if archive:
        shutil.copyfile(archive, folder.path / SNAPSHOT)
        (folder.path / SNAPSHOT).chmod(0o600)


def kept_files(folder: JobFolder) -> str:
    """The archive that is kept with the job; empty where there is none."""
    archive = folder.path / SNAPSHOT
    return str(archive) if archive.exists() else ""


def fill(attempt: ReplicaFolder, *, opened: bool) -> None:
    """Make the working directory of an attempt that has not begun. `opened` lets every user write there.

    Raises OSError, and PrepareFailed for a damaged archive.
    """
    work, archive = attempt.work, attempt.job.path / SNAPSHOT
    clear(work)  # a supervisor died here
    make_private(work)
    try:
        for entry in packed_files(archive) if archive.exists() else ():
            if entry.of_script:
                break
            is_package_head = len(entry.path.parts) == 2 and entry.path.name == "__init__.py"
            if not is_package_head:
                _write(entry.content, work / entry.path, executable=entry.is_executable)
    except PackagingError as error:
        raise PrepareFailed(error.message, "Submit the job again.") from error
    if opened:
        for path in (work, *work.rglob("*")):
            path.chmod(0o777 if path.is_dir() or path.stat().st_mode & 0o100 else 0o666)


def tell(folder: JobFolder, attempts: tuple[ReplicaFolder, ...]) -> Remarks:
    """Look into the working directories of a job that has ended, and keep what is to be said about them."""
    earlier = read_struct(folder.path / REMARKS, Remarks)
    if earlier is not None:  # by a supervisor that died a moment later
        return earlier
    archive = folder.path / SNAPSHOT
    packed = {str(entry.path) for entry in packed_files(archive)} if archive.exists() else set()
    # Behind a link that the trainer has put there lie files of the user's.
    found = [
        (attempt, list(islice(_new_files(attempt.work, packed), MOST_COUNTED + 1)))
        for attempt in attempts
        if attempt.work.is_dir() and not attempt.work.is_symlink()
    ]
    notes = tuple(
        f"Left in the working directory of {attempt.name}: {attempt.work} ({_named(new)})"
        for attempt, new in found
        if new
    )
    remarks = Remarks(notes=notes, warnings=beside_buckets(attempts))
    write_struct(folder.path / REMARKS, remarks)
    archive.unlink(missing_ok=True)
    return remarks


def beside_buckets(attempts: Iterable[ReplicaFolder]) -> tuple[str, ...]:
    """A warning where a trainer took the address of a bucket for a path of its working directory."""
    names = dict.fromkeys(
        attempt.name
        for attempt in attempts
        if (attempt.path / BESIDE_BUCKETS).exists() or os.path.lexists(attempt.work / BUCKETS)
    )
    if not names:
        return ()
    return (
        f"{_named(list(names))} wrote to a local folder `{BUCKETS}`; on Vertex AI that is lost: use /gcs/…, "
        "a client library, or --aip-dirs=local.",
    )


def remarks_on(home: Path, job_id: str) -> Remarks:
    """The remarks on an ended job; that they are damaged, where they are."""
    try:
        return read_struct(Home(home).job(job_id).path / REMARKS, Remarks) or Remarks()
    except DamagedFileError as damage:
        return Remarks(warnings=(f"{damage}.",))


def _write(content: IO[bytes], path: Path, *, executable: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        shutil.copyfileobj(content, out, _BLOCK)
    path.chmod(0o755 if executable else 0o644)


def _new_files(work: Path, packed: set[str]) -> Iterator[str]:
    """The files below a folder that were not packed; follows no link.

    Files that Python compiled do not count. A folder that may not be read is named itself, with a slash.
    """
    folders = [work]
    while folders:
        folder = folders.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            yield f"{os.path.relpath(folder, work)}/"
            continue
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                path = os.path.relpath(entry.path, work)
                if path not in packed:
                    yield path
        below = (entry for entry in reversed(entries) if entry.is_dir(follow_symlinks=False))
        folders += [Path(entry.path) for entry in below if entry.name != BYTECODE]


def _named(paths: list[str]) -> str:
    """`model.pt, data.csv` and how many more there are."""
    shown = ", ".join(map(printable, paths[:MOST_NAMED]))
    if len(paths) > MOST_COUNTED:
        return f"{shown} and more than {MOST_COUNTED - MOST_NAMED} more"
    return f"{shown} and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else shown
