"""The start of a command that does not outlive its parent: `python -I -S bound_command.py PARENT COMMAND…`.

It becomes the command, so it imports the standard library alone. Only Linux ends a process with its parent.
"""

# The parent cannot do this between fork and exec: it has threads, and a fork of them may hang on their locks.

from __future__ import annotations

import ctypes
import os
import signal
import sys

NOT_FOUND_CODE, NOT_RUNNABLE_CODE = 127, 126
"""The exit codes that shells have for a command that cannot be started."""
_PR_SET_PDEATHSIG = 1


def main(parent: int, argv: list[str]) -> None:
    """Become the command `argv`, which SIGKILL ends as soon as the process `parent` has ended."""
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):  # Python has changed them
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it ended before the kernel knew
            os._exit(128 + signal.SIGKILL)
    try:
        os.execvp(argv[0], argv)
    except FileNotFoundError:
        print(f"ERROR: {argv[0]}: not found.", file=sys.stderr)
        sys.exit(NOT_FOUND_CODE)
    except OSError as error:
        print(f"ERROR: {argv[0]} cannot be run: {error.strerror}.", file=sys.stderr)
        sys.exit(NOT_RUNNABLE_CODE)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
