"""Makes the caller the owner of files that a job's containers wrote as another user."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from vtrain.backends.docker.orders import first_order
from vtrain.containers.engine import Engine, engine_errors
from vtrain.errors import ConfigError, EngineError
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.store import Store
from vtrain.staging import LocalBuckets

TARGET = "/output"
BATCH_BYTES = 256 * 1024
"""The bytes of paths on one command line; the kernel takes two megabytes."""
PATIENCE_SECONDS = 60.0
"""The time for one folder, so that a job with millions of files ends too."""
_PROGRAM = (
    "import os, sys\n"
    "for path in sys.argv[3:]:\n"
    "    try:\n"
    "        os.lchown(path, int(sys.argv[1]), int(sys.argv[2]))\n"
    "    except FileNotFoundError:\n"
    "        continue\n"
)


def mend_ownership(engine: Engine, order: JobOrder, folder: JobFolder, labels: dict[str, str]) -> str:
    """Make the caller the owner of what the job wrote into its own folders. Return a sentence if that fails.

    These are the working directories of its replicas, and its base output directory unless another running
    job writes there too. Files from before the job keep their owner.
    """
    order_of_one = first_order(folder) if os.getuid() != 0 else None
    image = str(order_of_one.config.get("Image", "")) if order_of_one is not None else ""
    if not image:
        return ""
    since = (folder.path / "spec.json").stat().st_mtime
    told = ""
    for own in (*folder.path.glob("replicas/**/work"), *_output(order)):
        told = give_back(engine, image, own, labels, since=since) or told
    return told


def give_back(engine: Engine, image: str, folder: Path, labels: dict[str, str], *, since: float) -> str:
    """Make the caller the owner of new files below `folder`. Return a sentence if that fails.

    New are those that were made or changed since `since`, in epoch seconds.

    This needs the rights of root, so a container of the job's image does it.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    owner = (str(os.getuid()), str(os.getgid()))
    while batch := _batch(folder, since):
        paths = [f"{TARGET}/{path.relative_to(folder)}" for path in batch]
        for argv in (["chown", "-h", ":".join(owner), "--"], ["python3", "-c", _PROGRAM, *owner]):
            _run_as_root(engine, image, folder, [*argv, *paths], labels)
            if not all(map(_is_foreign, batch)):
                break
        else:
            return f"Some files below {folder} belong to another user, as the container wrote them."
        if time.monotonic() > deadline:
            return f"Some files below {folder} still belong to another user: there are too many of them."
    return ""


def foreign(folder: Path, since: float) -> Iterator[Path]:
    """The paths below `folder` that belong to another user and were made or changed since `since`.

    Links are not followed, and files may vanish meanwhile.
    """
    folders = [folder]
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:  # it is gone, or not readable; then it is itself in the result
            continue
        for entry in entries:
            path = Path(entry.path)
            if _is_foreign(path, since):
                yield path
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)


def _batch(folder: Path, since: float) -> list[Path]:
    """The first of the other users' files, at most as many as one command line takes."""
    batch: list[Path] = []
    room = BATCH_BYTES
    for path in foreign(folder, since):
        room -= len(os.fsencode(path)) + 1
        if room < 0:
            break
        batch.append(path)
    return batch


def _is_foreign(path: Path, since: float = 0.0) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return found.st_uid != os.getuid() and found.st_ctime >= since


def _output(order: JobOrder) -> tuple[Path, ...]:
    """The job's base output directory, unless another running job writes there too."""
    home = Path(order.home)
    output = _output_folder(order)
    if output is None or not output.is_dir():
        return ()
    for record in Store.open(home).living():
        folder = JobFolder(home / "jobs" / record.name.rpartition("/")[2])
        theirs = _output_folder(folder.order()) if folder.is_readable() else None
        if record.name == order.name or theirs is None:
            continue
        if theirs.is_relative_to(output) or output.is_relative_to(theirs):
            return ()
    return (output,)


def _output_folder(order: JobOrder) -> Path | None:
    """The base output directory as a path of this machine; None if there is none, or it leads elsewhere."""
    uri = order.job.job_spec.output_uri
    try:
        return LocalBuckets(Path(order.home)).local_path(uri) if uri else None
    except ConfigError:  # a container has put a link in its place
        return None


def _run_as_root(engine: Engine, image: str, folder: Path, argv: list[str], labels: dict[str, str]) -> None:
    """Run a program on the folder, as root. The caller looks at the files to see whether it helped."""
    mount = {"Type": "bind", "Source": str(folder), "Target": TARGET}
    config = {
        "Image": image,
        "Entrypoint": argv,
        "Cmd": [],
        "User": "0:0",
        "Labels": labels,
        "HostConfig": {"NetworkMode": "none", "Mounts": [mount]},
    }
    calls = engine.calls
    with suppress(EngineError), engine_errors("give the job's files to their owner"):
        made = calls.post("/containers/create", config)["Id"]
        try:
            calls.post(f"/containers/{made}/start")
            calls.post(f"/containers/{made}/wait")
        finally:
            calls.delete(f"/containers/{made}", force=1)
