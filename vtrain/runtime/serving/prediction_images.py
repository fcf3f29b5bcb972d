"""The pre-built prediction images of scikit-learn, XGBoost, TensorFlow and PyTorch, and their distributions.

Names and versions are those of Google's list of pre-built containers for prediction
(cloud.google.com/vertex-ai/docs/predictions/pre-built-containers), as of `AS_OF`.
"""

from __future__ import annotations

import re
import zipfile
from contextlib import suppress
from pathlib import Path

import msgspec

from vtrain.packaging.module_imports import LARGEST_SOURCE, UNREADABLE, imports_of, parse
from vtrain.packaging.prebuilt import contents, works_on

AS_OF = "2026-08-01"
_BESIDE: dict[str, tuple[str, ...]] = {
    "sklearn": ("numpy", "pandas"),
    "xgboost": ("numpy", "pandas", "scikit-learn"),
    "tf": (),
    "pytorch": ("torchserve", "pyyaml", "numpy", "torchvision"),
}
"""Further modules of the images of a family that models need: the imports in pickles of pipelines, and in
handlers of PyTorch; TorchServe does not name all of its own."""
_OF_HANDLERS = {"diffusers", "transformers"}
"""Large modules of the images of PyTorch: handlers in Google's own notebooks import them."""
_IMAGE = re.compile(
    r"(?:(?:us|europe|asia)-docker\.pkg\.dev/vertex-ai/prediction|gcr\.io/cloud-aiplatform/prediction)/"
    r"(?P<family>sklearn|xgboost|tf|pytorch)(?:(?<=tf)2)?-(?:cpu|gpu)\.(?P<version>\d+-\d+)(?::[\w.-]+|@sha256:[0-9a-f]+)?"
)


class PredictionImage(msgspec.Struct, frozen=True, kw_only=True):
    """A pre-built prediction image: its family, and the version of its framework ("1.6")."""

    family: str
    version: str

    def requirements(self, python: str) -> tuple[str, ...]:
        """The distributions for a Python of that version; the framework is newer where that has to be."""
        known = contents(
            f"us-docker.pkg.dev/vertex-ai/training/{self.family}-cpu.{self.version.replace('.', '-')}"
        )
        assert known is not None
        framework, *_ = known.distributions
        if not works_on(framework.newest_python, python):
            return (framework.name, *_BESIDE[self.family])
        bounds = (bound.requirement for bound in known.bounds if works_on(bound.newest_python, python))
        return (framework.requirement, *framework.needs, *_BESIDE[self.family], *bounds)


def prediction_image(image_uri: str) -> PredictionImage | None:
    """The pre-built image of that name; None for any other."""
    match = _IMAGE.fullmatch(image_uri)
    if match is None:
        return None
    return PredictionImage(family=match["family"], version=match["version"].replace("-", "."))


def handler_requirements(archive: Path) -> tuple[str, ...]:
    """The distributions that the code in a model archive of PyTorch needs beyond those of `PredictionImage`.

    There are none for a damaged archive, of which its server tells.
    """
    found: set[str] = set()
    with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(archive) as packed:
        for one in packed.infolist():
            if one.filename.endswith(".py") and one.file_size <= LARGEST_SOURCE:
                with suppress(*UNREADABLE):
                    tree = parse(packed.read(one))
                    found |= {each.module.partition(".")[0] for each in imports_of(tree)}
    return tuple(sorted(found & _OF_HANDLERS))
