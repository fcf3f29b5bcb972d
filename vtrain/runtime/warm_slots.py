"""Warm slots of persistent resources: processes that keep modules imported between jobs.

    slots/RESOURCE/KEY.lock      held by the preloader
    slots/RESOURCE/KEY.socket    where it takes requests, once the modules are imported
    slots/RESOURCE/KEY.reason    why the modules cannot be kept imported
    slots/RESOURCE/KEY.log       its output

RESOURCE is made of the resource's name. KEY is made of the interpreter, the modules, the variables but for
those of one job, and what a fork has of the process that it comes from. The first replica of a key starts as
usual, and a preloader after it; the next ones start as forks of that.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from vtrain.atomic import remove_folder
from vtrain.digests import content_digest
from vtrain.messages.secrets import secrets_of
from vtrain.privacy import make_private
from vtrain.retry import wait_until
from vtrain.runtime.folder import ReplicaFolder
from vtrain.runtime.home import Home
from vtrain.runtime.job_order import WarmSlot
from vtrain.runtime.locks import hold_lock, lock_holder
from vtrain.runtime.process.preloader import REASON, REQUEST_SECONDS, WANTED
from vtrain.runtime.process.process_tree import LINUX, identify, signal_all
from vtrain.runtime.spawning import spawn_holding

END_SECONDS = 5.0
PRELOADER = Path(__file__).parent / "process" / "preloader.py"
OF_ONE_JOB = frozenset(
    "CLUSTER_SPEC TF_CONFIG MASTER_ADDR MASTER_PORT RANK WORLD_SIZE TMPDIR CLOUDSDK_CONFIG "
    "GOOGLE_APPLICATION_CREDENTIALS NO_GCE_CHECK STORAGE_EMULATOR_HOST "
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy".split()
)
PREFIXES_OF_ONE_JOB = ("AIP_", "CLOUD_ML_")
"""The variables that the runtime gives each job anew, and proxies, whose URLs often hold a password. An
import is not expected to read them."""


def warm_slot(
    home: Path, owner: str, modules: tuple[str, ...], python: str, env: dict[str, str], most: int
) -> WarmSlot | None:
    """The slot of a replica with these variables; None where processes cannot be forked like this.

    `python` is the interpreter of what its packages require. The persistent resource `owner` has at most
    `most` preloaders. None also for a replica with secrets in its variables, passwords in URLs among them, as
    a preloader keeps these when the job has ended.
    """
    kept = {
        name: value
        for name, value in sorted(env.items())
        if name not in OF_ONE_JOB and not name.startswith(PREFIXES_OF_ONE_JOB)
    }
    if not LINUX or any(secrets_of(kept)):
        return None
    jobs = f"{home}/jobs/"  # below it lies the environment of one job
    path = kept.get("PATH", os.defpath).split(os.pathsep)
    kept["PATH"] = os.pathsep.join(entry for entry in path if not entry.startswith(jobs))
    key = content_digest(msgspec.json.encode((python, modules, kept, _inherited())))[:16]
    folder = str(Home(home).slots_of(owner))
    return WarmSlot(folder=folder, key=key, python=python, modules=modules, env=kept, most=most)


def _inherited() -> tuple[Any, ...]:
    """The file mode mask, limits, priority and processors of this process, which its children have too."""
    limits = [
        resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")
    ]
    with Path("/proc/self/status").open(encoding="ascii", errors="replace") as status:
        mask = next((line for line in status if line.startswith("Umask:")), "")
    return mask, limits, os.getpriority(os.PRIO_PROCESS, 0), sorted(os.sched_getaffinity(0))


def start_warm(replica: ReplicaFolder, slot: WarmSlot, lock: int) -> int | None:
    """Have the slot's preloader fork the replica's shim, which holds `lock` from then on; its process id.

    None, and nothing was started, where no preloader is ready. Closes `lock` unless it answers None.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(REQUEST_SECONDS)
        folder = os.open(slot.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:  # the name of a socket has at most 107 bytes, and that of a home may have more
            connection.connect(f"/proc/self/fd/{folder}/{slot.key}.socket")
        finally:
            os.close(folder)
        log = os.open(replica.path / "shim.log", flags, 0o600)
        try:
            socket.send_fds(connection, [bytes(replica.path)], [lock, log])
        finally:
            os.close(log)
        answer = connection.recv(32)
        if answer.isdigit():
            connection.sendall(WANTED)
            os.close(lock)
            return int(answer)
    return None


def keep_warm(slot: WarmSlot) -> None:
    """Start the slot's preloader unless it is there, or said why it cannot be; end the oldest of too many."""
    folder = Path(slot.folder)
    try:
        make_private(folder)
        report = folder / f"{slot.key}.{REASON}"
        lock = None if report.exists() else hold_lock(folder / f"{slot.key}.lock")
        if lock is None:
            return
        argv = [slot.python, str(PRELOADER), str(folder), slot.key, *slot.modules]
        spawn_holding(lock, argv, slot.env, folder / f"{slot.key}.log")
        others = [path for path in folder.glob("*.lock") if path.stem != slot.key]
        others.sort(key=lambda path: path.stat().st_mtime)
        for path in others[: max(len(others) + 1 - slot.most, 0)]:
            _end(path)
    except OSError:
        return  # jobs go on to start without it


def cold_note(slot: WarmSlot) -> str:
    """Why no process keeps the slot's modules imported; nothing where one does, or may do so yet."""
    try:
        why = Path(slot.folder, f"{slot.key}.{REASON}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return f"{', '.join(slot.modules)} cannot be kept imported: {why}."


def end_warm_slots(folder: Path) -> None:
    """End the preloaders of a resource, and remove the folder of its slots. Replicas that run go on."""
    for path in list(folder.glob("*.lock")):
        _end(path)
    remove_folder(folder)


def _end(lock: Path) -> None:
    """End the preloader that holds a lock; one that has not said its number sees that the file is gone."""
    process = lock_holder(lock)
    if process > 0:
        found = {identify(process)}
        signal_all(found, signal.SIGTERM)
        wait_until(lambda: lock_holder(lock) != process, END_SECONDS)
    for path in (lock, *(lock.with_suffix(ending) for ending in (".socket", f".{REASON}", ".log"))):
        path.unlink(missing_ok=True)
