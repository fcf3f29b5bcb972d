"""Advice about imports of a trainer's own modules that Python does not find where they lie."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from pathlib import Path

from vtrain.packaging.distributions import known_distribution
from vtrain.packaging.module_imports import Import, TrainerImports
from vtrain.packaging.source import printable

_HEIGHT = 2
"""How many folders above the trainer's are looked into."""


def own_module(item: Import, trainer: TrainerImports, here: Path) -> str:
    """Where an imported module of the trainer's lies, and how to run it so that Python finds it.

    Empty where nothing of that name lies in the folder and above. Commands are written for the folder `here`.
    """
    top = item.module.partition(".")[0]
    if package := trainer.modules.sibling(item.path, top):
        return f"`{top}` is a module of {package}: {_qualified(item, package)}"
    homes = trainer.modules.homes(top)
    above = [home for home in homes if trainer.script and (not home or trainer.script.startswith(f"{home}/"))]
    if above and (module := _module_name(trainer.script, above[-1])):
        run = f"run it as a module: {_command(trainer, Path(trainer.folder, above[-1]), module, here)}"
        return f"`{top}` is in {_shown(above[-1])}; {_beside(trainer, above[-1])}{run}"
    if known_distribution(top):
        return ""
    if homes:
        places = " and ".join(map(_shown, homes[:2])) + (", and elsewhere" if homes[2:] else "")
        dotted = ".".join([*homes[0].split("/"), top]).lstrip(".")
        advice = f"`{top}` is in {places}, where Python does not look; import it as {dotted}"
        if trainer.script and (module := _module_name(trainer.script, "")):
            advice += f", and run it as a module: {_command(trainer, Path(trainer.folder), module, here)}"
        return advice
    return _not_packed(top, trainer, here) if trainer.folder else ""


def _not_packed(top: str, trainer: TrainerImports, here: Path) -> str:
    """The advice about a module that lies in the folder or above it, and is not packed; or nothing."""
    folder = Path(os.path.abspath(trainer.folder))  # noqa: PTH100 - a link keeps its name
    beside = Path(folder, trainer.entry).parent
    if _holds(folder, top) or _holds(beside, top):
        return (
            f"`{top}` is in this folder, and not packed: an ignore file leaves it out, or the script is "
            "given without its folder"
        )
    for parent in folder.parents[:_HEIGHT]:
        if _holds(parent, top):
            module = _module_name(f"{folder.relative_to(parent).as_posix()}/{trainer.entry}", "")
            run = f"; run it as a module: {_command(trainer, parent, module, here)}" if module else ""
            return f"`{top}` is in {_from(parent, here)}, which is not packed{run}"
    return ""


def _holds(folder: Path, top: str) -> bool:
    """Whether a folder on this machine has a Python module, or a folder of modules, of that name."""
    with suppress(OSError):
        return (folder / f"{top}.py").is_file() or any((folder / top).glob("*.py"))
    return False


def _module_name(path: str, home: str) -> str:
    """The module that a file is to Python below a folder; empty where a name has a dot."""
    below = path[len(home) :].lstrip("/").removesuffix(".py").removesuffix("/__main__")
    return "" if "." in below else below.replace("/", ".")


def _beside(trainer: TrainerImports, home: str) -> str:
    """What else has to change: modules beside the script are not found from the folder above it."""
    package = _module_name(trainer.script.rpartition("/")[0], home)
    for item in trainer.imports:
        top = item.module.partition(".")[0]
        if not item.is_relative and trainer.modules.exists(top):
            return f"import `{top}` from {package}, and "
    return ""


def _command(trainer: TrainerImports, folder: Path, module: str, here: Path) -> str:
    place = _from(folder, here)
    if trainer.in_pool_spec:
        where = "" if folder == Path(trainer.folder) else f"local-package-path={place},"
        return f"{where}python-module={module} in --worker-pool-spec"
    return shlex.join(["vtrain", "run", *([] if place == "." else [place]), "-m", module])


def _from(folder: Path, here: Path) -> str:
    """The path from `here`, or the absolute one where that is shorter."""
    absolute = os.path.abspath(folder)  # noqa: PTH100
    return min(os.path.relpath(absolute, os.path.abspath(here)), absolute, key=len)  # noqa: PTH100


def _shown(home: str) -> str:
    return f"{printable(home)}/" if home else "this folder"


def _qualified(item: Import, package: str) -> str:
    """The import statement as Python finds the module in its package."""
    if item.members:
        return f"write `from {package}.{item.module} import {', '.join(item.members)}`"
    if "." in item.module:
        return f"write `import {package}.{item.module}`"
    return f"write `from {package} import {item.module}`"
