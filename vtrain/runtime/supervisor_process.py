"""The process of a job's supervisor: started for a job, or before its job exists, and reaped.

Python and vtrain's modules take a supervisor a quarter of a second to load. One that waits for its job loads
them while the command still plans and packages.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vtrain.errors import StorageError
from vtrain.runtime.home import Home
from vtrain.runtime.spawning import spawn_holding

if TYPE_CHECKING:
    from vtrain.runtime.folder import JobFolder

SUPERVISOR_LOG = "supervisor.log"

_children: list[int] = []
"""The supervisors that this process has started, and therefore has to reap."""


class Standby:
    """A supervisor that waits for the lock of its job. It ends by itself when this process does."""

    def __init__(self, program: Path, home: Path, backend: str) -> None:
        """Load the modules of `backend` there. Raises OSError where no process can be started."""
        import socket

        self.home = home.absolute()
        self._ids = [random_job_id()]
        self.folder = Home(self.home).job(self._ids[0]).path
        self._channel, theirs = socket.socketpair()
        # Not with `-m`: that would import from the folder the user stands in, which may hold a `signal.py`.
        argv = [sys.executable, str(program), str(self.folder), backend]
        try:
            self.process = spawn_holding(theirs.detach(), argv, _with_vtrain(dict(os.environ)), None)
        except OSError:
            self._channel.close()
            raise

    @property
    def is_free(self) -> bool:
        """Whether nobody has the id of its job yet."""
        return bool(self._ids)

    def give_id(self) -> str:
        """The id of its job, to one caller alone. Raises IndexError for any other."""
        return self._ids.pop()

    def take(self, lock: int) -> bool:
        """Hand the lock over, and close it here; False where the supervisor has ended meanwhile."""
        with self._channel:
            import socket

            try:
                socket.send_fds(self._channel, [b"."], [lock])
            except OSError:
                return False
        os.close(lock)
        return True

    def dismiss(self) -> None:
        """End the supervisor that got no job."""
        self._channel.close()
        with suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)
        with suppress(ChildProcessError):  # reaped by another thread
            os.waitpid(self.process, 0)


_waiting: Standby | None = None


def random_job_id() -> str:
    """19 digits, as the service's own ids have."""
    return str(10**18 + int.from_bytes(os.urandom(8), "big") % (9 * 10**18))


def stand_by(program: Path, home: Path, backend: str) -> None:
    """Start a supervisor for the job that this process is about to submit, unless one waits for that home.

    `program` is that of a supervisor: its path, as for `start_supervisor`.
    One whose job is queued, or was refused, waits for nothing any more.
    """
    global _waiting
    if _waiting is not None and _waiting.home == home.absolute() and _waiting.is_free:
        return
    dismiss_standby()
    with suppress(OSError):  # the submission says so, if this machine still takes no further process then
        _waiting = Standby(program, home, backend)


def new_job_id(home: Path) -> str:
    """An id that no other job of a home has, nor will have: the one that a supervisor waits for, else any."""
    standby = _waiting
    if standby is not None and standby.home == home.absolute():
        with suppress(IndexError):  # another job has it
            return standby.give_id()
    return random_job_id()


def start_supervisor(program: Path, folder: JobFolder, lock: int) -> None:
    """Start the job's supervisor, which holds `lock` from now on.

    Raises StorageError where this machine takes no further process.
    """
    if child := _hand_over(folder, lock):
        _children.append(child)
        return
    argv = [sys.executable, str(program), str(folder.path)]
    try:
        child = spawn_holding(lock, argv, program_environment(folder), folder.path / SUPERVISOR_LOG)
    except OSError as error:
        raise StorageError(
            f"No process can be started for the job {folder.path.name}: {error.strerror}.",
            hint="The job is kept; the next command that looks at it tries again.",
        ) from error
    _children.append(child)


def _hand_over(folder: JobFolder, lock: int) -> int:
    """Give the job to the supervisor that waits for it; its process id, or 0 where none does.

    Closes `lock` when it was given away.
    """
    global _waiting
    standby = _waiting
    if standby is None or standby.folder != folder.path:
        return 0
    _waiting = None
    if standby.take(lock):
        return standby.process
    standby.dismiss()
    return 0


def dismiss_standby() -> None:
    """End the supervisor that waits, if there is one."""
    global _waiting
    standby, _waiting = _waiting, None
    if standby is not None:
        standby.dismiss()


def await_job(folder: Path, channel: int) -> int:
    """Wait, in the supervisor, for the job's lock. Its descriptor, or -1 where no job comes.

    From then on standard output and error go to the job's `supervisor.log`.
    """
    import socket

    with socket.socket(fileno=channel) as connection:
        try:
            locks = socket.recv_fds(connection, 1, 1)[1]
        except OSError:
            locks = []
    if not locks:
        return -1
    os.set_inheritable(locks[0], False)
    log = os.open(folder / SUPERVISOR_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    return locks[0]


def program_environment(folder: JobFolder) -> dict[str, str]:
    """The environment of the command that left the job waiting, else this process's.

    With a way to find this vtrain when it is not installed.
    """
    return _with_vtrain(folder.kept_environment() or dict(os.environ))


def _with_vtrain(environment: dict[str, str]) -> dict[str, str]:
    root = Path(__file__).resolve().parents[2]
    if root.name not in ("site-packages", "dist-packages"):
        paths = environment.get("PYTHONPATH", "").split(os.pathsep)
        others = [path for path in paths if path not in ("", str(root))]
        environment["PYTHONPATH"] = os.pathsep.join([str(root), *others])
    return environment


def reap() -> None:
    """Let the kernel forget the supervisors that this process has started, and that have ended."""
    for child in tuple(_children):
        try:
            has_ended = os.waitpid(child, os.WNOHANG)[0] != 0
        except ChildProcessError:
            has_ended = True
        with suppress(ValueError):  # another thread was faster
            if has_ended:
                _children.remove(child)
