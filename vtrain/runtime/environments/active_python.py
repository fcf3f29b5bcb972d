"""The Python that is active in the user's shell, on which a trainer can run as it is: nothing is installed.

Only the trainer's own packages are unpacked, into the job's folder, which is in that Python's path.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from vtrain.errors import ConfigError
from vtrain.packaging.archive import is_direct
from vtrain.packaging.module_imports import Import, TrainerImports
from vtrain.privacy import make_private
from vtrain.program_output import reason_line
from vtrain.runtime.environments.environment import make_wheel
from vtrain.runtime.environments.installer import is_importable, lay
from vtrain.runtime.environments.layers import EnvironmentFailed, Log, writing_environments
from vtrain.runtime.environments.plan import reading_packages
from vtrain.runtime.inheritance import inherited_environment

MOST_NAMES = 1000
"""Imports that a Python is asked about."""
_SECONDS = 20
"""How long a Python may take to answer."""
_LOOK = """\
import importlib.util, json, sys
def found(name):
    try:
        if importlib.util.find_spec(name) is not None:
            return True
        package = importlib.util.find_spec(name.rpartition(".")[0]) if "." in name else None
        return package is not None and package.origin is not None  # the name may be no module
    except (ImportError, ValueError, AttributeError):
        return False
names = json.load(sys.stdin)
version = "%d.%d.%d" % sys.version_info[:3]
json.dump({"version": version, "missing": [name for name in names if not found(name)]}, sys.stdout)
"""


class View(msgspec.Struct, frozen=True):
    """A Python's version, and those names among some that it cannot import."""

    version: str
    missing: tuple[str, ...]


def active_python(environ: Mapping[str, str], folder: str | None = None) -> str:
    """The path of the Python that `python3` starts in the user's shell. Raises ConfigError without one.

    VIRTUAL_ENV counts before PATH, and a shim of pyenv is replaced by the Python that it leads to, from
    `folder` (None: the current one). The environment that `uvx` makes for vtrain itself does not count.
    """
    activated = environ.get("VIRTUAL_ENV", "")
    own = Path(activated, "bin", "python")
    if activated and own.is_file():
        return str(own.absolute())
    path = environ.get("PATH", os.defpath)
    if any(part.startswith("archive-v") for part in Path(sys.prefix).parts):  # in uv's cache
        ours = str(Path(sys.prefix, "bin"))
        path = os.pathsep.join(entry for entry in path.split(os.pathsep) if entry != ours)
    found = shutil.which("python3", path=path) or shutil.which("python", path=path)
    if found is None:
        raise ConfigError(
            "No Python is active: there is no virtual environment, and no python3 on PATH.",
            hint="Activate one, or name it: --environment=current --python=PATH.",
        )
    if Path(found).parent.name == "shims":
        return _run([found, "-c", "import sys; print(sys.executable)"], environ, cwd=folder).strip()
    return str(Path(found).absolute())


def _run(argv: list[str], environ: Mapping[str, str], text: str = "", cwd: str | None = None) -> str:
    """The output of an interpreter. Raises ConfigError where it does not run."""
    try:
        done = subprocess.run(
            argv,
            env=dict(environ),
            input=text,
            cwd=cwd,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = reason_line((getattr(error, "stderr", "") or "").splitlines()) or str(error)
        raise ConfigError(f"The Python {argv[0]} does not run: {said.rstrip('.')}.") from error
    return done.stdout


def version_of(python: str) -> tuple[int, ...]:
    """The first two numbers of a Python's version, from its file's name, or else from itself.

    Raises as `view_of`.
    """
    named = re.fullmatch(r"python(\d+)\.(\d+)", Path(python).resolve().name)
    numbers = named.groups() if named else view_of(python, ()).version.split(".")[:2]
    return tuple(map(int, numbers))


def view_of(python: str, names: Collection[str]) -> View:
    """The view of that Python on modules of these names. Raises ConfigError where it does not run."""
    asked = msgspec.json.encode(list(names)[:MOST_NAMES]).decode()
    text = _run([python, "-c", _LOOK], inherited_environment(), asked, cwd="/")
    try:
        return msgspec.json.decode(text.encode(), type=View)
    except msgspec.DecodeError:
        raise ConfigError(f"{python} does not answer as a Python does.") from None


def lacking(python: str, trainer: TrainerImports) -> tuple[Import, ...]:
    """The imports that a trainer surely runs and that Python lacks. Raises as `view_of`."""
    asked: dict[str, Import] = {}
    for item in trainer.imports:
        top = item.module.partition(".")[0]
        is_own = top in trainer.own_names or trainer.modules.exists(top)
        if item.is_certain and not is_own and top not in sys.stdlib_module_names:
            for name in item.names[1:] or (item.module,) if top == "google" else (top,):
                asked.setdefault(name, item)
    return tuple(asked[name] for name in view_of(python, asked).missing) if asked else ()


def unpack_packages(packages: tuple[Path, ...], home: Path, folder: Path, log: Log) -> Path:
    """Unpack packages, without their requirements, into a new folder below `folder` to import them from.

    Raises EnvironmentFailed for one that more than unpacking installs.
    """
    site = folder / os.urandom(3).hex() / "site-packages"  # as tracebacks of other environments have it
    with reading_packages(), writing_environments(folder):
        make_private(folder)
        site.mkdir(parents=True)
        for package in packages:
            is_made = package.suffix == ".whl" or is_direct(package)
            ready = package if is_made else make_wheel(package, home, log)
            if ready.suffix == ".whl" and not is_importable(ready):
                raise EnvironmentFailed(
                    f"{package.name} has parts that only an installer puts in place.",
                    hint="Install it in that Python, or take --environment=new.",
                )
            lay(ready, site)
    return site
