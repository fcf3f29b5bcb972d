"""The working directory of a replica: the trainer's files, anew for each attempt, and its own to change.

The packages at its top lie there without their `__init__.py`, so that the installed ones are imported, as on
Vertex AI. A script finds an empty folder, as its package copies the files itself. At the end only what the
trainer left stays there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from vtrain.atomic import clear
from vtrain.errors import PackagingError
from vtrain.messages.custom_job import CustomJobSpec
from vtrain.packaging.archive import SNAPSHOT, packed_files
from vtrain.packaging.source import printable
from vtrain.privacy import make_private
from vtrain.runtime.folder import DamagedFileError, JobFolder, ReplicaFolder, read_struct, write_struct
from vtrain.runtime.home import Home
from vtrain.runtime.launcher import PrepareFailed

BYTECODE = "__pycache__"
MOST_COUNTED = 1000
"""Files that are counted in a folder; more are told as more."""
MOST_NAMED = 3
REMARKS = "remarks.json"
BUCKETS = "gs:"
"""The folder that a program makes which takes `gs://NAME` for a path."""
BESIDE_BUCKETS = "beside-buckets"
"""A file in an attempt's folder: its container had that folder in its working directory."""
_BLOCK = 1 << 20


class Remarks(msgspec.Struct, frozen=True, kw_only=True):
    """Sentences about the working directories of an ended job: what lies there, and what to look out for."""

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


def sift(attempt: ReplicaFolder) -> tuple[list[str], list[str]]:
    """Remove from the working directory what the trainer left as it was.

    The paths of data files that it has read there, where that can be told; and of those that it left.
    """
    work, archive = attempt.work, attempt.job.path / SNAPSHOT
    tells_reads = _tells_reads(attempt.path)
    read: list[str] = []
    folders: set[Path] = set()
    for entry in packed_files(archive) if archive.exists() else ():
        path = work / entry.path
        # Not `resolve`, which raises RuntimeError for a link to itself.
        if Path(os.path.realpath(path.parent)) != Path(os.path.realpath(work), entry.path.parent):
            continue  # a link that the trainer has made: the files behind it are somebody else's
        if tells_reads and not entry.of_script and entry.path.suffix != ".py" and _was_read(path):
            read.append(str(entry.path))
        if _is_same(path, entry.content):
            with suppress(OSError):  # the trainer may have closed the folder; then the file is left
                path.unlink()
        folders.add(path.parent)
    for folder in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
        _remove_bytecode(folder)
        _remove_empty(folder, work)
    return read, list(_left(work))


def tell(folder: JobFolder, attempts: tuple[ReplicaFolder, ...], spec: CustomJobSpec) -> Remarks:
    """Sift the working directories of a job that has ended, and keep what is to be said about them."""
    told = read_struct(folder.path / REMARKS, Remarks)
    if told is not None:  # by a supervisor that died a moment later
        return told
    found = [
        (attempt, *sift(attempt))
        for attempt in attempts
        # Behind a link that the trainer has put there lie files of the user's.
        if attempt.work.is_dir() and not attempt.work.is_symlink()
    ]
    notes = tuple(
        f"Left in the working directory of {attempt.name}: {attempt.work} ({_named(left)})"
        for attempt, _, left in found
        if left
    )
    read = sorted({path for _, paths, _ in found for path in paths})
    # Where the trainer is a package in a bucket. On Vertex AI only an image has its files at hand.
    tasks = (pool.python_package_spec for pool in spec.worker_pool_specs)
    is_staged = any(uri.startswith("gs://") for task in tasks if task for uri in task.package_uris)
    warnings = beside_buckets(attempts) + (_unlike_service(read) if is_staged else ())
    remarks = Remarks(notes=notes, warnings=warnings)
    write_struct(folder.path / REMARKS, remarks)
    (folder.path / SNAPSHOT).unlink(missing_ok=True)
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


def _unlike_service(read: list[str]) -> tuple[str, ...]:
    if not read:
        return ()
    return (
        f"The trainer read {_named(read)} in its working directory, where Vertex AI has no files of a "
        "package in a bucket. Open them beside the module (Path(__file__).parent), or --bake an image.",
    )


def _write(content: IO[bytes], path: Path, *, executable: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        shutil.copyfileobj(content, out, _BLOCK)
    path.chmod(0o755 if executable else 0o644)
    os.utime(path, ns=(0, path.stat().st_mtime_ns))  # the first reading sets another time


def _tells_reads(folder: Path) -> bool:
    """Whether the file system notes when a file is read; `noatime` is a common setting."""
    probe = folder / "probe"
    try:
        probe.write_bytes(b"x")
        os.utime(probe, ns=(0, probe.stat().st_mtime_ns))
        probe.read_bytes()
        return probe.stat().st_atime_ns != 0
    finally:
        probe.unlink(missing_ok=True)


def _was_read(path: Path) -> bool:
    try:
        return path.lstat().st_atime_ns != 0
    except OSError:
        return False


def _is_same(path: Path, content: IO[bytes]) -> bool:
    """Whether a file is still what was packed."""
    try:
        if path.is_symlink() or not path.is_file():
            return False
        with path.open("rb") as own:
            while block := content.read(_BLOCK):
                if own.read(len(block)) != block:
                    return False
            return not own.read(1)
    except OSError:
        return False


def _remove_bytecode(folder: Path) -> None:
    """Remove the files that Python compiled of the modules in a folder."""
    compiled = folder / BYTECODE
    if compiled.is_symlink() or not compiled.is_dir():
        return
    with suppress(OSError):
        for file in compiled.glob("*.pyc"):
            file.unlink()
    _remove_empty(compiled, folder)


def _remove_empty(folder: Path, top: Path) -> None:
    """Remove a folder without files, and those above it that have none either, up to `top`."""
    with suppress(OSError):  # it has files, or may not be changed
        while folder != top:
            folder.rmdir()
            folder = folder.parent


def _left(work: Path) -> Iterator[str]:
    """The files below a folder, one more than are counted at most; follows no link.

    A folder that may not be read is told itself, with a slash.
    """
    folders, count = [work], 0
    while folders and count <= MOST_COUNTED:
        folder = folders.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            count += 1
            yield f"{os.path.relpath(folder, work)}/"
            continue
        folders += [Path(entry.path) for entry in reversed(entries) if entry.is_dir(follow_symlinks=False)]
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False) and count <= MOST_COUNTED:
                count += 1
                yield os.path.relpath(entry.path, work)


def _named(paths: list[str]) -> str:
    """`model.pt, data.csv` and how many more there are."""
    shown = ", ".join(map(printable, paths[:MOST_NAMED]))
    if len(paths) > MOST_COUNTED:
        return f"{shown} and more than {MOST_COUNTED - MOST_NAMED} more"
    return f"{shown} and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else shown
