from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtrain.backends.image_order import ImageWish, published_image
from vtrain.containers.image_names import (
    ImageName,
    check_image_name,
    check_tag_name,
    read_image_name,
    usual_platform,
)
from vtrain.errors import ConfigError

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("text", "name", "registry"),
    [
        ("python", ImageName(repository="python"), ""),
        ("python:3.11-slim", ImageName(repository="python", tag="3.11-slim"), ""),
        ("pytorch/pytorch", ImageName(repository="pytorch/pytorch"), ""),
        ("localhost/a", ImageName(repository="localhost/a"), "localhost"),
        ("GCR.io/p/a", ImageName(repository="GCR.io/p/a"), "GCR.io"),
        ("Box:5000/a", ImageName(repository="Box:5000/a"), "Box:5000"),
        (
            "localhost:5000/a__b/c-d:x",
            ImageName(repository="localhost:5000/a__b/c-d", tag="x"),
            "localhost:5000",
        ),
        ("[::1]:5000/a", ImageName(repository="[::1]:5000/a"), "[::1]:5000"),
        (
            f"us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-17.py310@{DIGEST}",
            ImageName(repository="us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-17.py310", digest=DIGEST),
            "us-docker.pkg.dev",
        ),
        (f"a:b@{DIGEST}", ImageName(repository="a", tag="b", digest=DIGEST), ""),
    ],
)
def test_a_reference_is_read_in_its_parts(text: str, name: ImageName, registry: str) -> None:
    assert read_image_name(text) == name
    assert name.registry == registry


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A",
        "UPPER/x",
        "Upper/x:1",
        "UPPER/x/y",
        "LOCALHOST/x",
        "a:",
        "a@b",
        "a//b",
        "a b",
        "a\nRUN x",
        "a:b\n",
        "-a",
        "a/-b",
        "a..b",
        "a:é",
        "a:" + "x" * 129,
        "a" * 256,
    ],
)
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--executor-image-uri"):
        check_image_name(text, "--executor-image-uri")


@given(st.text(st.sampled_from("aB0._-/:@[]\n\r\t $\"'\\{}#é"), max_size=20))
def test_no_name_that_passes_can_end_a_line_or_a_word(text: str) -> None:
    try:
        assert check_image_name(text) == text
    except ConfigError:
        return
    assert re.fullmatch(r"[A-Za-z0-9._/:@\[\]-]+", text)


def test_an_image_cannot_be_given_a_digest_as_its_name() -> None:
    with pytest.raises(ConfigError, match="holds a digest"):
        check_tag_name(f"a@{DIGEST}", "output-image-uri")


@pytest.mark.parametrize(
    ("text", "usual"),
    [
        ("", ""),
        ("linux/amd64", "linux/amd64"),
        ("linux/x86_64", "linux/amd64"),
        ("linux/aarch64/v8", "linux/arm64/v8"),
    ],
)
def test_platforms_by_the_names_of_images(text: str, usual: str) -> None:
    assert usual_platform(text) == usual


def test_a_published_image_is_for_the_machines_of_the_service() -> None:
    for platform in ("", "linux/amd64", "linux/x86_64"):
        assert published_image(ImageWish(platform=platform, project="demo")).platform == "linux/amd64"
    with pytest.raises(ConfigError, match="the machines of Vertex AI are linux/amd64, not linux/arm64"):
        published_image(ImageWish(platform="linux/arm64", project="demo"))
