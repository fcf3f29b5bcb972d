"""What Vertex AI's pre-built training images bring: their Python and the distributions in them.

Names, Python versions and the frameworks' versions are those of Google's list of pre-built
containers (cloud.google.com/vertex-ai/docs/training/pre-built-containers), as of `AS_OF`. A version
is empty where that list gives none.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

AS_OF = "2026-08-01"

Weight = Literal["small", "large"]


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution in an image. "large" is gigabytes, "small" is installed in seconds."""

    name: str
    version: str = ""
    import_names: tuple[str, ...] = ()
    weight: Weight = "small"

    @property
    def requirement(self) -> str:
        """The distribution as pip is told: any patch of a version that has two parts."""
        if not self.version:
            return self.name
        return f"{self.name}=={self.version}" + (".*" if self.version.count(".") == 1 else "")


class ImageContents(msgspec.Struct, frozen=True, kw_only=True):
    """A pre-built image: family ("tf"), version ("2.17"), Python ("3.10"; "" where any will do)."""

    family: str
    version: str
    python_version: str
    distributions: tuple[Distribution, ...]


_ALWAYS = (
    Distribution(name="cloudml-hypertune", version="0.1.0.dev6", import_names=("hypertune",)),
    Distribution(name="google-cloud-storage", import_names=("google.cloud.storage",)),
)
_NUMBERS = (
    Distribution(name="numpy", import_names=("numpy",)),
    Distribution(name="pandas", import_names=("pandas",)),
    Distribution(name="scipy", import_names=("scipy",)),
)
_SKLEARN = Distribution(name="scikit-learn", import_names=("sklearn",))

# Family → the framework's distribution and import name, and what stands beside it.
_FRAMEWORKS: dict[str, tuple[Distribution, tuple[Distribution, ...]]] = {
    "tf": (
        Distribution(name="tensorflow", import_names=("tensorflow",), weight="large"),
        (
            Distribution(name="keras", import_names=("keras",), weight="large"),
            Distribution(name="tensorboard", import_names=("tensorboard",), weight="large"),
            *_NUMBERS,
            _SKLEARN,
        ),
    ),
    "pytorch": (
        Distribution(name="torch", import_names=("torch",), weight="large"),
        (
            Distribution(name="torchvision", import_names=("torchvision",), weight="large"),
            Distribution(name="torchaudio", import_names=("torchaudio",), weight="large"),
            *_NUMBERS,
            _SKLEARN,
        ),
    ),
    "sklearn": (_SKLEARN, _NUMBERS),
    "xgboost": (Distribution(name="xgboost", import_names=("xgboost",)), (*_NUMBERS, _SKLEARN)),
    "ray": (Distribution(name="ray", import_names=("ray",), weight="large"), _NUMBERS),
}

_LARGE = tuple(
    distribution
    for framework, beside in _FRAMEWORKS.values()
    for distribution in (framework, *beside)
    if distribution.weight == "large"
)

DEFAULT = ImageContents(family="", version="", python_version="", distributions=(*_ALWAYS, *_LARGE))
"""What a trainer may count on where no image is named: the frameworks, of whatever version is there."""

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
    """What a pre-built training image holds; None for any other image."""
    match = _IMAGE.fullmatch(image_uri)
    if not match:
        return None
    family = "sklearn" if match["family"] == "scikit-learn" else match["family"]
    version = match["version"].replace("-", ".")
    framework, beside = _FRAMEWORKS[family]
    framework = msgspec.structs.replace(framework, version=version)
    xla = (Distribution(name="torch-xla", version=version, import_names=("torch_xla",), weight="large"),)
    devices = xla if match["device"] in ("xla", "tpu") and family == "pytorch" else ()
    return ImageContents(
        family=family,
        version=version,
        python_version=_python(match["name"], match["python"]),
        distributions=(framework, *devices, *beside, *_ALWAYS),
    )


def _python(name: str, suffix: str | None) -> str:
    if name in _PYTHON:
        return _PYTHON[name]
    return f"{suffix[0]}.{suffix[1:]}" if suffix else _OLDER_PYTHON
