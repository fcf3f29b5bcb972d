"""What is refused before anything is built: a trainer whose entry module or script cannot start."""

from __future__ import annotations

import ast
import difflib
from pathlib import Path, PurePosixPath

import msgspec

from vtrain.errors import ConfigError, PackagingError
from vtrain.packaging.ignore import Belonging
from vtrain.packaging.source import TrainerSource
from vtrain.packaging.tree import printable


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Where the trainer starts: a file of the folder, and the folder from which its imports are read."""

    path: str
    root: str = ""


def check_source(source: TrainerSource) -> None:
    """Refuse what is wrong before a file is read: both or no entry, a folder that is none."""
    if bool(source.python_module) == bool(source.script):
        raise ConfigError("Give exactly one of python-module and script.")
    if not source.folder.exists():
        raise PackagingError(f"There is no folder {source.folder}.")
    if not source.folder.is_dir():
        raise PackagingError(f"{source.folder} is not a folder.")
    if source.python_module:
        _check_module_name(source.python_module)


def _check_module_name(module: str) -> None:
    if module.endswith(".py") or "/" in module:
        name = module.removesuffix(".py").removeprefix("./").replace("/", ".").removeprefix("src.")
        raise PackagingError(
            f"python-module takes a module, not a file: use {name}.", hint="A file is given with script."
        )
    if not all(part.isidentifier() for part in module.split(".")):
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
    path = script_path(source)
    if path not in belonging.files:
        _refuse_left_out(source.folder, path, belonging)
        nearest = difflib.get_close_matches(path, belonging.files, n=1)
        hint = f"The nearest is {printable(nearest[0])}." if nearest else ""
        raise PackagingError(f"There is no script {path} in {source.folder}.", hint=hint)
    return Entry(path=path, root=_parent(path))


def script_path(source: TrainerSource) -> str:
    """The script relative to the folder, in one spelling; refused when it lies outside."""
    return relative_path(source.folder, source.script, "the script")


def relative_path(folder: Path, given: str, what: str) -> str:
    """`given`, read from the folder, as a path below it."""
    top = folder.absolute()
    parts: list[str] = []
    for part in (top / given).parts:
        if part == ".." and parts:
            parts.pop()
        else:
            parts.append(part)
    try:
        return Path(*parts).relative_to(Path(*_normal(top))).as_posix()
    except ValueError:
        raise PackagingError(f"{what} {given} lies outside {folder}.") from None


def _normal(path: Path) -> tuple[str, ...]:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return tuple(parts)


def _module_entry(source: TrainerSource, belonging: Belonging, is_project: bool) -> Entry:
    module = source.python_module
    for tail in _module_files(module):
        roots = _roots_with(tail, belonging.files) if is_project else [""] * (tail in belonging.files)
        if roots:
            return Entry(path=f"{roots[0]}/{tail}" if roots[0] else tail, root=roots[0])
    for tail in _module_files(module):
        _refuse_left_out(source.folder, tail, belonging)
    _refuse_missing_module(source, belonging, is_project)
    raise AssertionError("unreachable")


def _module_files(module: str) -> tuple[str, str]:
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


def _refuse_missing_module(source: TrainerSource, belonging: Belonging, is_project: bool) -> None:
    module = source.python_module
    modules = module_names(belonging.files, is_project=is_project)
    if not modules:
        raise PackagingError(f"The folder {source.folder} holds no Python module.")
    top, _, rest = module.partition(".")
    if source.folder.resolve().name == top and rest in modules:
        raise PackagingError(
            f"The module {module} is not inside the package: {source.folder} is the package {top} itself.",
            hint="Give the folder that holds it as local-package-path.",
        )
    if f"{module}.__init__" in modules:
        raise PackagingError(f"{module} is a package without __main__.py, which Python cannot run.")
    nearest = difflib.get_close_matches(module, sorted(modules), n=1, cutoff=0.4)
    near = f"the nearest is {nearest[0]}" if nearest else f"it has {', '.join(sorted(modules)[:3])}"
    raise PackagingError(f"The module {module} is not inside the package; {near}.")


def module_names(files: tuple[str, ...], *, is_project: bool) -> frozenset[str]:
    """All modules in the folder, dotted; below src/ too when the folder is a project."""
    names = set()
    for file in files:
        parts = PurePosixPath(file.removesuffix(".py")).parts
        if not file.endswith(".py") or not all(part.isidentifier() for part in parts):
            continue
        names.add(".".join(parts[1:] if is_project and parts[0] == "src" else parts))
    return frozenset(names)


def check_syntax(folder: Path, entry: Entry) -> None:
    """Refuse an entry module that Python cannot compile, with file:line. Shell scripts pass."""
    if not entry.path.endswith(".py"):
        return
    try:
        parse(folder, entry.path)
    except SyntaxError as error:
        raise PackagingError(f"{entry.path}:{error.lineno or 1}: {error.msg}.") from None
    except ValueError as error:
        raise PackagingError(f"{entry.path}:1: {error}.") from None


def parse(folder: Path, path: str) -> ast.Module:
    """The syntax tree of one of the package's files, without the warnings Python would print."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse((folder / path).read_bytes(), filename=path)


def _parent(path: str) -> str:
    parent = PurePosixPath(path).parent.as_posix()
    return "" if parent == "." else parent
