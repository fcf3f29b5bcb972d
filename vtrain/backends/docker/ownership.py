"""Makes the caller the owner of files that a job's containers wrote as another user."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from vtrain.backends.docker.container import first_order
from vtrain.containers.engine import Engine, engine_errors
from vtrain.errors import EngineError
from vtrain.rooted import Root
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.home import Home
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
    problem = ""
    for own in (*map(Root, folder.path.glob("replicas/**/work")), *_output(order)):
        problem = give_back(engine, image, own, labels, since=since) or problem
    return problem


def give_back(engine: Engine, image: str, root: Root, labels: dict[str, str], *, since: float) -> str:
    """Make the caller the owner of new files below a root. Return a sentence if that fails.

    New are those that were made or changed since `since`, in epoch seconds.

    This needs the rights of root, so a container of the job's image does it. It sees the base of the root
    alone: a link that another job puts below leads to nothing of this machine.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    owner = (str(os.getuid()), str(os.getgid()))
    while batch := _batch(root, since):
        paths = ["/".join(filter(None, (TARGET, root.within, place))) for place in batch]
        for argv in (["chown", "-h", ":".join(owner), "--"], ["python3", "-c", _PROGRAM, *owner]):
            _run_as_root(engine, image, root.base, [*argv, *paths], labels)
            if not all(_is_foreign(root, place) for place in batch):
                break
        else:
            return f"Some files below {root.path} belong to another user, as the container wrote them."
        if time.monotonic() > deadline:
            return f"Some files below {root.path} still belong to another user: there are too many of them."
    return ""


def _batch(root: Root, since: float) -> list[str]:
    """The first of the other users' new files, at most as many as one command line takes."""
    batch: list[str] = []
    room = BATCH_BYTES
    for found in root.walk():
        if found.status.st_uid != os.getuid() and found.status.st_ctime >= since:
            room -= len(os.fsencode(f"{root.path}/{found.place}")) + 1
            if room < 0:
                break
            batch.append(found.place)
    return batch


def _is_foreign(root: Root, place: str) -> bool:
    try:
        return root.status(place).st_uid != os.getuid()
    except OSError:  # it has gone meanwhile
        return False


def _output(order: JobOrder) -> tuple[Root, ...]:
    """The job's base output directory, unless another running job writes there too."""
    home = Path(order.home)
    output = _output_root(order)
    if output is None or not output.is_folder():
        return ()
    for record in Store.open(home).living():
        folder = Home(home).job(record.name)
        theirs = _output_root(folder.order()) if folder.is_readable() else None
        if record.name == order.name or theirs is None:
            continue
        if theirs.path.is_relative_to(output.path) or output.path.is_relative_to(theirs.path):
            return ()
    return (output,)


def _output_root(order: JobOrder) -> Root | None:
    uri = order.job.job_spec.output_uri
    return LocalBuckets(Path(order.home)).root(uri) if uri else None


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
