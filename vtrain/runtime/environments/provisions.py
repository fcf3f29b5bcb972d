"""Distributions that a pre-built image contains and the trainer imports."""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from vtrain.packaging.distributions import candidates
from vtrain.packaging.module_imports import LARGEST_SOURCE, UNREADABLE, imports_of, parse
from vtrain.packaging.prebuilt import IMPORT_NAMES, Distribution, ImageContents, works_on
from vtrain.packaging.unpacking import readable
from vtrain.project_names import distribution_name

# The index has these as source only; everything else is taken as a wheel or not at this version.
_SOURCE_ONLY = frozenset({"cloudml-hypertune"})
_DECIDES = re.compile(r"==|~=|<|@")


def provisions(
    contents: ImageContents, modules: frozenset[str], required: frozenset[str]
) -> tuple[Distribution, ...]:
    """The distributions of an image that a trainer imports, and that its requirements do not bring.

    `required` holds canonical names. `xgboost-cpu` brings what `xgboost` does, and both would share files.
    """
    return tuple(
        one
        for one in contents.distributions
        if is_imported(one, modules)
        and required.isdisjoint((distribution_name(one.name), *candidates(one.import_names[0])))
    )


def pins(installed: Iterable[Distribution], python: str) -> tuple[str, ...]:
    """The lines that install distributions of an image: at its versions with their needs, else newer ones."""
    lines: list[str] = []
    for one in installed:
        lines += (one.requirement, *one.needs) if works_on(one.newest_python, python) else (one.name,)
    return tuple(dict.fromkeys(lines))


def constraints(contents: ImageContents, python: str) -> tuple[str, ...]:
    """The image's versions of its distributions, and what belongs together with its framework.

    A framework that this Python cannot have binds nothing.
    """
    if not all(works_on(d.newest_python, python) for d in contents.distributions):
        return ()
    versions = (d.requirement for d in contents.distributions if d.version)
    return (*versions, *(b.requirement for b in contents.bounds if works_on(b.newest_python, python)))


def wheels_only(contents: ImageContents) -> tuple[str, ...]:
    """The options that keep an installer from compiling an image's version from source."""
    names = (distribution_name(d.name) for d in contents.distributions)
    return tuple(f"--only-binary={name}" for name in names if name not in _SOURCE_ONLY)


def deciding(requirements: Iterable[str]) -> frozenset[str]:
    """The distributions whose version requirements decide; any other requirement is met by the image's."""
    return frozenset(
        distribution_name(line) for line in requirements if _DECIDES.search(line.partition(";")[0])
    )


def imported_modules(packages: Iterable[Path]) -> frozenset[str]:
    """The dotted names that the files of packages import, wherever it stands in them.

    Pandas imports gcsfs for a URI `gs://…`: a trainer that has both imports it, too.
    """
    found, has_uri = set[str](), False
    for source in (source for package in packages for source in _sources(package)):
        has_uri = has_uri or b"gs://" in source
        if _names_any(source):
            found.update(_imports(source))
    if has_uri and any(name.partition(".")[0] == "pandas" for name in found):
        found.add("gcsfs")
    return frozenset(found)


def _names_any(source: bytes) -> bool:
    """Whether a file has a line with an import and the first part of an import name of any image.

    Only such a file is parsed.
    """
    lines = source.replace(b"\\\r\n", b" ").replace(b"\\\n", b" ").splitlines()
    return any(b"import" in line and _words().search(line) for line in lines)


@cache
def _words() -> re.Pattern[bytes]:
    words = sorted({name.partition(".")[0] for name in IMPORT_NAMES})
    return re.compile(rf"\b(?:{'|'.join(words)})\b".encode())


def is_imported(distribution: Distribution, modules: Iterable[str]) -> bool:
    """Whether one of the dotted names is a module of the distribution."""
    return any(
        module == name or module.startswith(f"{name}.")
        for name in distribution.import_names
        for module in modules
    )


def _imports(source: bytes) -> Iterator[str]:
    try:
        tree = parse(source)
    except UNREADABLE:
        return  # packaging has refused or let pass files like this; here they import nothing
    for item in imports_of(tree):
        if not item.is_relative:
            yield from item.names


def _sources(package: Path) -> Iterator[bytes]:
    """The Python files of an sdist or wheel, without its build script."""
    with readable(package):
        if package.suffix in (".whl", ".zip"):
            with zipfile.ZipFile(package) as archive:
                for entry in archive.infolist():
                    if _is_source(entry.filename, entry.file_size):
                        yield archive.read(entry)
            return
        with tarfile.open(package) as sdist:
            for member in sdist:
                if member.isfile() and _is_source(member.name, member.size):
                    content = sdist.extractfile(member)
                    yield content.read() if content is not None else b""


def _is_source(name: str, size: int) -> bool:
    is_build_script = re.fullmatch(r"([^/]+/)?setup\.py", name)
    return name.endswith(".py") and not is_build_script and size <= LARGEST_SOURCE
