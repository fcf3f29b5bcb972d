"""The differences between the trainer's files in two packages, as unified diffs."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from vtrain.errors import PackagingError
from vtrain.packaging.archive import packed_files
from vtrain.packaging.unpacking import packed_members, readable

LARGEST_TEXT = 256 * 1024
"""Bytes of a file whose lines are compared; of a larger one only whether it differs."""
MOST_FILES = 2000
MOST_LINES = 200
"""Lines of a diff that are shown."""
LONGEST_LINE = 300
_MADE = re.compile(r"(?:^|/)(?:PKG-INFO$|[^/]+\.egg-info/)")


class Difference(NamedTuple):
    """The first lines of a unified diff, and how many more there are."""

    lines: list[str]
    left_out: int


def difference(before: Path, after: Path, *, names: tuple[str, str]) -> Difference:
    """The diff of the trainer's files in two packages. Raises PackagingError for a damaged one, OSError."""
    old, new = _texts(before), _texts(after)
    paths = sorted(path for path in {*old, *new} if old.get(path) != new.get(path))
    found = [line for path in paths for line in _of_file(path, old.get(path), new.get(path), names)]
    return Difference(found[:MOST_LINES], max(len(found) - MOST_LINES, 0))


def changed_files(packages: Sequence[Path | None], labels: Sequence[str]) -> Iterator[tuple[str, Difference]]:
    """The label and the diff of each package that differs from the first one: each package once."""
    first, *others = packages
    seen = {first, None}
    for label, package in zip(labels[1:], others, strict=True):
        if first is None or package is None or package in seen:
            continue
        seen.add(package)
        try:
            found = difference(first, package, names=(labels[0], label))
        except (PackagingError, OSError) as error:
            found = Difference([f"The files of {label} are not compared: {error}"], 0)
        if found.lines:
            yield label, found


def _of_file(
    path: str, old: list[str] | None, new: list[str] | None, names: tuple[str, str]
) -> Iterator[str]:
    head, new_head = (
        "/dev/null" if text is None else f"{name}/{path}"
        for name, text in zip(names, (old, new), strict=True)
    )
    for line in difflib.unified_diff(old or [], new or [], head, new_head, lineterm=""):
        yield line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"


def _texts(package: Path) -> dict[str, list[str]]:
    """The lines of each file of the trainer's, without those that setuptools makes of them."""
    if package.name.endswith(".tar.gz"):
        packed = ((str(each.path), each.content.read()) for each in packed_files(package))
        found = {path: _lines(content) for path, content in islice(packed, MOST_FILES)}
    else:
        with readable(package):
            members = islice(packed_members(package), MOST_FILES)
            found = {each.name: _lines(each.read(each.size)) for each in members}
    return {path: lines for path, lines in found.items() if not _MADE.search(path)}


def _lines(content: bytes) -> list[str]:
    if len(content) <= LARGEST_TEXT and b"\0" not in content:
        return content.decode("utf-8", "replace").splitlines()
    return [f"({len(content)} bytes, SHA-256 {hashlib.sha256(content).hexdigest()[:16]})"]
