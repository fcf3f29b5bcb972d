"""Programs that live on when this process ends. It imports little: a command starts one before all else."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from vtrain.runtime.file_limit import limit_of_user


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
