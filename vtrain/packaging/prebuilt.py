"""The contents of Vertex AI's pre-built training images: their Python and their distributions.

Names, Python versions and the frameworks' versions are those of Google's list of pre-built
containers (cloud.google.com/vertex-ai/docs/training/pre-built-containers), as of `AS_OF`. A version
is empty where that list gives none.

The list names frameworks only. Versions that work with an old one are bounded here. The bounds come from the
metadata and the wheels on PyPI, as of the same day.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

AS_OF = "2026-08-01"


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution in an image.

    `newest_python` is the last one that the version works on (empty: any). `needs` are requirements that the
    version imports and its metadata does not name.
    """

    name: str
    version: str = ""
    import_names: tuple[str, ...] = ()
    newest_python: str = ""
    needs: tuple[str, ...] = ()

    @property
    def requirement(self) -> str:
        """The distribution as pip gets it: any patch of a version that has two parts."""
        if not self.version:
            return self.name
        return f"{self.name}=={self.version}" + (".*" if self.version.count(".") == 1 else "")


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """A requirement on what stands beside a framework, and the last Python that it can be had for."""

    requirement: str
    newest_python: str = ""


class ImageContents(msgspec.Struct, frozen=True, kw_only=True):
    """A pre-built image: family ("tf"), version ("2.17"), Python ("3.10"; "" where any will do).

    `bounds` keep from it what came out after the image, and does not work with its framework.
    """

    family: str
    version: str
    python_version: str
    distributions: tuple[Distribution, ...]
    bounds: tuple[Bound, ...] = ()


_ALWAYS = (
    Distribution(name="cloudml-hypertune", version="0.1.0.dev6", import_names=("hypertune",)),
    Distribution(name="google-cloud-storage", import_names=("google.cloud.storage",)),
    Distribution(name="google-cloud-logging", import_names=("google.cloud.logging",)),
)
_NUMBERS = (
    Distribution(name="numpy", import_names=("numpy",)),
    Distribution(name="pandas", import_names=("pandas",)),
    Distribution(name="scipy", import_names=("scipy",)),
    Distribution(name="gcsfs", import_names=("gcsfs", "fsspec")),  # by which pandas reads gs://…
)
_SKLEARN = Distribution(name="scikit-learn", import_names=("sklearn",))

# Family → the framework's distribution and import name, and what stands beside it.
_FRAMEWORKS: dict[str, tuple[Distribution, tuple[Distribution, ...]]] = {
    "tf": (
        Distribution(name="tensorflow", import_names=("tensorflow",)),
        (
            Distribution(name="keras", import_names=("keras",)),
            Distribution(name="tensorboard", import_names=("tensorboard",)),
            *_NUMBERS,
            _SKLEARN,
        ),
    ),
    "pytorch": (
        Distribution(name="torch", import_names=("torch",)),
        (
            Distribution(name="torchvision", import_names=("torchvision",)),
            Distribution(name="torchaudio", import_names=("torchaudio",)),
            *_NUMBERS,
            _SKLEARN,
        ),
    ),
    "sklearn": (_SKLEARN, _NUMBERS),
    "xgboost": (Distribution(name="xgboost", import_names=("xgboost",)), (*_NUMBERS, _SKLEARN)),
    "ray": (Distribution(name="ray", import_names=("ray",)), _NUMBERS),
}

_PANDAS_2 = Bound(requirement="pandas<3", newest_python="3.14")
_NUMPY_1 = Bound(requirement="numpy<2", newest_python="3.12")
_SKLEARN_1_5 = Bound(requirement="scikit-learn<1.6", newest_python="3.13")

# Family → the first version for NumPy 2: those of TensorFlow say so in their metadata, the others were
# compiled for NumPy 1, or use what NumPy 2 removed.
_NUMPY_2_SINCE = {"tf": (2, 18), "pytorch": (2, 3), "sklearn": (1, 5), "xgboost": (2, 1)}

# Family → the first version for scikit-learn 1.6, which asks estimators for their tags in another way.
_SKLEARN_1_6_SINCE = {"xgboost": (2, 1)}

# Family → the last Python of the framework's wheels, since each version.
_NEWEST_PYTHON: dict[str, tuple[tuple[tuple[int, ...], str], ...]] = {
    "tf": (
        *(((2, 20), "3.13"), ((2, 16), "3.12"), ((2, 12), "3.11"), ((2, 8), "3.10")),
        *(((2, 5), "3.9"), ((2, 2), "3.8"), ((0,), "3.7")),
    ),
    "pytorch": (
        *(((2, 9), "3.14"), ((2, 5), "3.13"), ((2, 2), "3.12"), ((1, 13), "3.11")),
        *(((1, 11), "3.10"), ((1, 7), "3.9"), ((0,), "3.8")),
    ),
    "ray": (((2, 55), "3.14"), ((2, 45), "3.13"), ((2, 31), "3.12"), ((2, 3), "3.11"), ((0,), "3.10")),
    "sklearn": (
        *(((1, 7), "3.14"), ((1, 5), "3.13"), ((1, 3), "3.12"), ((1, 1), "3.11")),
        *(((1, 0), "3.10"), ((0,), "3.8")),
    ),
    # The wheels of xgboost are for any Python, but the first ones need NumPy 1.
    "xgboost": (((1, 6), ""), ((0,), "3.12")),
}

