"""The files of a folder that look like the start of a trainer, the likeliest first."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import msgspec

from vtrain.errors import ConfigError, PackagingError
from vtrain.packaging.project import read_project
from vtrain.packaging.source import interpreter_of
from vtrain.settings import is_text

_NAMES = ("train.py", "task.py", "main.py", "__main__.py", "run.py", "train.sh", "run.sh")
"""Names of files that start trainers, the most usual first."""
_OTHERS = re.compile(r"setup\.py|conftest\.py|noxfile\.py|test_.*\.py|.*_test\.py")
_SKIPPED = frozenset({"build", "dist", "docs", "node_modules", "site-packages", "test", "tests", "venv"})
_DEEPEST = 3
_MOST_ENTRIES = 5000
_MOST_BYTES = 1_000_000
_GUARD = re.compile(r"^if __name__ == ['\"]__main__['\"]", re.MULTILINE)
_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)


class TrainerCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """A module, or a script, in a folder below the project's (empty: the project's own).

    `imports` are the first names of what it imports.
    """

    module: str = ""
    script: str = ""
    path: str = ""
    imports: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The name by which people start it."""
        return self.module or self.script


def find_candidates(folder: Path) -> tuple[TrainerCandidate, ...]:
    """The candidates below a folder, from its first files and levels: it may hold far more than a project."""
    found = []
    for file in _files(folder):
        text = _text(folder / file)
        rank = _NAMES.index(file.name) if file.name in _NAMES else len(_NAMES)
        if rank < len(_NAMES) or _GUARD.search(text):
            found.append(((rank, len(file.parts), str(file)), candidate_of(folder, file, text)))
    return tuple(candidate for _, candidate in sorted(found, key=lambda item: item[0]))


def named_candidate(folder: Path, name: str) -> TrainerCandidate | None:
    """The candidate that a user names as a file or a module; None where it is not in the folder."""
    path = name.replace(".", "/")
    modules = [f"{root}{path}{end}" for root in ("", "src/") for end in (".py", "/__main__.py")]
    for number, file in enumerate((name, *modules)):
        inside = not Path(file).is_absolute() and ".." not in Path(file).parts
        if inside and is_file(folder / file) and _is_program(folder / file):
            text = _text(folder / file)
            found = candidate_of(folder, PurePosixPath(Path(file).as_posix()), text)
            return found if number == 0 or found.module else _as_module(folder, PurePosixPath(file), text)
    return None


def candidate_of(folder: Path, file: PurePosixPath, text: str) -> TrainerCandidate:
    """A module where the file belongs to a package, or imports from its own folder; else a script."""
    imports = frozenset(_IMPORT.findall(text))
    inside = file.relative_to("src") if file.parts[0] == "src" else file
    package = bool(inside.parts[1:]) and (
        (folder / file).with_name("__init__.py").is_file() or inside.parts[0] in imports
    )
    named = all(part.isidentifier() for part in inside.with_suffix("").parts)  # as in an import statement
    if file.suffix != ".py" or not (package and named):
        return TrainerCandidate(script=str(file), imports=imports)
    return _as_module(folder, file, text)


def _as_module(folder: Path, file: PurePosixPath, text: str) -> TrainerCandidate:
    below_src = file.parts[0] == "src" and len(file.parts) > 1
    parts = (file.relative_to("src") if below_src else file).with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__main__" else parts)
    path = "src" if below_src and read_project(folder) is None else ""
    return TrainerCandidate(module=module, path=path, imports=frozenset(_IMPORT.findall(text)))


def _files(folder: Path) -> Iterator[PurePosixPath]:
    """The Python and shell files that may start something."""
    seen = 0
    for top, folders, names in os.walk(folder):
        place = PurePosixPath(Path(top).relative_to(folder).as_posix())
        seen += len(folders) + len(names)
        if seen > _MOST_ENTRIES:
            return
        deep = len(place.parts) >= _DEEPEST
        folders[:] = sorted(name for name in folders if not deep and _is_looked_at(Path(top, name)))
        for name in names:
            usual = name in _NAMES or (name.endswith(".py") and not _OTHERS.fullmatch(name))
            if usual and is_text(Path(name)) and is_file(Path(top, name)):
                yield place / name


def is_file(path: Path) -> bool:
    """Whether a path is a file; false where the system refuses to look."""
    try:
        return path.is_file()
    except OSError:
        return False


def _is_program(file: Path) -> bool:
    try:
        interpreter_of(file, file.name)
    except (PackagingError, ConfigError):
        return False
    return True


def _is_looked_at(folder: Path) -> bool:
    hidden = folder.name.startswith(".") or folder.name in _SKIPPED or not is_text(folder)
    return not hidden and not is_file(folder / "pyvenv.cfg")


def _text(file: Path) -> str:
    """The first megabyte of a file as text; empty where it cannot be read."""
    try:
        with file.open("rb") as source:
            return source.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
