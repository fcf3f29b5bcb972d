"""The successors of scale tiers, machine names and runtime versions on Vertex AI, as of `AS_OF`.

Source of the tiers and machines: the descriptions in the discovery document of `ml.googleapis.com` v1; what
stood behind a tier was never part of the API, and the machines are those of its last documentation. Source of
the images: Google's list of pre-built containers for training.
"""

from __future__ import annotations

import re

import msgspec

from vtrain.messages.custom_job import MachineSpec

AS_OF = "2026-08-01"
CUSTOM = "CUSTOM"
GPU_SUCCESSOR = "NVIDIA_TESLA_T4"
"""In place of the K80, which Vertex AI does not offer any more."""
ACCELERATORS = {"NVIDIA_TESLA_K80": GPU_SUCCESSOR, "TPU_V2_POD": "TPU_V2", "TPU_V3_POD": "TPU_V3"}
"""The names of accelerators that are others on Vertex AI. A slice of a TPU pod differs by its count alone."""
REGISTRY = "us-docker.pkg.dev/vertex-ai/training/"


class Machines(msgspec.Struct, frozen=True, kw_only=True):
    """Machines of a pool."""

    spec: MachineSpec
    count: int = 1


def _machine(machine_type: str, accelerator: str = "", count: int = 0) -> MachineSpec:
    return MachineSpec(machine_type=machine_type, accelerator_type=accelerator, accelerator_count=count)


SCALE_TIERS: dict[str, tuple[Machines, ...]] = {
    "BASIC": (Machines(spec=_machine("n1-standard-4")),),
    "STANDARD_1": (
        Machines(spec=_machine("n1-standard-8")),
        Machines(spec=_machine("n1-standard-8"), count=4),
        Machines(spec=_machine("n1-standard-4"), count=3),
    ),
    "PREMIUM_1": (
        Machines(spec=_machine("n1-highcpu-16")),
        Machines(spec=_machine("n1-highcpu-16"), count=19),
        Machines(spec=_machine("n1-highmem-8"), count=11),
    ),
    "BASIC_GPU": (Machines(spec=_machine("n1-standard-8", GPU_SUCCESSOR, 1)),),
    "BASIC_TPU": (Machines(spec=_machine("cloud-tpu", "TPU_V2", 8)),),
}
"""The pools of each tier: master, workers, parameter servers."""

MACHINES: dict[str, MachineSpec] = {
    "standard": _machine("n1-standard-4"),
    "large_model": _machine("n1-highmem-8"),
    "complex_model_s": _machine("n1-standard-8"),
    "complex_model_m": _machine("n1-highcpu-16"),
    "complex_model_l": _machine("n1-highcpu-32"),
    "standard_gpu": _machine("n1-standard-8", GPU_SUCCESSOR, 1),
    "complex_model_m_gpu": _machine("n1-standard-16", GPU_SUCCESSOR, 4),
    "complex_model_l_gpu": _machine("n1-standard-64", GPU_SUCCESSOR, 4),
    "standard_p100": _machine("n1-standard-8", "NVIDIA_TESLA_P100", 1),
    "complex_model_m_p100": _machine("n1-standard-16", "NVIDIA_TESLA_P100", 4),
    "standard_v100": _machine("n1-standard-8", "NVIDIA_TESLA_V100", 1),
    "large_model_v100": _machine("n1-highmem-8", "NVIDIA_TESLA_V100", 1),
    "complex_model_m_v100": _machine("n1-standard-16", "NVIDIA_TESLA_V100", 4),
    "complex_model_l_v100": _machine("n1-standard-32", "NVIDIA_TESLA_V100", 8),
    "cloud_tpu": _machine("cloud-tpu", "TPU_V2", 8),
    "n1-highcpu-8": _machine("n1-standard-8"),
    "n1-standard-2": _machine("n1-standard-4"),
    "n1-standard-1": _machine("n1-standard-4"),
}
"""The machine types of names that Vertex AI does not have; every other name stays."""

_PYTHON_3_7 = ("1.15", *(f"2.{minor}" for minor in range(1, 8)))
_IMAGES: dict[str, str] = {
    **{version: version.replace(".", "-") for version in _PYTHON_3_7},
    **{f"2.{minor}": f"2-{minor}.py310" for minor in (8, 9, 11)},
}
"""The TensorFlow image of each runtime version that has one of the same version."""
_NEAREST = {"2.10": "2.11", **{f"1.{minor}": "1.15" for minor in range(15)}, "2.0": "2.1"}
"""The nearest runtime version with an image; of those before 1.15 the API of TensorFlow 1 is the same."""
DEFAULT_RUNTIME = "2.11"
"""The last one: a job that named none had no image of its own to fall back on."""


class RuntimeVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The image of a runtime version; `note` says where it is not of the same version."""

    image_uri: str
    note: str = ""


def runtime_image(version: str, python_version: str, *, gpu: bool) -> RuntimeVersion:
    """The pre-built image that a runtime version has become."""
    image = _IMAGES.get(version) or _IMAGES.get(_NEAREST.get(version, ""), "")
    chosen = image or _IMAGES[DEFAULT_RUNTIME]
    python = "3.10" if chosen.endswith(".py310") else "3.7"
    uri = f"{REGISTRY}tf-{'gpu' if gpu else 'cpu'}.{chosen}:latest"
    notes = []
    if not version:
        notes.append(f"No runtime version is given: the image is that of {DEFAULT_RUNTIME}.")
    elif version not in _IMAGES:
        shown = _NEAREST.get(version, DEFAULT_RUNTIME)
        notes.append(f"Runtime version {version} has no successor: the image is that of {shown}.")
    if re.fullmatch(r"\d+\.\d+", python_version) and python_version != python:
        notes.append(f"The image has Python {python}, and not {python_version}.")
    return RuntimeVersion(image_uri=uri, note=" ".join(notes))
