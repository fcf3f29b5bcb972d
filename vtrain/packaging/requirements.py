"""Requirements as they can stand in a package's metadata (Requires-Dist, PEP 508)."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from vtrain.errors import PackagingError

REQUIREMENTS_FILE = "requirements.txt"

_COMMENT = re.compile(r"(^|\s)#.*$")
_HASH_OPTION = re.compile(r"\s--hash[= ]\S+")
_NESTED = re.compile(r"(?:-r|--requirement)[= ]?\s*(?P<file>\S.*)")
_EGG = re.compile(r"#(?:.*&)?egg=(?P<name>[A-Za-z0-9._-]+)")
_URL = re.compile(r"(git|hg|svn|bzr)\+\S+|(https?|file)://\S+")
_WHEEL_OR_SDIST = re.compile(r"(?P<name>[A-Za-z0-9._-]+?)-\d[^/]*\.(?:whl|tar\.gz|zip)$")
_ITSELF = frozenset({".", "./", "-e .", "-e ./", "--editable .", "--editable=."})


class Requirements(msgspec.Struct, frozen=True, kw_only=True):
    """PEP 508 strings, and a sentence for each line that metadata cannot carry."""

    lines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def read_requirements(given: tuple[str, ...], folder: Path) -> Requirements:
    """The `requirements` flag and the `requirements.txt` at the root of the folder, in gcloud's order.

    Raises PackagingError for a line that pip could install but metadata cannot name.
    """
    reader = _Reader(folder)
    if (folder / REQUIREMENTS_FILE).is_file():
        reader.read_file(folder / REQUIREMENTS_FILE)
    for requirement in given:
        reader.read_line(requirement.strip(), "requirements")
    return Requirements(lines=tuple(dict.fromkeys(reader.lines)), warnings=tuple(reader.warnings))


class _Reader:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self.warnings: list[str] = []
        self.opened: set[Path] = set()

    def read_file(self, path: Path) -> None:
        if path.resolve() in self.opened:
            return
        self.opened.add(path.resolve())
        try:
            text = path.read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise PackagingError(f"Cannot read the requirements in {path}: {error}.") from None
        for number, line in _logical_lines(text):
            where = f"{_shown(path, self.folder)}:{number}"
            nested = _NESTED.fullmatch(line)
            if nested:
                self._read_nested(path.parent / nested["file"].strip(), where)
            else:
                self.read_line(line, where)

    def _read_nested(self, path: Path, where: str) -> None:
        if not path.is_file():
            raise PackagingError(f"{where}: there is no file {_shown(path, self.folder)}.")
        self.read_file(path)

    def read_line(self, line: str, where: str) -> None:
        if not line or line in _ITSELF:
            return
        if line.startswith("-") and not line.startswith(("-e", "--editable")):
            option = line.split()[0].split("=")[0]
            self.warnings.append(f"{where}: {option} is ignored, a package's metadata has no place for it")
            return
        text = _HASH_OPTION.sub("", line)
        if text != line:
            self.warnings.append(f"{where}: --hash is ignored, a package's metadata has no place for it")
        self.lines.append(_requirement(text.strip(), where))


def _requirement(text: str, where: str) -> str:
    from packaging.requirements import InvalidRequirement, Requirement

    text = re.sub(r"^(-e|--editable)[= ]\s*", "", text)
    try:
        return str(Requirement(text))
    except InvalidRequirement as error:
        if _URL.fullmatch(text):
            return _named_url(text, where)
        if text.startswith((".", "/", "~")) or text.endswith((".whl", ".tar.gz", ".zip")):
            raise PackagingError(
                f"{where}: {text} is a path on this machine, which the machine that trains cannot see.",
                hint="Name the file in extra-packages (a folder: in extra-dirs).",
            ) from None
        reason = str(error).splitlines()[0]
        raise PackagingError(f"{where}: `{text}` is not a requirement: {reason}.") from None


def _named_url(url: str, where: str) -> str:
    match = _EGG.search(url) or _WHEEL_OR_SDIST.search(url.split("#")[0].rsplit("/", 1)[-1])
    if not match:
        raise PackagingError(
            f"{where}: the URL {url} does not say which distribution it holds.",
            hint=f"Write it as `NAME @ {url}`.",
        )
    return f"{match['name']} @ {url.split('#egg=')[0]}"


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


def distribution_name(requirement: str) -> str:
    """The canonical name (PEP 503) of the distribution that a requirement names."""
    match = re.match(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", requirement.strip())
    return canonical(match[0]) if match else ""


def canonical(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()
