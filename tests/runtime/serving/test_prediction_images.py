"""The pre-built prediction images."""

from __future__ import annotations

import re
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

from vtrain.runtime.serving.prediction_images import handler_requirements, prediction_image

PREFIX = "us-docker.pkg.dev/vertex-ai/prediction"


@pytest.mark.parametrize(
    ("name", "family", "version"),
    [
        ("sklearn-cpu.1-6:latest", "sklearn", "1.6"),
        ("xgboost-cpu.2-1", "xgboost", "2.1"),
        ("xgboost-gpu.1-7:latest", "xgboost", "1.7"),
        ("sklearn-cpu.1-0@sha256:0123abcd", "sklearn", "1.0"),
        ("pytorch-gpu.2-4:latest", "pytorch", "2.4"),
    ],
)
def test_their_names(name: str, family: str, version: str) -> None:
    for prefix in (
        PREFIX,
        "europe-docker.pkg.dev/vertex-ai/prediction",
        "gcr.io/cloud-aiplatform/prediction",
    ):
        found = prediction_image(f"{prefix}/{name}")
        assert found is not None
        assert (found.family, found.version) == (family, version)


@pytest.mark.parametrize(
    "uri",
    [
        "sklearn-cpu.1-6:latest",
        "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest",
        f"{PREFIX}/sklearn2-cpu.1-6:latest",
        "gcr.io/demo/serve",
        "",
    ],
)
def test_other_images_are_none_of_them(uri: str) -> None:
    assert prediction_image(uri) is None


def test_what_the_handler_of_an_archive_imports_is_installed(tmp_path: Path) -> None:
    file = tmp_path / "model.mar"
    assert handler_requirements(file) == ()
    file.write_bytes(b"no archive")
    assert handler_requirements(file) == ()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("handler.py", "import torch\n\ndef f():\n    from accelerate import x\n")
        archive.writestr("model.py", "import os, transformers as t\nimport diffusers_not\n")
        archive.writestr("broken.py", "import diffusers (")
        archive.writestr("model.pt", b"\nimport diffusers\n")
    assert handler_requirements(file) == ("transformers",)


@pytest.mark.api
def test_every_image_that_googles_library_lists_is_known() -> None:
    listed = import_module("google.cloud.aiplatform.constants.prediction")
    images = [
        uri for uri in listed.SERVING_CONTAINER_URIS if re.search("/(sklearn|xgboost|tf2?|pytorch)-", uri)
    ]
    assert len(images) > 80
    for uri in images:
        found = prediction_image(uri)
        assert found is not None, uri
        assert found.requirements("3.11")


def test_requirements_have_the_version_of_the_image() -> None:
    found = prediction_image(f"{PREFIX}/sklearn-cpu.1-3:latest")
    assert found is not None
    assert found.requirements("3.11")[:3] == ("scikit-learn==1.3.*", "numpy", "pandas")
    assert "numpy<2" in found.requirements("3.11")


def test_an_old_framework_is_newer_on_a_new_python() -> None:
    found = prediction_image(f"{PREFIX}/sklearn-cpu.1-0:latest")
    assert found is not None
    assert found.requirements("3.10")[0] == "scikit-learn==1.0.*"
    assert found.requirements("3.12") == ("scikit-learn", "numpy", "pandas")


def test_models_of_xgboost_may_need_scikit_learn() -> None:
    found = prediction_image(f"{PREFIX}/xgboost-cpu.1-7:latest")
    assert found is not None
    assert {"xgboost==1.7.*", "scikit-learn", "scikit-learn<1.6"} <= set(found.requirements("3.11"))
