"""`%%vtrain [flags]` in a notebook, after `%load_ext vtrain`: the cell as a job of its own."""

from __future__ import annotations

import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

from vtrain.commands.session import vtrain_argv

FILE = "vtrain_cell.py"
"""The cell in the current folder: a script beside the modules that it imports, which `rerun` finds again."""


def register(shell: Any) -> None:
    """Add the magic to an IPython shell."""
    shell.register_magic_function(run_cell, "cell", "vtrain")


def run_cell(line: str, cell: str) -> None:
    """Run the cell as `vtrain run` would run a script, and print what it prints.

    Raises CalledProcessError where the job fails, so that the cells below do not run.
    """
    Path(FILE).write_text(cell, "utf-8")
    argv = vtrain_argv(("run", FILE, *shlex.split(line)))
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        assert child.stdout is not None
        try:
            for text in child.stdout:
                print(text, end="")
        except KeyboardInterrupt:  # of the kernel, which alone hears it
            child.send_signal(signal.SIGINT)
            raise
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, f"vtrain run {FILE} {line}".rstrip())
