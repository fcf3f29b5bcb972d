"""`vtrain` and `python -m vtrain`. It imports little at first, so that even an early Ctrl-C is handled."""

from __future__ import annotations

import gc
import os
import signal
import sys
import warnings
from collections.abc import Sequence

from vtrain.special_files import MOST_FRAMES

LOCAL_RUN = (("custom-jobs", "local-run"), ("run",))
SUBMITTING = (*LOCAL_RUN, ("custom-jobs", "create"), ("submit",))
SUBMITS_NOTHING = frozenset(("--dry-run", "--help", "-h"))


def run(*, is_repeated: bool = False) -> None:
    """The console script; `is_repeated` where `rerun` has become it."""
    if not sys.warnoptions:  # warnings of libraries are for those who ask for them with -W
        warnings.simplefilter("ignore")
    sys.setrecursionlimit(MOST_FRAMES)
    gc.disable()  # imports leave no garbage, and the search for it takes 5 % of a short command
    try:
        _open_standard_streams()
        import vtrain.lean_msgspec  # noqa: F401 - before the others

        _anticipate(sys.argv[1:])
        from vtrain.cli import main
        from vtrain.output.writing import is_unread

        code = main(sys.argv[1:], is_repeated=is_repeated)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # too late to mean anything but a traceback
        if is_unread():  # a thread that has not ended its write would keep Python from ending
            os._exit(code)
        gc.freeze()  # else the end searches for garbage too, for a fifth of a short command's time
        sys.exit(code)
    except KeyboardInterrupt:  # before `main` could handle it
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would show a traceback
        from vtrain.errors import InterruptedByUser

        print("Interrupted.", file=sys.stderr)
        sys.exit(InterruptedByUser.exit_code)


def _open_standard_streams() -> None:
    """Open a closed stdin, stdout or stderr on nothing, so that no other file gets its number.

    A program that a command becomes or starts (`exec`, `rerun`) inherits it for the same reason.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode))


def _anticipate(argv: Sequence[str]) -> None:
    """Start a supervisor at once where the command line will probably submit a job to this machine.

    Nothing depends on the guess: the command starts another where it was wrong, and one without a job ends.
    """
    words = tuple(word for word in argv if not word.startswith("-"))
    command = next((each for each in SUBMITTING if words[: len(each)] == each), ())
    named = [word.partition("=")[2] for word in argv if word.startswith("--backend=")]
    backend = named[-1] if named else os.environ.get("VTRAIN_BACKEND", "")
    home = os.environ.get("VTRAIN_HOME") or os.path.expanduser("~/.vtrain")  # noqa: PTH111 - may have no user
    if not command or not SUBMITS_NOTHING.isdisjoint(argv) or not home.startswith("/"):
        return
    if command not in LOCAL_RUN:
        from vtrain.backends.registry import LOCAL, LOCAL_CHOICE

        if backend not in (LOCAL, *LOCAL_CHOICE):
            return
    from pathlib import Path

    from vtrain.runtime.supervisor_process import stand_by

    # Not as `vtrain.backends` has it: that takes longer to import than all else here.
    stand_by(Path(__file__).with_name("backends") / "supervise.py", Path(home), backend)


if __name__ == "__main__":
    run()
