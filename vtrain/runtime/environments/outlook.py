"""Differences between a trainer's environment and its image, known before anything is made.

It follows from the trainer and the image alone, never from what was built or installed before.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vtrain.errors import ConfigError
from vtrain.packaging.archive import declared_requirements, import_names, metadata_name, requires_python
from vtrain.packaging.direct import SITE
from vtrain.packaging.distributions import are_known, candidates, with_brought_along
from vtrain.packaging.module_imports import (
    LARGEST_SOURCE,
    MOST_SOURCE,
    Modules,
    TrainerImports,
    reached_imports,
)
from vtrain.packaging.prebuilt import DEFAULT, Distribution, ImageContents, contents, works_on
from vtrain.packaging.preflight import missing_imports, place_of, trainer_imports
from vtrain.project_names import canonical, distribution_name
from vtrain.runtime.environments.interpreters import base_interpreter
from vtrain.runtime.environments.provisions import (
    Provisions,
    deciding,
    imported_by,
    imported_modules,
    is_imported,
    package_sources,
    provisions,
)
from vtrain.runtime.environments.trainer_python import (
    PythonChoice,
    asked_python,
    choose_python,
    downloads_allowed,
)

if TYPE_CHECKING:
    from vtrain.packaging.sdist_plan import PackedFile, SdistPlan


class Trainer(msgspec.Struct, frozen=True, kw_only=True):
    """A trainer: `modules` that any of its files imports, the imports from its entry on, its requirements.

    `requirements` are None where only a build can tell them. Then nothing is said of what they may bring.
    With `is_checked` packaging has told of imports that not even the image provides.
    """

    modules: frozenset[str]
    imports: TrainerImports
    requirements: tuple[str, ...] | None
    requires_python: tuple[str, ...] = ()
    is_checked: bool = False


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """Sentences about an environment; `missing` are about imports that will surely fail."""

    notices: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def folder_trainer(plan: SdistPlan) -> Trainer:
    """The trainer in a folder, whose imports were checked."""
    extras = packaged_trainer([extra.path for extra in plan.extra_packages])
    parts = (plan, *plan.local)
    files = (part.source.folder / file.path for part in parts for file in part.files if _is_module(file))
    projects = [part.project for part in parts if part.project is not None]
    computed = any(project.dependencies is None for project in projects)
    own = [line for part in parts for line in part.requirements] + [part.name for part in plan.local]
    unknown = (computed and (plan.pep517 or plan.local)) or extras.requirements is None
    said = [project.requires_python for project in projects]
    return Trainer(
        modules=imported_by(path.read_bytes() for path in files) | extras.modules,
        imports=plan.imports or trainer_imports(plan),
        requirements=None if unknown else (*own, *(extras.requirements or ())),
        requires_python=tuple(filter(None, (*said, *extras.requires_python))),
        is_checked=not computed,
    )


def _is_module(file: PackedFile) -> bool:
    return file.path.endswith(".py") and file.path != "setup.py" and file.size <= LARGEST_SOURCE


def packaged_trainer(packages: Iterable[Path], python_module: str = "") -> Trainer:
    """The trainer in packages that are given, with the packages themselves among the requirements."""
    packages = tuple(packages)
    requirements: list[str] | None = []
    for package in packages:
        declared = declared_requirements(package)
        if declared is None or requirements is None:
            requirements = None
        else:
            requirements += [metadata_name(package), *declared]
    own = frozenset(map(canonical, map(metadata_name, packages)))
    others = [line for line in filter(None, requirements or ()) if distribution_name(line) not in own]
    return Trainer(
        modules=imported_modules(packages),
        imports=_packaged_imports(packages, python_module, all_known=are_known(others)),
        requirements=None if requirements is None else tuple(filter(None, requirements)),
        requires_python=tuple(filter(None, map(requires_python, packages))),
    )


def _packaged_imports(packages: tuple[Path, ...], python_module: str, *, all_known: bool) -> TrainerImports:
    """The imports of a module in packages, whose files lie below `site` or `src`, or at the top."""
    sources: dict[str, bytes] = {}
    left = MOST_SOURCE if python_module else 0
    for path, source in (each for package in packages for each in package_sources(package)):
        if len(source) <= left:
            left -= len(source)
            sources.setdefault(path, source)
    modules = Modules(frozenset(sources), ("", SITE, "src"))
    path = python_module.replace(".", "/")
    tails = (f"{path}.py", f"{path}/__main__.py")
    files = (f"{root}/{tail}".lstrip("/") for tail in tails for root in modules.roots)
    entry = next((file for file in files if file in sources), "")
    return TrainerImports(
        imports=reached_imports(modules, sources.__getitem__, entry, python_module),
        modules=modules,
        own_names=frozenset(name for package in packages for name in import_names(package)),
        all_known=all_known,
        has_build=True,
    )


def outlook(
    image_uri: str, trainer: Trainer, home: Path, *, python: str = "", python_downloads: bool = False
) -> Outlook:
    """The remarks on the environment of a trainer for an image (empty: none is named).

    `home` is vtrain's home. `python` is the version or the path that was asked for; with `python_downloads` a
    Python that is missing is not missed. Raises ConfigError for one that was asked for and is not there.
    """
    image = contents(image_uri) or DEFAULT
    found = provisions(
        image, trainer.modules, deciding(trainer.requirements or ()), named=image is not DEFAULT
    )
    beside = {one.name: there for one in found.frameworks if (there := _found(one)) is not None}
    if python:
        choice = asked_python(home, python, trainer.requires_python)
        if choice.unmet and not (python_downloads or downloads_allowed(os.environ)):
            raise ConfigError(
                f"--python={python}: uv finds no such Python on this machine.",
                hint="Install it (`uv python install VERSION`), or allow that with --python-downloads.",
            )
    else:
        choice = choose_python(home, image.python_version, trainer.requires_python, bound_here=bool(beside))
    if choice.interpreter.abi != base_interpreter().abi:
        beside = {}  # what lies beside vtrain is for vtrain's Python
    version = choice.interpreter.short_version
    unmet = () if python_downloads or downloads_allowed(os.environ) else tuple(_unmet(choice))
    if trainer.requirements is None:
        return Outlook(notices=tuple(_image_notices(image_uri, image, version)), missing=unmet)
    required = with_brought_along(frozenset(map(distribution_name, trainer.requirements)))
    reached = provisions(image, trainer.imports.names, frozenset(), named=True).imported
    surely, maybe = _missing(image, trainer, found, required, _bridged(beside))
    return Outlook(
        notices=(
            *_image_notices(image_uri, image, version),
            *_other_versions((one for one in found.installed if one.name in reached), version),
            *_other_frameworks((one for one in found.frameworks if one.name in reached), beside, required),
            *maybe,
        ),
        missing=(*unmet, *surely),
    )


def active_outlook(image_uri: str, trainer: Trainer, python: str) -> Outlook:
    """The remarks on a trainer that runs on an interpreter as it is. Raises as `view_of` does."""
    from vtrain.runtime.environments.active_python import view_of

    image = contents(image_uri)
    view, missing = view_of(python, trainer.imports)
    version = ".".join(view.version.split(".")[:2])
    other = image is not None and image.python_version not in ("", version)
    return Outlook(
        notices=(f"{python} is Python {version}; the image has Python {image.python_version}.",)
        if image and other
        else (),
        missing=tuple(
            f"{place_of(item, trainer.imports)}: `{item.module}` is imported and not installed in {python}. "
            "Install it there, or leave --environment=current out."
            for item in missing
        ),
    )


def _missing(
    image: ImageContents,
    trainer: Trainer,
    found: Provisions,
    required: frozenset[str],
    bridged: frozenset[str],
) -> tuple[list[str], list[str]]:
    """Sentences about imports that nothing provides here: those that surely run; frameworks of the others."""
    installed = frozenset(distribution_name(one.name) for one in found.installed)
    here = with_brought_along(required | installed) | bridged
    there = with_brought_along(required | {distribution_name(one.name) for one in image.distributions})
    nowhere = {each.shown for each in missing_imports(trainer.imports, there)}
    absent = [one for one in found.frameworks if not _is_among(one, here)]
    surely, certain, unsure = [], set(), []
    for each in missing_imports(trainer.imports, here):
        if not each.is_sure:
            unsure += [each.sentence] if each.shown not in nowhere or not trainer.is_checked else []
            continue
        framework = next((one for one in absent if is_imported(one, each.item.names)), None)
        if framework is not None:
            certain.add(framework.name)
            surely.append(f"{each.place}: {_absent(framework, image)}")
        elif each.shown not in nowhere and image is not DEFAULT:
            surely.append(
                f"{each.place}: the image brings `{each.shown}`, and nothing does here; {each.advice}"
            )
        elif each.shown not in nowhere or not trainer.is_checked:
            surely.append(each.sentence)
    others = (one for one in absent if one.name not in certain and trainer.imports.all_known)
    late = [_absent(one, image) for one in others if is_imported(one, trainer.imports.names)]
    return surely, unsure + late


def _bridged(beside: Mapping[str, tuple[str, str]]) -> frozenset[str]:
    """The canonical names of all that comes with the frameworks beside vtrain."""
    if not beside:
        return frozenset()
    from vtrain.runtime.environments.frameworks import bridge_to

    names = [name for name, _ in beside.values()]
    linked = (name for name, _, _ in bridge_to(names).distributions)
    return frozenset(map(distribution_name, (*names, *linked)))


def _unmet(python: PythonChoice) -> Iterator[str]:
    if python.unmet and python.is_required:
        yield (
            f"The trainer requires Python {python.unmet}, and uv finds none on this machine. Install it, or "
            f"allow that with --python-downloads."
        )


def _image_notices(image_uri: str, image: ImageContents, here: str) -> Iterator[str]:
    if image_uri and image is DEFAULT:
        yield (
            f"vtrain does not know what the image {image_uri} contains: only the trainer's requirements are "
            "installed here. --backend=docker runs the image itself."
        )
    elif image_uri and image.python_version not in ("", here):
        yield f"Python {here} is used here; the image has Python {image.python_version}."


def _other_versions(installed: Iterable[Distribution], here: str) -> Iterator[str]:
    for one in installed:
        if not works_on(one.newest_python, here):
            yield (
                f"The image has {one.requirement}, which Python {here} cannot have: the newest {one.name} is "
                f"installed instead. To train with the image's own, take --backend=docker."
            )


def _is_among(framework: Distribution, available: frozenset[str]) -> bool:
    names = {
        distribution_name(framework.name),
        *(name for m in framework.import_names for name in candidates(m)),
    }
    return bool(available & names)


def _found(framework: Distribution) -> tuple[str, str] | None:
    from vtrain.runtime.environments.frameworks import find_framework

    return find_framework(framework.name, framework.import_names)


def _other_frameworks(
    frameworks: Iterable[Distribution],
    beside: Mapping[str, tuple[str, str]],
    available: frozenset[str],
) -> Iterator[str]:
    for framework in frameworks:
        here = beside.get(framework.name)
        if here is None or _is_among(framework, available):
            continue
        if framework.version and not f"{here[1]}.".startswith(f"{framework.version}."):
            yield (
                f"{here[0]} {here[1]} is used, as installed beside vtrain; the image has "
                f"{framework.requirement}."
            )


def _absent(framework: Distribution, image: ImageContents) -> str:
    wanted = framework.requirement
    brings = "" if image is DEFAULT else f"; the image brings {wanted}"
    return (
        f"{framework.name} is imported and not installed here{brings}. Add it to requirements, install it "
        f"beside vtrain (pip --python {sys.executable} install {wanted!r}), or run in an environment that "
        "has it (--environment=current)."
    )
