"""The program that prepares a job: `prepare.py FOLDER CHANNEL`. Its result is a file in the folder.

`CHANNEL` is the descriptor of a socket to the supervisor, for the output of tools.
"""

from __future__ import annotations

import os
import sys

if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):  # noqa: PTH100, PTH120
    del sys.path[0]  # this folder: its modules would stand for packages of the same name, such as `docker`

import signal
import threading
from functools import partial
from pathlib import Path

import vtrain.lean_msgspec  # noqa: F401 - before those that import msgspec
from vtrain.backends.registry import runtime_backend
from vtrain.runtime.environments.layers import ToolKilled
from vtrain.runtime.folder import JobFolder, write_struct
from vtrain.runtime.launching import PREPARATION, Preparation, PrepareFailed
from vtrain.special_files import MOST_FRAMES


class _Ended(BaseException):
    """SIGTERM: what is half made is removed. After a KeyboardInterrupt `subprocess` waits for no tool."""


def main(folder: JobFolder, channel: int) -> None:
    """Prepare the job, and write the result into its folder."""
    threading.Thread(target=_end_with_supervisor, args=(channel,), daemon=True).start()
    order, tell = folder.order(), partial(os.write, channel)
    try:
        result = Preparation(runtimes=runtime_backend(order.backend).prepare(order, tell))
    except ToolKilled as killed:  # no result: the supervisor begins again
        tell(f"{killed}\n".encode())
        return
    except PrepareFailed as failed:
        result = Preparation(failure=failed.message, hint=failed.hint, is_transient=failed.is_transient)
    except Exception as fault:
        import traceback

        traceback.print_exc()
        result = Preparation(failure=f"The environment could not be made: {fault!r}.")
    try:
        write_struct(folder.path / PREPARATION, result)
    except OSError as error:
        tell(f"The result of the preparation cannot be stored: {error.strerror}.\n".encode())


def _end_with_supervisor(channel: int) -> None:
    """End this program and its tools when nobody listens any more: the next supervisor prepares anew."""
    os.read(channel, 1)
    os.killpg(0, signal.SIGTERM)


def _end(*_: object) -> None:
    raise _Ended


if __name__ == "__main__":
    sys.setrecursionlimit(MOST_FRAMES)
    signal.signal(signal.SIGTERM, _end)
    os.set_inheritable(int(sys.argv[2]), False)
    try:
        main(JobFolder(Path(sys.argv[1])), int(sys.argv[2]))
    except _Ended:
        os.killpg(0, signal.SIGKILL)  # a tool that ignored the signal would keep its lock on the environment
    os._exit(0)  # at once: the end of the channel tells the supervisor, which then ends the process group
