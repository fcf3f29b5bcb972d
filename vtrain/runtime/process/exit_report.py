"""The report of a shim on the end of its replica: written in one piece, on a full disk too. Part of the shim.

The replica's folder has `exited.json` once the program has ended, and `exit.json` once nothing of it is left.
"""

# ruff: noqa: PTH103, PTH104, PTH107, PTH112, PTH123

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    from collections.abc import Mapping

RESERVED_BYTES = 4096
"""The size of the file that is kept for the exit code."""
KILLED_CODE = 137
"""The exit code of a program that SIGKILL has ended, or of a shell whose program it has ended."""

_MAXRSS_UNIT = 1024 if sys.platform.startswith("linux") else 1


class ExitReport:
    """The fields of a `ReplicaExit`, as they become known. `code` is None as long as the program runs.

    `job` is the folder of the job: without it nothing is written any more.
    """

    def __init__(self, folder: str, job: str) -> None:
        self.code: int | None = None
        self.message = ""
        self.stopped = False
        self.log_lost_bytes = 0
        self.left: list[dict[str, object]] = []
        self._folder = folder
        self._job = job
        self._signal = 0
        self._started = 0.0
        self._ended = 0.0
        self._oom_kills = 0
        self._cpu_seconds = 0.0
        self._peak_memory = 0

    def reserve(self) -> None:
        """Take the room that the exit code needs, as the disk may be full by then. Raises OSError."""
        with open(f"{self._folder}/exit.json.tmp", "wb") as file:
            file.write(b" " * RESERVED_BYTES)
            file.flush()
            os.fsync(file.fileno())

    def begin(self) -> None:
        """Note that the program starts now."""
        self._oom_kills = count_oom_kills()
        self._started = time.time()

    def add_usage(self, used: resource.struct_rusage) -> None:
        """Count what a process has used that has ended."""
        self._cpu_seconds += used.ru_utime + used.ru_stime
        self._peak_memory = max(self._peak_memory, used.ru_maxrss * _MAXRSS_UNIT)

    def record_exit(self, code: int) -> None:
        """Note how the program ended (below 0: by that signal), and store it before anything else is done."""
        self.code = code if code >= 0 else 128 - code
        self._signal = max(-code, 0)
        self._ended = time.time()
        self._store("exited.json")

    def write(self) -> None:
        """Write `exit.json`: nothing of the replica runs any more, or nothing that could be ended."""
        self._ended = self._ended or time.time()
        if self._store("exit.json"):
            remove_file(f"{self._folder}/exited.json")
        else:  # the disk refuses: what was stored first has all but the last figures
            with suppress(OSError):  # without it the supervisor tells that the exit code is lost
                os.rename(f"{self._folder}/exited.json", f"{self._folder}/exit.json")

    def _document(self) -> dict[str, object]:
        return {
            "code": self.code,
            "signal": self._signal,
            "message": self.message,
            "stopped": self.stopped,
            "started": self._started,
            "ended": self._ended,
            "left": self.left,
            # The kernel counts for the whole machine, so beside another exit code the count means nothing.
            "oom": self.code == KILLED_CODE and count_oom_kills() > self._oom_kills,
            "log_lost_bytes": self.log_lost_bytes,
            "peak_memory_bytes": self._peak_memory,
            "cpu_seconds": self._cpu_seconds,
        }

    def _store(self, name: str) -> bool:
        """Write the report in one piece, also where the trainer has removed this folder; whether it is there.

        Not where somebody has removed the job's: nothing of a job comes back that was removed.
        """
        temporary = f"{self._folder}/exit.json.tmp"
        try:
            if os.path.isdir(self._job):
                os.makedirs(self._folder, 0o700, exist_ok=True)
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "r+b") as file:
                file.write(json.dumps(self._document()).encode())
                file.truncate()
                file.flush()
                os.fsync(descriptor)
            os.rename(temporary, f"{self._folder}/{name}")
        except OSError:
            remove_file(temporary)
            return False
        return True


def count_oom_kills() -> int:
    """How many processes the kernel has ended for want of memory since it started."""
    try:
        with open("/proc/vmstat", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(b"oom_kill ")), 0)


def write_json(path: str, document: Mapping[str, object]) -> None:
    """Write a small file in one piece, if the disk takes it: no trainer ends because of it."""
    try:
        with open(path + ".tmp", "w") as file:
            json.dump(document, file)
        os.rename(path + ".tmp", path)
    except OSError:
        remove_file(path + ".tmp")


def remove_file(path: str) -> None:
    """Remove a file, if that is possible: it goes with its folder at the latest."""
    with suppress(OSError):
        os.remove(path)
