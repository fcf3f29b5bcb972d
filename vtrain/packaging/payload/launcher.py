"""Start the script that this package carries, with Python or its own interpreter, in its own folder."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

SCRIPT = "@SCRIPT@"
INTERPRETER: tuple[str, ...] = ()  # @INTERPRETER@
IMPORT_ROOTS: tuple[str, ...] = ()  # @IMPORT_ROOTS@


def enter_folder(files: Path) -> Path:
    """Work in a copy where the working folder is empty, so that an installed package stays as it is."""
    here = Path.cwd()
    if any(here.iterdir()) or not os.access(str(here), os.W_OK):
        os.chdir(str(files))
        return files
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10000)  # for folders nested as deeply as a path can be long
    for entry in files.iterdir():
        if entry.is_dir():
            shutil.copytree(str(entry), str(here / entry.name))
        else:
            shutil.copy2(str(entry), str(here))
    sys.setrecursionlimit(limit)
    return here


def interpreter() -> list[str]:
    """This interpreter with the options it was started with (`-u`, `-X ...`)."""
    line = getattr(sys, "orig_argv", [sys.executable])
    return [sys.executable, *(line[1 : line.index("-m")] if "-m" in line else [])]


def main() -> None:
    top = enter_folder(Path(__file__).absolute().parent / "files")
    if IMPORT_ROOTS:
        given = os.environ.get("PYTHONPATH")
        roots = [str(top / root) for root in IMPORT_ROOTS]
        os.environ["PYTHONPATH"] = os.pathsep.join([*roots, *([given] if given else [])])
    run = getattr(sys, "vtrain_run_script", None)
    if run is not None and not INTERPRETER:  # modules are imported already, which a new start would lose
        run(SCRIPT, [str(top / root) for root in IMPORT_ROOTS])
    command = list(INTERPRETER) or interpreter()
    script = f"./{SCRIPT}" if SCRIPT.startswith("-") else SCRIPT
    try:
        os.execv(command[0], [*command, script, *sys.argv[1:]])
    except OSError as error:
        words = f"{SCRIPT}: it runs in {command[0]}, which does not start: {error.strerror}"
        print(words, file=sys.stderr, flush=True)
        os._exit(127)  # as a shell ends; nothing of this program is left to be closed


if __name__ == "__main__":
    main()
