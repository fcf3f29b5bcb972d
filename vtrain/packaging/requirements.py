"""Requirements as they can stand in a package's metadata (Requires-Dist, PEP 508)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec

from vtrain.errors import PackagingError
from vtrain.text_files import decoded, encoding_of

REQUIREMENTS_FILE = "requirements.txt"

_COMMENT = re.compile(r"(^|\s)#.*$")
_VARIABLE = re.compile(r"\$\{[A-Z0-9_]+\}")  # as in pip's requirements files
_HASH_OPTION = re.compile(r"\s--hash[= ]\S+")
_NESTED = re.compile(r"(?:-r|--requirement)[= ]?\s*(?P<file>\S.*)")
_EGG = re.compile(r"(?:^|&)egg=(?P<name>[A-Za-z0-9._-]+)")
_URL = re.compile(r"(git|hg|svn|bzr)\+\S+|(https?|file)://\S+")
_NAME_AND_VERSION = re.compile(r"[A-Za-z0-9._-]-\d")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]")
_PACKAGE_SUFFIXES = (".whl", ".tar.gz", ".zip")
_CONSTRAINT = re.compile(r"(?:-c|--constraint)[= ]?\s*(?P<file>\S.*)")
# What ends a line for pip or in a package's metadata, and what no line holds.
_BREAKS = re.compile("[\\x00-\\x08\\x0a-\\x1f\\x7f\\x85\\u2028\\u2029]")
_ITSELF = frozenset({".", "./", "-e .", "-e ./", "--editable .", "--editable=."})


class Requirements(msgspec.Struct, frozen=True, kw_only=True):
    """PEP 508 strings, and a sentence for each line that metadata cannot carry.

    `pip_lines` are the same for pip's own file format: with the options and hashes that metadata has no
    place for, and the text of constraint files by the name under which the lines speak of them.
    """

    lines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    pip_lines: tuple[str, ...] = ()
    constraints: tuple[tuple[str, str], ...] = ()


class _Line(NamedTuple):
    """A line, where messages place it, and the text of the file of constraints that it names, if it does."""

    where: str
    text: str
    bounds: str | None = None


def read_requirements(given: tuple[str, ...], folder: Path) -> Requirements:
    """The `requirements` flag and the `requirements.txt` at the root of the folder, in gcloud's order.

    Raises PackagingError for a line that pip could install but metadata cannot name.
    """
    file = folder / REQUIREMENTS_FILE
    listed = _lines_of(file, folder, set()) if file.is_file() else ()
    return _read(chain(listed, (_Line("requirements", each.strip()) for each in given)))


def read_given(given: tuple[str, ...], where: str = "requirements") -> Requirements:
    """The `requirements` flag alone, or other requirements, which messages place at `where`."""
    return _read(_Line(where, each.strip()) for each in given)


def _lines_of(path: Path, folder: Path, opened: set[Path]) -> Iterator[_Line]:
    """The lines of a file, and of those that it includes and nobody has `opened`."""
    if path.resolve() in opened:
        return
    opened.add(path.resolve())
    for number, line in _logical_lines(_text(path)):
        where = f"{_shown(path, folder)}:{number}"
        if nested := _NESTED.fullmatch(line):
            yield from _lines_of(_beside(path, nested["file"], where, folder), folder, opened)
        elif (constraint := _CONSTRAINT.fullmatch(line)) and "://" not in line:
            bounds = _logical_lines(_text(_beside(path, constraint["file"], where, folder)))
            yield _Line(where, line, "".join(f"{bound}\n" for _, bound in bounds))
        else:
            yield _Line(where, line)


def _beside(path: Path, given: str, where: str, folder: Path) -> Path:
    named = path.parent / given.strip()
    if not named.is_file():
        raise PackagingError(f"{where}: there is no file {_shown(named, folder)}.")
    return named


def _read(given: Iterable[_Line]) -> Requirements:
    lines, pip_lines = dict[str, None](), dict[str, None]()  # each once
    warnings: list[str] = []
    constraints: list[tuple[str, str]] = []

    def ignore(option: str, where: str) -> None:
        warnings.append(f"{where}: {option} is ignored, a package's metadata has no place for it")

    for where, line, bounds in given:
        if not line or line in _ITSELF:
            continue
        if bounds is None and _BREAKS.search(line):
            raise PackagingError(f"{where}: {line!r:.200} is not a requirement: it is not one line of text.")
        if line.startswith("-") and not line.startswith(("-e", "--editable")):
            ignore(line.split()[0].split("=")[0], where)
            if bounds is not None:
                constraints.append((f"constraints-{len(constraints) + 1}.txt", bounds))
                line = f"-c {constraints[-1][0]}"
            pip_lines[line] = None
            continue
        text = _HASH_OPTION.sub("", line)
        if text != line:
            ignore("--hash", where)
        requirement = _requirement(text.strip(), where)
        if variable := _VARIABLE.search(requirement):
            unlike = "as pip replaces no variable in a package's metadata"
            warnings.append(f"{where}: {variable[0]} is replaced on this machine alone, {unlike}")
        lines[requirement] = None
        pip_lines[requirement + "".join(_HASH_OPTION.findall(line))] = None
    return Requirements(
        lines=tuple(lines),
        warnings=tuple(warnings),
        pip_lines=tuple(pip_lines),
        constraints=tuple(constraints),
    )


def _text(path: Path) -> str:
    """The text of a requirements file in the encoding of its mark, else UTF-8."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PackagingError(f"Cannot read the requirements in {path}: {error.strerror}.") from None
    try:
        return decoded(data)
    except UnicodeError:
        raise PackagingError(
            f"Cannot read the requirements in {path}: it is not {encoding_of(data) or 'UTF-8'} text.",
            hint="Save it as UTF-8.",
        ) from None


