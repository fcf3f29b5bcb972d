"""Images of a real engine: found, pulled, pushed, listed, removed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from vtrain.containers.build import BuildRequest, build_image
from vtrain.containers.engine import Engine
from vtrain.containers.images import (
    Image,
    ensure_image,
    find_image,
    fits_platform,
    list_images,
    push_image,
    remove_image,
    split_name,
)
from vtrain.errors import ImageError

pytestmark = pytest.mark.docker
NewName = Callable[..., str]


def _silent(line: str) -> None:
    """Progress that nobody wants."""


@pytest.fixture
def built(docker_engine: Engine, base_image: str, new_name: NewName) -> Callable[..., str]:
    """Builds a small image under a new name."""

    def make(registry: str = "", dockerfile: str = "", platform: str = "", **labels: str) -> str:
        name = new_name(registry)
        text = dockerfile or f"FROM {base_image}\nENV MADE_FOR={name}\n"
        request = BuildRequest(tags=(name,), dockerfile=text, labels=labels, platform=platform)
        build_image(docker_engine, request, _silent)
        return name

    return make


@pytest.fixture
def foreign(built: Callable[..., str]) -> str:
    """An image for another platform than any test machine's."""
    return built(dockerfile="FROM scratch\nCOPY .vtrain.Dockerfile /x\n", platform="linux/s390x")


def test_an_image_tells_what_it_is(docker_engine: Engine, built: Callable[..., str], base_image: str) -> None:
    text = f'FROM {base_image}\nUSER 1000:1000\nENTRYPOINT ["sh", "-c"]\nCMD ["true"]\nENV A=b\n'
    name = built(dockerfile=text, **{"vtrain.content": "0123"})
    image = find_image(docker_engine, name)
    assert image is not None
    assert (image.user, image.entrypoint, image.command) == ("1000:1000", ("sh", "-c"), ("true",))
    assert "A=b" in image.env
    assert image.labels["vtrain.content"] == "0123"
    assert image.tags == (name,)
    assert image.size > 10_000_000
    assert find_image(docker_engine, image.id) == image


@pytest.mark.parametrize("name", ["vtrain-test/none:1", "sha256:" + "0" * 64])
def test_an_image_that_is_not_there(docker_engine: Engine, name: str) -> None:
    assert find_image(docker_engine, name) is None


def test_what_is_here_is_not_pulled(docker_engine: Engine, base_image: str, lines: list[str]) -> None:
    for pull in ("missing", "never"):
        assert ensure_image(docker_engine, base_image, pull=pull, tell=lines.append).id
    assert lines == []


def test_never_says_that_nothing_is_pulled(docker_engine: Engine, foreign: str) -> None:
    with pytest.raises(ImageError, match="is not here, and --pull=never"):
        ensure_image(docker_engine, "vtrain-test/none:1", pull="never", tell=_silent)
    with pytest.raises(ImageError, match=r"is for linux/s390x, not for linux/amd64, and --pull=never"):
        ensure_image(docker_engine, foreign, pull="never", platform="linux/amd64", tell=_silent)


def test_another_platform_is_looked_for_in_the_registry(docker_engine: Engine, foreign: str) -> None:
    assert (
        ensure_image(docker_engine, foreign, platform="linux/s390x", tell=_silent).platform == "linux/s390x"
    )
    with pytest.raises(ImageError, match="is for linux/s390x") as refused:
        ensure_image(docker_engine, foreign, platform="linux/amd64", tell=_silent)
    assert "cannot be pulled" in refused.value.message


def test_push_and_pull_again(
    docker_engine: Engine, built: Callable[..., str], loopback_registry: str, lines: list[str]
) -> None:
    name = built(loopback_registry)
    digest = push_image(docker_engine, name, tell=lines.append)
    assert digest.startswith("sha256:")
    assert len(digest) == 71
    assert lines[0] == f"Pushing {name}"
    assert lines[-1].startswith(f"Pushed {name}@{digest} (")
    assert push_image(docker_engine, name, tell=lines.append) == digest
    assert "layers were there" in lines[-1]
    remove_image(docker_engine, name)
    lines.clear()
    assert f"MADE_FOR={name}" in ensure_image(docker_engine, name, tell=lines.append).env
    assert lines[0] == f"Pulling {name}"
    assert lines[-1].startswith(f"Pulled {name} (")
    lines.clear()
    ensure_image(docker_engine, name, pull="always", tell=lines.append)
    assert lines[0] == f"Pulling {name}"
    by_digest = f"{split_name(name)[0]}@{digest}"
    assert ensure_image(docker_engine, by_digest, pull="always", tell=_silent).env


