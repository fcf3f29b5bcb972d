"""A running replica of the backend `process`, from inside: commands in its environment, and what it uses."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from vtrain.backends import ReplicaUsage
from vtrain.errors import CommandError, DamagedError
from vtrain.runtime.folder import DamagedFileError, ReplicaFolder, require_struct
from vtrain.runtime.foreground import run_in_foreground
from vtrain.runtime.job_order import ReplicaOrder
from vtrain.runtime.locks import lock_holder
from vtrain.runtime.process.process_tree import LINUX, offspring

TERMINAL_VARIABLES = ("TERM", "COLORTERM", "LS_COLORS")
"""Variables of the caller's terminal, which the replica's environment does not have."""
DEFAULT_SHELL = "/bin/sh"
NOT_FOUND_CODE, NOT_RUNNABLE_CODE = 127, 126
_CPU_FIELDS = slice(11, 15)
"""utime, stime, and those of the children that have ended, counted from the field behind the name."""


class RunningProcess:
    """The processes of one replica."""

    def __init__(self, replica: ReplicaFolder) -> None:
        """Raises DamagedError where the file that describes the replica cannot be read."""
        self.name = replica.name
        self._folder = replica
        try:
            self._order = require_struct(replica.path / "spec.json", ReplicaOrder)
        except DamagedFileError as error:
            raise DamagedError(f"{error}: nothing can be run in {replica.name}.") from error

    @property
    def shell(self) -> tuple[str, ...]:
        """The user's own shell."""
        return (os.environ.get("SHELL") or DEFAULT_SHELL,)

    def execute(self, argv: tuple[str, ...], *, terminal: bool) -> int:
        """Run a command as the replica runs: a child of this process, which shares its terminal.

        Raises CommandError for one that cannot be started.
        """
        known = {name: os.environ[name] for name in TERMINAL_VARIABLES if terminal and name in os.environ}
        try:
            env = {"TMPDIR": str(self._folder.tmp)} | self._order.env | known
            work = str(self._folder.work)
            return run_in_foreground(argv, env=env, cwd=work, preexec_fn=self._entrance())
        except FileNotFoundError as error:
            raise CommandError(f"{error.filename}: not found in {self.name}.", NOT_FOUND_CODE) from error
        except OSError as error:
            words = f"{error.filename}: {error.strerror}."
            raise CommandError(words, NOT_RUNNABLE_CODE) from error

    def usage(self) -> ReplicaUsage | None:
        """The use of all its processes, and the GPUs that it was given; None where there is no /proc."""
        shim = lock_holder(self._folder.lock)
        if shim <= 0 or not LINUX:
            return None
        seconds, memory, count = 0.0, 0, 0
        for pid, _ in offspring(shim):
            try:
                seconds += _cpu_seconds(pid)
                memory += _memory(pid)
            except (OSError, ValueError, IndexError):  # it has just ended
                continue
            count += 1
        visible = self._order.env.get("CUDA_VISIBLE_DEVICES")
        gpus = None if visible is None else tuple(filter(None, visible.split(",")))
        return ReplicaUsage(cpu_seconds=seconds, memory_bytes=memory, processes=count, gpus=gpus)

    def _entrance(self) -> Callable[[], None] | None:
        """A function that shows /gcs to the child; None where the replica does not see it."""
        folder, place = self._order.gcs, str(self._folder.work)
        if not folder:
            return None
        from vtrain.runtime.process.bucket_mount import show_buckets

        def enter() -> None:
            show_buckets(folder)
            os.chdir(place)

        return enter


def _cpu_seconds(pid: int) -> float:
    """The processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return sum(map(int, fields[_CPU_FIELDS])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> int:
    """The bytes of memory of a process; its part of those that it shares, where this user may read that."""
    try:
        shares = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    line = next(line for line in [*shares.splitlines(), "Pss: 0 kB"] if line.startswith("Pss:"))
    return int(line.split()[1]) * 1024
