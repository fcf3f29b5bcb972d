"""The command that installs an extra: by its requirements, so that no index is asked for vtrain itself."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path


def install_command(extra: str) -> str:
    """The command, for people. It installs into vtrain's own environment, whichever pip is on PATH."""
    return pip_install(*(_requirements(extra) or [f"{Path(__file__).parents[1]}[{extra}]"]))


def command_in_a_clone(extra: str) -> str:
    """The command that installs the extra by its name, in a clone of vtrain's repository."""
    return pip_install(f".[{extra}]")


def pip_install(*words: str) -> str:
    """The command that installs these into vtrain's own environment, whatever made that."""
    from importlib.util import find_spec

    # pip reads its own configuration, in which an index and its certificate may stand; uv does not.
    tool = ["pip"] if find_spec("pip") else ["uv", "pip"]
    return shlex.join([sys.executable, "-m", *tool, "install", *words])


def _requirements(extra: str) -> list[str]:
    """The requirements of the extra, as the installed metadata has them; none where there is no metadata."""
    from importlib.metadata import PackageNotFoundError, requires

    from packaging.requirements import Requirement

    try:
        found = [Requirement(line) for line in requires("vtrain") or ()]
    except PackageNotFoundError:
        return []
    optional = [
        (each, each.marker) for each in found if each.marker and not each.marker.evaluate({"extra": ""})
    ]
    return [f"{each.name}{each.specifier}" for each, marker in optional if marker.evaluate({"extra": extra})]
