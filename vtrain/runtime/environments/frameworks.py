"""Frameworks of gigabytes, taken from the interpreter that runs vtrain.

A bridge is a folder of links to one distribution and all that it requires, and to nothing else of the
environment that vtrain runs in. It lies outside of the trainer's environment, which reads it last. So an
installer counts its distributions as installed, and never removes or replaces them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import Distribution, PackageNotFoundError, distribution, packages_distributions
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

import msgspec

from vtrain.atomic import remove_folder
from vtrain.project_names import canonical

_STUB = "BRIDGED"


class Bridge(msgspec.Struct, frozen=True, kw_only=True):
    """Distributions of the interpreter that runs vtrain: (name, version, folder) of each."""

    distributions: tuple[tuple[str, str, str], ...]


def find_framework(name: str, import_names: Iterable[str]) -> tuple[str, str] | None:
    """The (name, version) under which a framework is installed beside vtrain, or None.

    `tensorflow` is found as `tensorflow-cpu` too: by what it provides.
    """
    try:
        found = distribution(name)
    except PackageNotFoundError:
        roots = [name.partition(".")[0] for name in import_names]
        present = [root for root in roots if find_spec(root) is not None]
        by_module = packages_distributions() if present else {}
        names = [name for root in present for name in by_module.get(root, ())]
        if not names:
            return None
        found = distribution(names[0])
    return found.metadata["Name"], found.version


def bridge_to(names: Iterable[str]) -> Bridge:
    """The bridge to distributions that are installed beside vtrain, with all that they require."""
    found = sorted((d.metadata["Name"], d.version, str(d.locate_file(""))) for d in _closure(names))
    return Bridge(distributions=tuple(found))


def site_state() -> tuple[tuple[str, int], ...]:
    """The folders that vtrain imports from, and the time of the last installation into each (ns)."""
    folders = (Path(entry) for entry in sys.path if entry.endswith("-packages"))
    return tuple((str(folder), folder.stat().st_mtime_ns) for folder in folders if folder.is_dir())


def write_bridge(folder: Path, bridge: Bridge) -> None:
    """Write the links: modules and metadata to `folder/site`, commands to `folder/bin`."""
    found = [distribution(name) for name, _, _ in bridge.distributions]
    regular = {PurePosixPath(f).parent for d in found for f in d.files or () if f.name == "__init__.py"}
    (folder / "bin").mkdir()
    (folder / "site").mkdir()
    for one in found:
        for place, target in _links(one, regular):
            link = folder / place
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.exists() and target.exists():
                link.symlink_to(target)


@contextmanager
def shown_as_installed(bridge: Bridge, site: Path) -> Iterator[None]:
    """Let uv count a bridge's distributions as installed: by their metadata in `site`, where it looks.

    Where a requirement demands another version, uv replaces the metadata by the distribution, which is then
    imported first. What is left of the metadata goes at the end.
    """
    stubs = []
    for name, version, _ in bridge.distributions:
        found = distribution(name)
        stub = site / f"{canonical(name).replace('-', '_')}-{version}.dist-info"
        stub.mkdir()
        files = {
            "METADATA": found.read_text("METADATA") or found.read_text("PKG-INFO") or "",
            _STUB: "vtrain\n",
        }
        files["RECORD"] = "".join(f"{stub.name}/{file},,\n" for file in (*files, "RECORD"))
        for file, text in files.items():
            (stub / file).write_text(text, encoding="utf-8")
        stubs.append(stub)
    yield
    for stub in stubs:
        if (stub / _STUB).exists():
            remove_folder(stub)


def _closure(names: Iterable[str]) -> list[Distribution]:
    pending, found = list(names), {}
    while pending:
        name = pending.pop()
        key = canonical(name)
        if key in found:
            continue
        try:
            found[key] = distribution(name)
        except PackageNotFoundError:
            continue  # an optional or foreign-platform requirement that is not there is not missed
        pending += _required(found[key].requires or ())
    return list(found.values())


def _required(lines: Iterable[str]) -> Iterator[str]:
    """The names of the requirements that hold on this machine."""
    from packaging.requirements import InvalidRequirement, Requirement

    for line in lines:
        with suppress(InvalidRequirement):  # such as `PyYAML (>=5.1.*)`, in metadata of older distributions
            found = Requirement(line)
            if found.marker is None or found.marker.evaluate({"extra": ""}):
                yield found.name


def _links(one: Distribution, regular: set[PurePosixPath]) -> Iterator[tuple[str, Path]]:
    """The place and the target of each link: whole packages where they are regular, else single files."""
    seen: set[PurePosixPath] = set()
    for file in one.files or _unrecorded(one):
        path = PurePosixPath(file)
        if path.parts[0] == "..":
            if path.parent.name == "bin":
                yield f"bin/{path.name}", Path(str(one.locate_file(file)))
            continue
        top = _linked_path(path, regular)
        if top not in seen and path.parts[0] != "__pycache__":
            seen.add(top)
            yield f"site/{top}", Path(str(one.locate_file(top))).resolve()


def _linked_path(path: PurePosixPath, regular: set[PurePosixPath]) -> PurePosixPath:
    for depth in range(1, len(path.parts)):
        folder = PurePosixPath(*path.parts[:depth])
        if folder in regular or folder.suffix in (".dist-info", ".egg-info"):
            return folder
    return path


def _unrecorded(one: Distribution) -> Iterator[str]:
    """The possible files of a distribution of the operating system, which records only top-level names."""
    for name in (one.read_text("top_level.txt") or "").split():
        yield f"{name}/__init__.py"
        yield f"{name}.py"