def test_a_registry_that_lacks_the_image(docker_engine: Engine, loopback_registry: str) -> None:
    name = f"{loopback_registry}/vtrain-test/none:7"
    with pytest.raises(ImageError, match=f"{loopback_registry} does not have it") as refused:
        ensure_image(docker_engine, name, tell=_silent)
    assert "name or tag" in refused.value.hint


def test_a_registry_that_is_not_there(docker_engine: Engine, built: Callable[..., str]) -> None:
    name = built("127.0.0.1:1")
    with pytest.raises(
        ImageError, match=r"cannot be pushed: the Docker engine does not reach 127\.0\.0\.1:1"
    ):
        push_image(docker_engine, name, tell=_silent)
    with pytest.raises(
        ImageError, match=r"cannot be pulled: the Docker engine does not reach 127\.0\.0\.1:1"
    ):
        ensure_image(docker_engine, name, pull="always", tell=_silent)


def test_pushing_what_is_not_there(docker_engine: Engine) -> None:
    with pytest.raises(ImageError, match="vtrain-test/none:1 cannot be pushed"):
        push_image(docker_engine, "127.0.0.1:1/vtrain-test/none:1", tell=_silent)


@pytest.mark.parametrize("name", ["No Name:1", "case/UPPER", "a b", "?x=y#z", "a\nb", "x:" + "y" * 200])
def test_what_is_no_name_is_told_so(docker_engine: Engine, name: str) -> None:
    with pytest.raises(ImageError, match="is not the name of an image"):
        ensure_image(docker_engine, name, tell=_silent)


def test_a_credential_helper_that_fails_is_told(
    docker_engine: Engine, loopback_registry: str, own_home: object, lines: list[str]
) -> None:
    from pathlib import Path

    config = Path(str(own_home)) / ".docker/config.json"
    config.parent.mkdir()
    config.write_text('{"credsStore": "vtrain-none"}')
    with pytest.raises(ImageError, match="does not have it"):
        ensure_image(docker_engine, f"{loopback_registry}/vtrain-test/none:7", tell=lines.append)
    assert any("credentials" in line and "trying without" in line for line in lines)


def test_images_are_listed_by_label(docker_engine: Engine, built: Callable[..., str]) -> None:
    name = built(**{"vtrain.test-list": "a"})
    other = built(**{"vtrain.test-list": "b"})
    found = list_images(docker_engine, {"vtrain.test-list": "a"})
    assert [image.tags for image in found] == [(name,)]
    assert found[0].size > 0
    assert found[0].created > 1_600_000_000
    assert found[0].labels["vtrain.test-list"] == "a"
    either = list_images(docker_engine, {"vtrain.test-list": ""})
    assert {tag for image in either for tag in image.tags} == {name, other}


def test_an_image_that_a_container_uses_is_kept(docker_engine: Engine, built: Callable[..., str]) -> None:
    name = built()
    container = docker_engine.client.create_container(name, ["true"])["Id"]
    try:
        with pytest.raises(ImageError, match=f"The image {name} is kept: the container .* uses it"):
            remove_image(docker_engine, name)
        assert find_image(docker_engine, name) is not None
    finally:
        docker_engine.client.remove_container(container, force=True)
    remove_image(docker_engine, name)
    assert find_image(docker_engine, name) is None
    remove_image(docker_engine, name)


def test_an_id_removes_all_tags_and_a_tag_only_itself(
    docker_engine: Engine, built: Callable[..., str], new_name: NewName
) -> None:
    name, second, third = built(), new_name(), new_name()
    for tag in (second, third):
        docker_engine.client.tag(name, *split_name(tag))
    remove_image(docker_engine, second)
    image = find_image(docker_engine, name)
    assert image is not None
    assert set(image.tags) == {name, third}
    remove_image(docker_engine, image.id)
    assert find_image(docker_engine, image.id) is None


@pytest.mark.parametrize(
    ("platform", "fits"),
    [
        ("", True),
        ("linux/arm64", True),
        ("linux/arm64/v8", True),
        ("linux/aarch64", True),
        ("linux/arm64/v7", False),
        ("linux/x86_64", False),
        ("linux/amd64", False),
    ],
)
def test_platforms_are_compared_by_what_is_given(platform: str, fits: bool) -> None:
    assert fits_platform(Image(id="x", architecture="arm64", variant="v8"), platform) is fits


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a", ("a", "latest")),
        ("a/b:1", ("a/b", "1")),
        ("h:5000/a", ("h:5000/a", "latest")),
        ("h:5000/a:1@sha256:ff", ("h:5000/a", "sha256:ff")),
    ],
)
def test_names_are_split(name: str, parts: tuple[str, str]) -> None:
    assert split_name(name) == parts
