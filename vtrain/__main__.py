"""`vtrain` and `python -m vtrain`: a way in that needs next to nothing, so that Ctrl-C finds it ready."""

from __future__ import annotations

import gc
import signal
import sys
import warnings


def run() -> None:
    """The console script."""
    if not sys.warnoptions:  # warnings of libraries are for those who ask for them with -W
        warnings.simplefilter("ignore")
    gc.disable()  # what is imported is no garbage, and to look for some takes a twentieth of a short command
    try:
        from vtrain.cli import main, open_standard_streams

        open_standard_streams()
        code = main(sys.argv[1:])
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # too late to mean anything but a traceback
        sys.exit(code)
    except KeyboardInterrupt:  # before anything else was there to hear it
        sys.exit(_interrupted())


def _interrupted() -> int:
    from vtrain.errors import InterruptedByUser

    print("Interrupted.", file=sys.stderr)
    return InterruptedByUser.exit_code


if __name__ == "__main__":
    run()
