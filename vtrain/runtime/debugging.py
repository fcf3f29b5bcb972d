"""A trainer under a debugger: debugpy, which listens for a client such as VS Code."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec

from vtrain.messages.custom_job import PythonPackageSpec

REQUIREMENT = "debugpy"
SCRIPT_MODULE = "vtrain_script"
"""The module that starts a script; it replaces itself by the script's own interpreter."""
_BOOT = """\
import importlib.util, os, sys
if importlib.util.find_spec("debugpy") is None:
    sys.exit(f"debugpy is not installed in this Python. Install it: {sys.executable} -m pip install debugpy")
address, sentence, client, module, *args = sys.argv[1:]
debugger = [sys.executable, "-Xfrozen_modules=off", "-m", "debugpy", "--listen", address, *client.split()]
sentence = ("Waiting for a debugger at " if client else "A debugger can attach at ") + sentence
print(sentence, file=sys.stderr, flush=True)
if module == "vtrain_script":
    import vtrain_script.__main__ as launcher
    launcher.interpreter = lambda: debugger
    sys.argv[1:] = args
    launcher.main()
else:
    os.execv(sys.executable, [*debugger, "-m", module, *args])
"""


class Debugger(msgspec.Struct, frozen=True, kw_only=True):
    """The port of 127.0.0.1 at which the primary replica listens, and whether it waits for a client."""

    port: int
    waits: bool = True

    @property
    def address(self) -> str:
        """`127.0.0.1:5678`: where a client attaches."""
        return f"127.0.0.1:{self.port}"

    def planned_argv(self, task: PythonPackageSpec, python: str) -> tuple[str, ...]:
        """The command line, as plans show it."""
        wait = ("--wait-for-client",) if self.waits else ()
        debugger = (python, "-m", REQUIREMENT, "--listen", self.address, *wait)
        return (*debugger, "-m", task.python_module, *task.args)

    def argv(self, task: PythonPackageSpec, python: str, host: str) -> tuple[str, ...]:
        """The command line of a replica that listens on an address of its own machine."""
        client = "--wait-for-client" if self.waits else ""
        place = {"host": "127.0.0.1", "port": self.port}
        attach = {"name": "Attach to vtrain", "type": "debugpy", "request": "attach", "connect": place}
        sentence = f"{self.address}\nFor launch.json of VS Code: {json.dumps(attach)}"
        words = (f"{host}:{self.port}", sentence, client)
        return (python, "-c", _BOOT, *words, task.python_module, *task.args)


def debugger_variables(
    task: PythonPackageSpec, source: str, installed: Path, *, seen: str, cwd: str
) -> dict[str, str]:
    """The variables by which breakpoints in the user's files, below `source`, hold in their installed copies.

    `installed` is the folder of the copies on this machine, `seen` what the replica calls it, `cwd` where it
    works. The copies also count as the user's own code, although they lie among the libraries.
    """
    pairs = [(source, cwd)] if source and task.python_module == SCRIPT_MODULE else []
    for root in (Path(source), Path(source, "src")) if source and not pairs else ():
        for path in sorted(root.iterdir()) if root.is_dir() else ():
            is_code = path.suffix == ".py" or (path.is_dir() and path.name != "src")
            if is_code and (installed / path.name).exists():
                pairs.append((str(path), f"{seen}/{path.name}"))
    return {
        "PATHS_FROM_ECLIPSE_TO_PYTHON": json.dumps(pairs),  # pydevd's name for its table of paths
        "IDE_PROJECT_ROOTS": os.pathsep.join(remote for _, remote in pairs),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
