"""Files that containers wrote as another user are given to the caller, who could not delete them else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from vtrain.containers.engine import Engine, engine_errors
from vtrain.errors import EngineError

TARGET = "/output"
_PROGRAM = (
    "import os, sys\n"
    "uid, gid = int(sys.argv[1]), int(sys.argv[2])\n"
    "for folder, folders, files in os.walk(sys.argv[3]):\n"
    "    for name in [*folders, *files, ''] :\n"
    "        path = os.path.join(folder, name) if name else folder\n"
    "        if os.lstat(path).st_uid != uid:\n"
    "            os.lchown(path, uid, gid)\n"
)


def give_back(engine: Engine, image: str, folder: Path, labels: dict[str, str]) -> str:
    """Make the caller own what lies below `folder`; a sentence where that does not work.

    Only a process with the rights of root can: a container of the job's own image.
    """
    if os.getuid() == 0 or not folder.is_dir() or not any(_foreign(folder)):
        return ""
    owner = (str(os.getuid()), str(os.getgid()))
    attempts = (
        ["chown", "-R", "-h", ":".join(owner), TARGET],
        ["python3", "-c", _PROGRAM, *owner, TARGET],
    )
    for argv in attempts:
        if _run_as_root(engine, image, folder, argv, labels):
            return ""
    return f"Some files below {folder} belong to another user, as the container wrote them."


def _foreign(folder: Path) -> Iterator[Path]:
    me = os.getuid()
    for path in (folder, *folder.rglob("*")):
        if path.lstat().st_uid != me:
            yield path


def _run_as_root(engine: Engine, image: str, folder: Path, argv: list[str], labels: dict[str, str]) -> bool:
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
    try:
        with engine_errors("give the job's files to their owner"):
            made = calls.post("/containers/create", config)["Id"]
            try:
                calls.post(f"/containers/{made}/start")
                return bool(calls.post(f"/containers/{made}/wait")["StatusCode"] == 0)
            finally:
                calls.delete(f"/containers/{made}", force=1)
    except EngineError:
        return False  # the image has no such program; the next attempt, or the sentence, follows
