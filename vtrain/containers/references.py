"""Names of images: the grammar of references, as registries and engines read them. It asks nobody.

Source: github.com/distribution/reference, reference.go, the grammar at its head.
"""

from __future__ import annotations

import re

import msgspec

from vtrain.errors import ConfigError

_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_DOMAIN = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?P<repository>(?:{_DOMAIN}/)?{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
_LONGEST_REPOSITORY = 255
_BUILT_HERE = re.compile(r"vtrain/[a-z0-9._-]+:[0-9a-f]{16}")


class ImageName(msgspec.Struct, frozen=True, kw_only=True):
    """An image's name in its parts; `tag` and `digest` are empty where the name has none."""

    repository: str
    tag: str = ""
    digest: str = ""

    @property
    def registry(self) -> str:
        """The registry's host; empty where the name leaves it to the engine (Docker Hub)."""
        first, slash, _ = self.repository.partition("/")
        return first if slash and _is_host(first) else ""


def is_built_here(name: str) -> bool:
    """Whether vtrain gives such names: `vtrain/NAME:` and sixteen digits of a content hash."""
    return _BUILT_HERE.fullmatch(name) is not None


def read_image_name(text: str, what: str = "the image name") -> ImageName:
    """The parts of an image name. Raises ConfigError for text that is no reference."""
    match = _REFERENCE.fullmatch(text)
    if match is None or len(match["repository"]) > _LONGEST_REPOSITORY or _has_capitals(match["repository"]):
        raise ConfigError(
            f"{what}: {text!r:.300} is not the name of an image.",
            hint="Names look like REGISTRY/FOLDER/NAME:TAG, in lower case and without spaces.",
        )
    return ImageName(repository=match["repository"], tag=match["tag"] or "", digest=match["digest"] or "")


def _is_host(first: str) -> bool:
    """Whether the first part of a name is a registry's host; without a mark it is a folder."""
    return any(mark in first for mark in ".:[") or first == "localhost"


def _has_capitals(repository: str) -> bool:
    """Whether there are capitals outside the registry's host: the grammar lets the first part have them."""
    first = repository.partition("/")[0]
    return first != first.lower() and not _is_host(first)


def check_image_name(text: str, what: str = "the image name") -> str:
    """The text itself, when it is an image's name. Raises ConfigError when it is not."""
    read_image_name(text, what)
    return text


def check_tag_name(text: str, what: str) -> str:
    """The text itself, when an image can be given this name. Raises ConfigError when it cannot."""
    if read_image_name(text, what).digest:
        raise ConfigError(f"{what}: {text} holds a digest, which only a registry gives.", hint="Give a tag.")
    return text