# Family and version → what the framework imports and its metadata does not name.
_NEEDS = {("xgboost", f"1.{minor}"): ("setuptools<81",) for minor in (3, 4, 5, 6)}  # pkg_resources

DEFAULT = ImageContents(family="", version="", python_version="", distributions=_ALWAYS)
"""The distributions that trainers count on where no image is named."""
ANY = ImageContents(
    family="",
    version="",
    python_version="",
    distributions=(
        *_ALWAYS,
        *(one for framework, beside in _FRAMEWORKS.values() for one in (framework, *beside)),
    ),
)
"""The distributions of all images together."""

IMPORT_NAMES = frozenset(
    name
    for framework, beside in _FRAMEWORKS.values()
    for distribution in (framework, *beside, *_ALWAYS)
    for name in distribution.import_names
) | {"torch_xla"}
"""The import names of all distributions in any image."""

HOST = "us-docker.pkg.dev/vertex-ai/training"
# Import → what is imported, and the newest of Google's images that has it: for CPUs, and for GPUs.
_NEWEST = {
    "torch": ("PyTorch", "pytorch-xla.2-4.py310", "pytorch-gpu.2-4.py310"),
    "tensorflow": ("TensorFlow", "tf-cpu.2-17.py310", "tf-gpu.2-17.py310"),
    "keras": ("Keras", "tf-cpu.2-17.py310", "tf-gpu.2-17.py310"),
    "xgboost": ("XGBoost", "xgboost-cpu.2-1", "xgboost-cpu.2-1"),  # there is none for GPUs
    "sklearn": ("scikit-learn", "sklearn-cpu.1-6", "sklearn-cpu.1-6"),
}

# Image name without tag → Python. Images with a suffix .py310, .cp310 or .py311 say it themselves.
_PYTHON: dict[str, str] = {
    **{f"sklearn-{device}.{version}": "3.10" for device in ("cpu", "gpu") for version in ("1-6", "1-0")},
    **{f"xgboost-{device}.{version}": "3.10" for device in ("cpu", "gpu") for version in ("2-1", "1-6")},
    "scikit-learn-cpu.0-23": "3.7",
    "xgboost-cpu.1-1": "3.7",
    "tf-tpu.2-12": "3.8",
    "pytorch-tpu.2-0": "3.8",
    "pytorch-tpu.2-1": "3.8",
    "pytorch-tpu.2-1.cp310": "3.8",
}
_OLDER_PYTHON = "3.7"

_IMAGE = re.compile(
    r"(?:(?:us|europe|asia)-docker\.pkg\.dev/vertex-ai/training|gcr\.io/cloud-aiplatform/training)/"
    r"(?P<name>(?P<family>tf|pytorch|sklearn|scikit-learn|xgboost|ray)-(?P<device>cpu|gpu|tpu|xla)"
    r"\.(?P<version>\d+-\d+)(?:\.(?:py|cp)(?P<python>\d{2,3}))?)(?::[\w.-]+|@sha256:[0-9a-f]+)?"
)


def contents(image_uri: str) -> ImageContents | None:
    """The contents of a pre-built training image; None for any other image."""
    match = _IMAGE.fullmatch(image_uri)
    if not match:
        return None
    family = "sklearn" if match["family"] == "scikit-learn" else match["family"]
    version = match["version"].replace("-", ".")
    framework, beside = _FRAMEWORKS[family]
    limits = _NEWEST_PYTHON[family]
    framework = msgspec.structs.replace(
        framework,
        version=version,
        newest_python=next(python for since, python in limits if _numbers(version) >= since),
        needs=_NEEDS.get((family, version), ()),
    )
    xla = (
        Distribution(name="torch-xla", version=version, import_names=("torch_xla",), newest_python="3.11"),
    )
    devices = xla if match["device"] in ("xla", "tpu") and family == "pytorch" else ()
    return ImageContents(
        family=family,
        version=version,
        python_version=_python(match["name"], match["python"]),
        distributions=(framework, *devices, *beside, *_ALWAYS),
        bounds=_bounds(family, version),
    )


def newest_image(imports: Collection[str], *, has_gpus: bool = False) -> tuple[str, str]:
    """The distribution and the image that a trainer with these imports needs; empty where none is known."""
    for name, (distribution, for_cpus, for_gpus) in _NEWEST.items():
        if name in imports:
            return distribution, f"{HOST}/{for_gpus if has_gpus else for_cpus}:latest"
    return "", ""


def works_on(newest_python: str, python: str) -> bool:
    """Whether a Python is not newer than the last one that something works on."""
    return not newest_python or _numbers(python) <= _numbers(newest_python)


def _bounds(family: str, version: str) -> tuple[Bound, ...]:
    found = [_PANDAS_2]
    for since, bound in ((_NUMPY_2_SINCE, _NUMPY_1), (_SKLEARN_1_6_SINCE, _SKLEARN_1_5)):
        if family in since and _numbers(version) < since[family]:
            found.append(bound)
    return tuple(found)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _python(name: str, suffix: str | None) -> str:
    if name in _PYTHON:
        return _PYTHON[name]
    return f"{suffix[0]}.{suffix[1:]}" if suffix else _OLDER_PYTHON
