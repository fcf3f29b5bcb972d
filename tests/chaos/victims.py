"""Who can be killed, and what a job is doing just then."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from lib.waiting import wait_until
from places import Place

from vtrain.errors import StorageError
from vtrain.runtime.folder import JobFolder, ReplicaFolder
from vtrain.runtime.history import read_history
from vtrain.runtime.locks import lock_holder

PHASES = ("create", "start", "run", "restart", "stop", "clean-up")


def supervisors(home: Path) -> dict[int, Path]:
    """The supervisors of that home's jobs, each with the folder of its job."""
    found = {}
    for pid, command in commands().items():
        words = [*command.split(b"\0"), b""]
        if words[1].endswith(b"/supervise.py") and words[2].startswith(f"{home}/jobs/".encode()):
            found[pid] = Path(os.fsdecode(words[2]))
    return found


def commands() -> dict[int, bytes]:
    """The command lines of all processes."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                found[int(entry.name)] = (entry / "cmdline").read_bytes()
    return found


def replicas(folder: JobFolder) -> list[ReplicaFolder]:
    """The present attempt of each replica that was ordered."""
    history = read_history(folder)
    names = sorted(path.name for path in (folder.path / "replicas").glob("*"))
    return [folder.replica(name, history.attempt(name)) for name in names]


def phase(place: Place, name: str) -> str:
    """What the job is doing: one of PHASES."""
    folder = place.folder(name)
    if (folder.path / "decision.json").exists():
        return "clean-up"
    if not (folder.path / "replicas.json").exists():
        return "create"
    if is_requested(place, name):
        return "stop"
    waiting = [replica for replica in replicas(folder) if not replica.started()]
    if waiting:
        return "restart" if any(replica.attempt for replica in waiting) else "start"
    return "run"


def is_requested(place: Place, name: str) -> bool:
    """Whether somebody has asked for the job's end; a disk that is full cannot tell."""
    try:
        return bool(place.backend._open_store().requests(name))
    except StorageError:
        return False


def kill_supervisor(place: Place, name: str) -> bool:
    """SIGKILL to the job's supervisor; whether one lived."""
    folder = place.folder(name).path
    when = phase(place, name)
    for pid, job in supervisors(place.home).items():
        if job == folder and kill(pid):
            place.tally.kill("supervisor", when)
            return True
    return False


def kill_shim(place: Place, replica: ReplicaFolder) -> bool:
    """SIGKILL to the process that keeps a replica's lines, and its end; whether one lived."""
    pid = lock_holder(replica.lock)
    if pid > 0 and replica.started() and replica.exit() is None and kill(pid):
        wait_until(lambda: lock_holder(replica.lock) != pid, "a killed process keeps its lock")
        place.tally.kill("shim", "restart" if replica.attempt else "run")
        return True
    return False


def kill(pid: int) -> bool:
    """SIGKILL; whether there was such a process."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def until_running(place: Place, names: list[str]) -> None:
    """All replicas of these jobs run; who looks at a job gives it a supervisor where it has none."""

    def running() -> bool:
        return all(place.backend.get(name) and phase(place, name) == "run" for name in names)

    wait_until(running, "the jobs do not run")
