"""What a pre-built image would bring and the trainer imports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from vtrain.packaging.prebuilt import Distribution, ImageContents

# The index has these as source only; everything else is taken as a wheel or not at this version.
_SOURCE_ONLY = frozenset({"cloudml-hypertune"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Provisions(msgspec.Struct, frozen=True, kw_only=True):
    """What of an image's distributions a trainer needs beyond its own requirements."""

    installed: tuple[Distribution, ...] = ()
    frameworks: tuple[Distribution, ...] = ()
    imported: frozenset[str] = frozenset()


def provisions(
    contents: ImageContents, packages: Iterable[Path], required: frozenset[str], *, named: bool
) -> Provisions:
    """Choose from an image's contents.

    Small distributions: those that the packages import and the requirements do not name. Large ones:
    those that are imported, or all of them where the job names the image (a requirement may import
    what the trainer does not). `required` holds normalised names.
    """
    roots = {name for d in contents.distributions for name in d.import_names}
    modules = imported_modules(packages, roots)
    used = tuple(d for d in contents.distributions if _is_imported(d, modules))
    large = tuple(d for d in contents.distributions if d.weight == "large" and (named or d in used))
    small = tuple(d for d in used if d.weight == "small" and normalised(d.name) not in required)
    return Provisions(installed=small, frameworks=large, imported=frozenset(d.name for d in used))


def constraints(contents: ImageContents) -> tuple[str, ...]:
    """The image's versions of its small distributions."""
    return tuple(d.requirement for d in contents.distributions if d.weight == "small" and d.version)


def wheels_only(contents: ImageContents) -> tuple[str, ...]:
    """The options that keep an installer from compiling an image's version from source."""
    small = (normalised(d.name) for d in contents.distributions if d.weight == "small")
    return tuple(f"--only-binary={name}" for name in small if name not in _SOURCE_ONLY)


def normalised(requirement: str) -> str:
    """The distribution that a requirement names, as indexes spell it (PEP 503)."""
    match = _NAME.match(requirement.strip())
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""


def imported_modules(packages: Iterable[Path], roots: Iterable[str]) -> frozenset[str]:
    """The dotted names that the Python files in the packages import, wherever in a file.

    Only files that hold the first part of one of `roots` are parsed.
    """
    words = {root.partition(".")[0].encode() for root in roots}
    found: set[str] = set()
    for package in packages:
        for source in _sources(package):
            if any(word in source for word in words):
                found.update(_imports(source))
    return frozenset(found)


def _is_imported(distribution: Distribution, modules: frozenset[str]) -> bool:
    return any(
        module == name or module.startswith(f"{name}.")
        for name in distribution.import_names
        for module in modules
    )


def _imports(source: bytes) -> Iterator[str]:
    import ast

    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return  # packaging has refused or let pass files like this; here they import nothing
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _sources(package: Path) -> Iterator[bytes]:
    """The Python files of an sdist or wheel, without its build script."""
    from vtrain.packaging.unpacking import readable

    if package.suffix in (".whl", ".zip"):
        import zipfile

        with readable(package), zipfile.ZipFile(package) as archive:
            yield from (archive.read(name) for name in archive.namelist() if _is_source(name))
        return
    import tarfile

    with readable(package), tarfile.open(package) as sdist:
        for member in sdist:
            content = sdist.extractfile(member) if member.isfile() and _is_source(member.name) else None
            if content is not None:
                yield content.read()


def _is_source(name: str) -> bool:
    return name.endswith(".py") and not re.fullmatch(r"[^/]+/setup\.py|setup\.py", name)
