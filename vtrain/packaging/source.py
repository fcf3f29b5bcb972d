"""A trainer on this machine as the user names it, and the file that starts it.

Commands import this module at start-up, so it imports nothing that takes time.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from vtrain.errors import ConfigError, PackagingError

if TYPE_CHECKING:
    from vtrain.packaging.ignore_files import Belonging

_LONGEST_FIRST_LINE = 256
"""Bytes of a program's first line that the kernel looks at."""


class TrainerSource(msgspec.Struct, frozen=True, kw_only=True):
    """A trainer on this machine, in the words of `--worker-pool-spec` and `local-run`.

    Exactly one of `python_module` and `script` is set. Paths in `script`, `extra_packages`
    and `extra_dirs` are relative to `folder`, as gcloud reads them. With `script_alone` the script is
    all that belongs, and not the folder around it (a `requirements.txt` beside it counts). With
    `in_pool_spec` the command line names it in --worker-pool-spec.
    """

    folder: Path
    python_module: str = ""
    script: str = ""
    requirements: tuple[str, ...] = ()
    extra_packages: tuple[str, ...] = ()
    extra_dirs: tuple[str, ...] = ()
    script_alone: bool = False
    in_pool_spec: bool = False


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """The file that starts the trainer, and the folder from which Python reads its imports.

    `interpreter` is the command that runs a file other than Python's.
    """

    path: str
    root: str = ""
    interpreter: tuple[str, ...] = ()


def check_source(source: TrainerSource) -> None:
    """Raise ConfigError or PackagingError for two entries or none, a missing folder, or a bad name."""
    if bool(source.python_module) == bool(source.script):
        raise ConfigError("Give exactly one of python-module and script.")
    if not source.folder.exists():
        raise PackagingError(f"There is no folder {source.folder}.")
    if not source.folder.is_dir():
        raise PackagingError(f"{source.folder} is not a folder.")
    if source.python_module:
        check_module_name(source.python_module)


def check_module_name(module: str) -> None:
    """Raise PackagingError for text that `python -m` cannot run, which takes names with dashes and digits."""
    if module.endswith(".py") or "/" in module:
        name = module.removesuffix(".py").removeprefix("./").replace("/", ".").removeprefix("src.")
        raise PackagingError(
            f"python-module takes a module, not a file: use {name}.", hint="A file is given with script."
        )
    if "\\" in module or not all(part.strip() and part.isprintable() for part in module.split(".")):
        raise PackagingError(f"python-module {module!r} is not a name that Python can import.")


def find_entry(source: TrainerSource, belonging: Belonging, *, is_project: bool) -> Entry:
    """The file that starts the trainer. Raises PackagingError when it does not belong to the package."""
    if not belonging.files:
        raise PackagingError(
            f"The folder {source.folder} holds nothing to pack.",
            hint=f"{len(belonging.left_out)} paths are left out." if belonging.left_out else "",
        )
    if source.script:
        return _script_entry(source, belonging)
    return _module_entry(source, belonging, is_project)


def _script_entry(source: TrainerSource, belonging: Belonging) -> Entry:
    path = relative_path(source.folder, source.script, "the script")
    if path not in belonging.files:
        _refuse_left_out(source.folder, path, belonging)
        import difflib

        nearest = difflib.get_close_matches(path, belonging.files, n=1)
        hint = f"The nearest is {printable(nearest[0])}." if nearest else ""
        raise PackagingError(f"There is no script {path} in {source.folder}.", hint=hint)
    return Entry(
        path=path, root=path.rpartition("/")[0], interpreter=interpreter_of(source.folder / path, path)
    )


