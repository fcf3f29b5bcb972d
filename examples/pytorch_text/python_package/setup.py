"""The package of the trainer. Vertex AI installs it in an image that has PyTorch."""

from setuptools import find_packages, setup

setup(
    name="sentiment-trainer",
    version="0.1",
    packages=find_packages(),
    package_data={"trainer": ["sentences.tsv"]},
    install_requires=["torch>=2.2", "cloudml-hypertune"],
)
