"""The table of Vertex AI's pre-built training images."""

from __future__ import annotations

import pytest

from vtrain.packaging.prebuilt import contents

HOST = "us-docker.pkg.dev/vertex-ai/training/"


@pytest.mark.parametrize(
    ("image", "python", "framework"),
    [
        (HOST + "tf-cpu.2-17.py310:latest", "3.10", "tensorflow==2.17.*"),
        (HOST + "pytorch-xla.2-4.py310:latest", "3.10", "torch==2.4.*"),
        ("gcr.io/cloud-aiplatform/training/pytorch-gpu.1-9", "3.7", "torch==1.9.*"),
        ("europe-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest", "3.10", "scikit-learn==1.6.*"),
        (HOST + "scikit-learn-cpu.0-23:latest", "3.7", "scikit-learn==0.23.*"),
        ("asia-docker.pkg.dev/vertex-ai/training/xgboost-cpu.2-1:latest", "3.10", "xgboost==2.1.*"),
        (HOST + "tf-tpu.2-12:latest", "3.8", "tensorflow==2.12.*"),
    ],
)
def test_images(image, python, framework):
    found = contents(image)
    assert found is not None
    assert found.python_version == python
    assert found.distributions[0].requirement == framework
    assert {"cloudml-hypertune", "google-cloud-storage"} <= {item.name for item in found.distributions}


@pytest.mark.parametrize(
    "image", ["python:3.12", "", HOST + "tf-cpu", "gcr.io/my/tf-cpu.2-17", HOST + "jax-cpu.1-1"]
)
def test_other_images(image):
    assert contents(image) is None