def _requirement(text: str, where: str) -> str:
    from packaging.requirements import InvalidRequirement, Requirement

    text = re.sub(r"^(-e|--editable)[= ]\s*", "", text)
    unseen = f"{where}: {text} is a path on this machine, which the machine that trains cannot see."
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        is_url = _URL.fullmatch(text)
        if is_url and not _is_path(text):
            return _named_url(text, where)
        if is_url or text.startswith((".", "/", "~", "file:")) or text.endswith(_PACKAGE_SUFFIXES):
            hint = "Name the file in extra-packages (a project: build it first; another folder: extra-dirs)."
            raise PackagingError(unseen, hint=hint) from None
        reason, hint = str(error).splitlines()[0], ""
        if variable := _VARIABLE.search(text):
            reason, hint = f"{variable[0]} is a variable, and metadata has none", "Write its value."
        raise PackagingError(f"{where}: `{text}` is not a requirement: {reason}.", hint=hint) from None
    if requirement.url and _is_path(requirement.url):
        name = requirement.name
        hint = (
            f"Write {name}==VERSION, as `pip list --format=freeze` does, or {name} with extra-packages=FILE."
        )
        raise PackagingError(unseen, hint=hint)
    return text


def _is_path(url: str) -> bool:
    scheme, separator, _ = url.partition("://")
    return scheme.rpartition("+")[2] == "file" or not (separator or "+" in scheme)


def _named_url(url: str, where: str) -> str:
    location, _, fragment = url.partition("#")
    file = location.rpartition("/")[2]
    egg, version = _EGG.search(fragment), _NAME_AND_VERSION.search(file)
    if egg is not None:
        name = egg["name"]
    elif version is not None and file.endswith(_PACKAGE_SUFFIXES):
        name = _NOT_IN_NAMES.split(file[: version.start() + 1])[-1]
    else:
        raise PackagingError(
            f"{where}: the URL {url} does not say which distribution it holds.",
            hint=f"Write it as `NAME @ {url}`.",
        )
    return f"{name} @ {url.split('#egg=')[0]}"


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines without comments, joined where they end in a backslash, each with its first line's number."""
    lines: list[tuple[int, str]] = []
    pending, start = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        start = start if pending else number
        if raw.endswith("\\") and not raw.lstrip().startswith("#"):
            pending += raw[:-1]
            continue
        line = _COMMENT.sub("", pending + raw).strip()
        pending = ""
        if line:
            lines.append((start, line))
    if pending.strip():
        lines.append((start, pending.strip()))
    return lines


def _shown(path: Path, folder: Path) -> str:
    try:
        return path.relative_to(folder).as_posix()
    except ValueError:
        return str(path)
