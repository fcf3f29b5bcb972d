"""Programs that live on when this process ends, and the open files that they may have (`ulimit -n`).

It imports little: a command starts one before all else.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from vtrain.errors import UnavailableError


def spawn_holding(lock: int, argv: list[str], env: dict[str, str], log: Path | None) -> int:
    """Start a program in a session of its own that holds `lock` from now on; its process id.

    The number of the descriptor there becomes its last argument. Of what this process itself has inherited
    nothing else is handed on: a caller's lock or pipe would last as long as the job. Closes `lock` here.
    Without a `log` the program's output is dropped. Raises OSError.
    """
    log_flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    if log is not None and os.path.lexists(log) and not log.is_file():
        from vtrain.atomic import rename_damaged

        rename_damaged(log)
    held = 3 if lock != 3 else 4
    actions: list[tuple[Any, ...]] = [
        *((os.POSIX_SPAWN_CLOSE, number) for number in _inherited() if number != lock),
        # Here it stays closed to children: one that another thread starts now would hold it too.
        (os.POSIX_SPAWN_DUP2, lock, held),
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log or os.devnull), log_flags, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    try:
        with limit_of_user():
            return os.posix_spawn(argv[0], [*argv, str(held)], env, file_actions=actions, setsid=True)
    finally:
        os.close(lock)


def _inherited() -> list[int]:
    """The descriptors that a child would get from this process, beside the three standard ones."""
    found = []
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - of Linux and of macOS
        with suppress(OSError):  # the one that lists the folder is gone by now
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
    return found


OWN_FILES = 64
"""Of a supervisor beside those of its replicas: its store, its log, and what it opens for a moment."""

_raised: list[tuple[int, int]] = []
"""The limits of this process's user, once they were raised."""


def files_needed(replicas: int, each: int) -> int:
    """How many files a supervisor has open at a time whose replicas need `each`."""
    return OWN_FILES + replicas * each


def check_files(needed: int) -> None:
    """Raise UnavailableError where this user may not have that many files open."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most != resource.RLIM_INFINITY and needed > most:
        raise UnavailableError(
            f"The job needs up to {needed} open files, and this user may have {most}.",
            hint="Lower replicaCount, or have the limit raised (ulimit -Hn).",
        )


def allow_files(needed: int) -> None:
    """Let this process have that many files open, as far as its user may."""
    soft, most = limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft not in (most, resource.RLIM_INFINITY) and soft < needed:
        wanted = needed if most == resource.RLIM_INFINITY else min(needed, most)
        with suppress(ValueError, OSError):  # macOS allows fewer than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
            _raised.append(limits)


@contextmanager
def limit_of_user() -> Iterator[None]:
    """Start a program meanwhile: a trainer has the limit that its user has set."""
    own = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _raised:
        resource.setrlimit(resource.RLIMIT_NOFILE, _raised[0])
    try:
        yield
    finally:
        if _raised:
            resource.setrlimit(resource.RLIMIT_NOFILE, own)
