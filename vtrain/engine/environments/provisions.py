"""What a pre-built image would bring and the trainer imports."""

from __future__ import annotations

import ast
import re
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import msgspec

from vtrain.packaging.imports import running_imports
from vtrain.packaging.prebuilt import IMPORT_NAMES, Distribution, ImageContents, works_on
from vtrain.packaging.unpacking import readable

# The index has these as source only; everything else is taken as a wheel or not at this version.
_SOURCE_ONLY = frozenset({"cloudml-hypertune"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_DECIDES = re.compile(r"==|~=|<|@")
LARGEST_SOURCE = 16 * 1000 * 1000
"""Bytes of a Python file in an archive that is read for its imports."""


class Provisions(msgspec.Struct, frozen=True, kw_only=True):
    """What of an image's distributions a trainer needs beyond its own requirements."""

    installed: tuple[Distribution, ...] = ()
    frameworks: tuple[Distribution, ...] = ()
    imported: frozenset[str] = frozenset()


def provisions(
    contents: ImageContents, modules: frozenset[str], required: frozenset[str], *, named: bool
) -> Provisions:
    """Choose from an image's contents.

    Small distributions: those that the trainer imports and its requirements do not name. Large ones:
    those that are imported, or all of them where the job names the image (a requirement may import
    what the trainer does not). `required` holds normalised names.
    """
    used = tuple(d for d in contents.distributions if _is_imported(d, modules))
    large = tuple(d for d in contents.distributions if d.weight == "large" and (named or d in used))
    small = tuple(d for d in used if d.weight == "small" and normalised(d.name) not in required)
    return Provisions(installed=small, frameworks=large, imported=frozenset(d.name for d in used))


def pins(installed: Iterable[Distribution], python: str) -> tuple[str, ...]:
    """What is installed of an image: at its version with all that it needs, or newer where that cannot be."""
    lines: list[str] = []
    for one in installed:
        lines += (one.requirement, *one.needs) if works_on(one.newest_python, python) else (one.name,)
    return tuple(dict.fromkeys(lines))


def constraints(contents: ImageContents, python: str, bridged: frozenset[str]) -> tuple[str, ...]:
    """The image's versions of its small distributions, and what belongs together with its framework.

    A framework that this Python cannot have binds nothing; neither is bound what a bridge brings.
    """
    if not all(works_on(d.newest_python, python) for d in contents.distributions):
        return ()
    versions = (d.requirement for d in contents.distributions if d.weight == "small" and d.version)
    bounds = (bound.requirement for bound in contents.bounds if works_on(bound.newest_python, python))
    return (*versions, *(line for line in bounds if normalised(line) not in bridged))


def wheels_only(contents: ImageContents) -> tuple[str, ...]:
    """The options that keep an installer from compiling an image's version from source."""
    small = (normalised(d.name) for d in contents.distributions if d.weight == "small")
    return tuple(f"--only-binary={name}" for name in small if name not in _SOURCE_ONLY)


def normalised(requirement: str) -> str:
    """The distribution that a requirement names, as indexes spell it (PEP 503)."""
    match = _NAME.match(requirement.strip())
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""


def deciding(requirements: Iterable[str]) -> frozenset[str]:
    """The distributions whose version requirements decide; any other requirement is met by the image's."""
    return frozenset(normalised(line) for line in requirements if _DECIDES.search(line.partition(";")[0]))


def imported_modules(packages: Iterable[Path], *, certain: bool = False) -> frozenset[str]:
    """The dotted names that the files of packages import: anywhere, or where it is `certain` to run."""
    return imported_by((source for package in packages for source in _sources(package)), certain=certain)


def imported_by(sources: Iterable[bytes], *, certain: bool = False) -> frozenset[str]:
    """The dotted names that Python files import. Files that name nothing of any image are not parsed."""
    return frozenset(
        name
        for source in sources
        if any(word in source for word in _words())
        for name in _imports(source, certain=certain)
    )


@cache
def _words() -> frozenset[bytes]:
    """The first parts of all import names of all images."""
    return frozenset(name.partition(".")[0].encode() for name in IMPORT_NAMES)


def _is_imported(distribution: Distribution, modules: frozenset[str]) -> bool:
    return any(
        module == name or module.startswith(f"{name}.")
        for name in distribution.import_names
        for module in modules
    )


def _imports(source: bytes, *, certain: bool) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return  # packaging has refused or let pass files like this; here they import nothing
    if certain:
        for item in running_imports(tree):
            yield from (item.module, *item.dotted_members)
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _sources(package: Path) -> Iterator[bytes]:
    """The Python files of an sdist or wheel, without its build script."""
    if package.suffix in (".whl", ".zip"):
        with readable(package), zipfile.ZipFile(package) as archive:
            for entry in archive.infolist():
                if _is_source(entry.filename) and entry.file_size <= LARGEST_SOURCE:
                    yield archive.read(entry)
        return
    with readable(package), tarfile.open(package) as sdist:
        for member in sdist:
            if member.isfile() and _is_source(member.name) and member.size <= LARGEST_SOURCE:
                content = sdist.extractfile(member)
                yield content.read() if content is not None else b""


def _is_source(name: str) -> bool:
    return name.endswith(".py") and not re.fullmatch(r"[^/]+/setup\.py|setup\.py", name)