def interpreter_of(file: Path, shown: str) -> tuple[str, ...]:
    """The command that runs a script; () for Python's own and notebooks, and bash for `.sh`, as in gcloud.

    Raises ConfigError for a file that is no program: bash would run the words of any text.
    """
    if file.suffix in (".py", ".ipynb"):
        return ()
    if file.suffix == ".sh":
        return ("/bin/bash",)
    try:
        with file.open("rb") as program:
            line = program.readline(_LONGEST_FIRST_LINE)
    except OSError as error:
        raise PackagingError(f"Cannot read {printable(shown)}: {error.strerror}.") from None
    named = line[2:].decode("ascii", "replace").split(None, 1) if line.startswith(b"#!") else []
    if not named or not all(word.strip().isprintable() for word in named):
        raise ConfigError(
            f"{printable(shown)} is no program. What runs is Python (.py), a notebook (.ipynb), a shell "
            "script (.sh) or a file that begins with #!."
        )
    return tuple(word.strip() for word in named)  # with all its options as one word, as the kernel does


def relative_path(folder: Path, given: str, what: str) -> str:
    """`given`, read from the folder, as a path below it."""
    top = os.path.normpath(folder.absolute())
    try:
        return Path(os.path.normpath(Path(top, given))).relative_to(top).as_posix()
    except ValueError:
        raise PackagingError(f"{what} {given} lies outside {folder}.") from None


def _module_entry(source: TrainerSource, belonging: Belonging, is_project: bool) -> Entry:
    module = source.python_module
    for tail in module_files(module):
        roots = _roots_with(tail, belonging.files) if is_project else [""] * (tail in belonging.files)
        if roots:
            return Entry(path=f"{roots[0]}/{tail}" if roots[0] else tail, root=roots[0])
    for tail in module_files(module):
        _refuse_left_out(source.folder, tail, belonging)
    raise _missing_module(source, belonging, is_project)


def module_files(module: str) -> tuple[str, str]:
    """The files that a module may be, below the folder of its imports."""
    path = module.replace(".", "/")
    return f"{path}.py", f"{path}/__main__.py"


def _roots_with(tail: str, files: tuple[str, ...]) -> list[str]:
    """Folders below which the module lies, the usual ones first ("" and src)."""
    roots = [file[: -len(tail)].rstrip("/") for file in files if file == tail or file.endswith(f"/{tail}")]
    return sorted(roots, key=lambda root: (root not in ("", "src"), root.count("/"), root))


def _refuse_left_out(folder: Path, path: str, belonging: Belonging) -> None:
    if not (folder / path).is_file():
        return
    by = belonging.ignore_file or "the built-in excludes"
    raise PackagingError(
        f"{path} is there, but {by} leaves it out.", hint="Keep it with a `!` line, or write a .vtrainignore."
    )


def _missing_module(source: TrainerSource, belonging: Belonging, is_project: bool) -> PackagingError:
    module = source.python_module
    modules = module_names(belonging.files, is_project=is_project)
    if not modules:
        return PackagingError(f"The folder {source.folder} holds no Python module.")
    top, _, rest = module.partition(".")
    if source.folder.resolve().name == top and rest in modules:
        return PackagingError(
            f"The module {module} is not inside the package: {source.folder} is the package {top} itself.",
            hint="Give the folder that holds it as local-package-path.",
        )
    if f"{module}.__init__" in modules:
        return PackagingError(f"{module} is a package without __main__.py, which Python cannot run.")
    import difflib

    nearest = difflib.get_close_matches(module, sorted(modules), n=1, cutoff=0.4)
    near = f"the nearest is {nearest[0]}" if nearest else f"it has {', '.join(sorted(modules)[:3])}"
    return PackagingError(f"The module {module} is not inside the package; {near}.")


def module_names(files: tuple[str, ...], *, is_project: bool) -> frozenset[str]:
    """All modules in the folder, dotted; below src/ too when the folder is a project."""
    names = set()
    for file in files:
        parts = PurePosixPath(file.removesuffix(".py")).parts
        if not file.endswith(".py") or any("." in part for part in parts):
            continue
        names.add(".".join(parts[1:] if is_project and parts[0] == "src" else parts))
    return frozenset(names)


def printable(path: str) -> str:
    """The path on one line, with escapes for bytes that are not UTF-8 and for control characters."""
    text = path.encode("utf-8", "backslashreplace").decode()
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )
