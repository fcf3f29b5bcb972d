"""What a trainer's environment will lack, or have otherwise than the image: known before anything is made.

It follows from the trainer and the image alone, never from what was built or installed before.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vtrain.engine.environments.layers import base_interpreter
from vtrain.engine.environments.provisions import (
    deciding,
    imported_by,
    imported_modules,
    normalised,
    provisions,
)
from vtrain.packaging.archive import declared_requirements, metadata_name
from vtrain.packaging.distributions import candidates, with_brought_along
from vtrain.packaging.imports import certain_imports
from vtrain.packaging.prebuilt import DEFAULT, Distribution, ImageContents, contents, works_on

if TYPE_CHECKING:
    from vtrain.packaging.plan import SdistPlan


class Trainer(msgspec.Struct, frozen=True, kw_only=True):
    """The imports of a trainer: all of them, and those that surely run; and its requirements.

    `requirements` are None where only a build can tell them. Then nothing is said of what they may bring.
    """

    modules: frozenset[str]
    certain: frozenset[str]
    requirements: tuple[str, ...] | None


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """Sentences about an environment; `missing` are about imports that will surely fail."""

    notices: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def folder_trainer(plan: SdistPlan) -> Trainer:
    """The trainer in a folder."""
    extras = packaged_trainer([extra.path for extra in plan.extra_packages])
    files = (plan.source.folder / file.path for file in plan.files if _is_module(file.path))
    own = None if plan.pep517 and plan.project and plan.project.dependencies is None else plan.requirements
    unknown = own is None or extras.requirements is None
    return Trainer(
        modules=imported_by(path.read_bytes() for path in files) | extras.modules,
        certain=certain_imports(plan),
        requirements=None if unknown else (*(own or ()), *(extras.requirements or ())),
    )


def packaged_trainer(packages: Iterable[Path]) -> Trainer:
    """The trainer in packages that are given, with the packages themselves among the requirements."""
    packages = tuple(packages)
    requirements: list[str] | None = []
    for package in packages:
        declared = declared_requirements(package)
        if declared is None or requirements is None:
            requirements = None
        else:
            requirements += [metadata_name(package), *declared]
    return Trainer(
        modules=imported_modules(packages),
        certain=imported_modules(packages, certain=True),
        requirements=None if requirements is None else tuple(filter(None, requirements)),
    )


def outlook(image_uri: str, trainer: Trainer) -> Outlook:
    """What is to be said of the environment of a trainer for an image (empty: none is named)."""
    image = contents(image_uri) or DEFAULT
    if trainer.requirements is None:
        return Outlook(notices=tuple(_image_notices(image_uri, image)))
    available = with_brought_along(frozenset(map(normalised, trainer.requirements)))
    found = provisions(image, trainer.modules, deciding(trainer.requirements), named=image is not DEFAULT)
    absent = {f.name: f for f in found.frameworks if f.name in found.imported and not _is_here(f, available)}
    surely = provisions(image, trainer.certain, frozenset(), named=True).imported
    return Outlook(
        notices=(
            *_image_notices(image_uri, image),
            *_other_versions(found.installed),
            *_other_frameworks(found.frameworks, found.imported, available),
            *(_absent(framework, image_uri) for name, framework in absent.items() if name not in surely),
        ),
        missing=tuple(_absent(framework, image_uri) for name, framework in absent.items() if name in surely),
    )


def _is_module(path: str) -> bool:
    return path.endswith(".py") and path != "setup.py"


def _image_notices(image_uri: str, image: ImageContents) -> Iterator[str]:
    here = base_interpreter().short_version
    if image_uri and image is DEFAULT:
        yield f"{image_uri} is not a pre-built image that vtrain knows; what it contains is not provided."
    elif image_uri and image.python_version not in ("", here):
        yield f"Python {here} is used here; the image has Python {image.python_version}."


def _other_versions(installed: Iterable[Distribution]) -> Iterator[str]:
    here = base_interpreter().short_version
    for one in installed:
        if not works_on(one.newest_python, here):
            yield (
                f"The image has {one.requirement}, which Python {here} cannot have: the newest {one.name} is "
                f"installed instead. To train with the image's own, take --backend=docker."
            )


def _is_here(framework: Distribution, available: frozenset[str]) -> bool:
    return _is_required(framework, available) or _found(framework) is not None


def _is_required(framework: Distribution, available: frozenset[str]) -> bool:
    names = {normalised(framework.name), *(name for m in framework.import_names for name in candidates(m))}
    return bool(available & names)


def _found(framework: Distribution) -> tuple[str, str] | None:
    from vtrain.engine.environments.frameworks import find_framework

    return find_framework(framework.name, framework.import_names)


def _other_frameworks(
    frameworks: Iterable[Distribution], imported: frozenset[str], available: frozenset[str]
) -> Iterator[str]:
    for framework in frameworks:
        here = _found(framework)
        if framework.name not in imported or here is None or _is_required(framework, available):
            continue
        if framework.version and not f"{here[1]}.".startswith(f"{framework.version}."):
            yield (
                f"{here[0]} {here[1]} is used, as installed beside vtrain; the image has "
                f"{framework.requirement}."
            )


def _absent(framework: Distribution, image_uri: str) -> str:
    wanted = framework.requirement
    brings = f"; the image brings {wanted}" if image_uri else ""
    return (
        f"{framework.name} is imported and not installed here{brings}. Install it beside vtrain "
        f"(pip --python {sys.executable} install {wanted!r}), or add it to the requirements."
    )
