"""Ignore files (.vtrainignore, .gcloudignore, .dockerignore, .gitignore) and the built-in excludes.

Rules are applied as git applies them: the last rule that names the path itself wins. git looks at a path only
after its parents were kept, so a rule has to name the path itself, and not what is above it. Otherwise `*`,
`!/src/`, `!/src/*.py` would keep `src/notes.txt`.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import msgspec

from vtrain.errors import PackagingError
from vtrain.packaging.git_patterns import GitPattern, read_pattern
from vtrain.settings import home_folder
from vtrain.text_files import decoded


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One line of an ignore file."""

    pattern: GitPattern
    ignores: bool
    only_folders: bool

    def names(self, path: str, is_folder: bool) -> bool:
        """Whether this line names `path` itself."""
        return (is_folder or not self.only_folders) and self.pattern.names(path)


class RuleSet:
    """The rules of one ignore file, which speak of paths below `base` ("" or "folder/").

    With a `prefix`, "folder/", they stand above the folder whose paths are asked for.

    Files of 200,000 lines are met: those without a wildcard are looked up by their text.
    """

    def __init__(self, rules: Iterable[Rule], *, base: str = "", prefix: str = "") -> None:
        self.rules = tuple(rules)
        self._base, self._prefix = base, prefix
        self._whole: dict[tuple[bool, str], list[int]] = {}
        self._others: list[int] = []
        # Of equal rules the last one decides.
        last = {(rule.pattern.key, rule.only_folders): place for place, rule in enumerate(self.rules)}
        for place in sorted(last.values()):
            pattern = self.rules[place].pattern
            places = self._whole.setdefault(pattern.key, []) if pattern.is_literal else self._others
            places.append(place)

    def _last(self, path: str, is_folder: bool) -> int:
        """The place of the last rule that names the path itself; -1 where none does."""
        whole = (self._whole.get(key, ()) for key in ((True, path), (False, path.rpartition("/")[2])))
        named = (place for places in whole for place in places if self.rules[place].names(path, is_folder))
        best = max(named, default=-1)
        for place in reversed(self._others):
            if place < best or self.rules[place].names(path, is_folder):
                return max(place, best)
        return best

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """True: left out. False: kept by a `!` line. None: no line names the path."""
        if not path.startswith(self._base):
            return None
        last = self._last(self._prefix + path[len(self._base) :], is_folder)
        return None if last < 0 else self.rules[last].ignores

    def can_keep_below(self) -> bool:
        """Whether a folder that is left out may still hold files that are kept."""
        return False


def read_rules(lines: Iterable[str], base: str = "", prefix: str = "") -> RuleSet:
    """Translate the lines of an ignore file; a line that git cannot read is passed over, as in git."""
    return RuleSet(filter(None, map(_read_rule, lines)), base=base, prefix=prefix)


def _read_rule(line: str, *, docker: bool = False) -> Rule | None:
    text = line.rstrip(" ")
    if text != line and (len(text) - len(text.rstrip("\\"))) % 2:
        text += " "  # a backslash keeps it
    if not text or text.startswith("#"):
        return None
    body = text.removeprefix("!")
    pattern = read_pattern(body.removesuffix("/"), docker=docker)
    if pattern is None:
        return None
    return Rule(pattern=pattern, ignores=body == text, only_folders=body.endswith("/"))


class DockerRuleSet(RuleSet):
    """The rules of a `.dockerignore`: a line that names a folder also decides what is below it."""

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """True: left out. False: kept by a `!` line. None: no line names the path or a parent."""
        last = max(self._last(above, is_folder or above != path) for above in _chain(path))
        return None if last < 0 else self.rules[last].ignores

    def can_keep_below(self) -> bool:
        """Whether a folder that is left out may still hold files that are kept, as in docker."""
        return not all(rule.ignores for rule in self.rules)


def read_docker_rules(lines: Iterable[str]) -> DockerRuleSet:
    """Translate a `.dockerignore`, whose lines all start at the root of the folder.

    Source: docs.docker.com/build/concepts/context, ".dockerignore files".
    """
    rules = (_read_rule(_rooted(line), docker=True) for line in lines)
    return DockerRuleSet(filter(None, rules))


def _rooted(line: str) -> str:
    text = line.strip()
    if not text or line.startswith("#"):
        return ""
    mark, body = ("!", text[1:].strip()) if text.startswith("!") else ("", text)
    body = posixpath.normpath(body).strip("/")  # Docker cleans `./a//b/..` in this way
    return f"{mark}/{body}" if body and body != "." else ""


def read_lines(path: Path) -> tuple[str, ...]:
    """The lines of an ignore file; () when there is none. A byte-order mark names its encoding.

    Raises PackagingError for a file that cannot be read.
    """
    if not path.is_file():
        return ()
    try:
        text = decoded(path.read_bytes(), "replace")
    except OSError as error:
        raise PackagingError(f"Cannot read {path}: {error.strerror}.") from None
    # git ends a line at a line feed alone, and `Icon\r\r\n` is how people name what macOS calls `Icon\r`.
    return tuple(line.removesuffix("\r") for line in text.split("\n"))


OWN_IGNORE_FILE, DOCKER_IGNORE_FILE = ".vtrainignore", ".dockerignore"
IGNORE_FILES = (OWN_IGNORE_FILE, ".gcloudignore", DOCKER_IGNORE_FILE, ".gitignore")

EXCLUDED_FOLDERS = frozenset(
    {".git", ".hg", ".svn", ".vtrain", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
    | {".hypothesis", ".ipynb_checkpoints", ".tox", ".nox", ".eggs", "node_modules"}
)
EXCLUDED_FILES = frozenset({".DS_Store", "Thumbs.db"})
EXCLUDED_SUFFIXES = (".pyc", ".pyo")

# What an earlier `package sdist --output-dir=.` wrote; it would change the hash of the tree it came from.
OWN_SDIST = re.compile(r".+-[0-9a-f]{16}\.tar\.gz")

_GCLOUD_INCLUDE = "#!include:"


class Belonging(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a walk; all paths are relative to the folder, with "/" between segments.

    `credentials` are among `left_out`.
    """

    files: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    ignore_file: str = ""
    warnings: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()


class IgnoreRules:
    """The built-in excludes and the one ignore file that decides for a folder."""

    def __init__(self, folder: Path, *, excluded: tuple[Path, ...] = ()) -> None:
        self.folder = folder
        self.excluded = frozenset(str(path.resolve()) for path in (home_folder(), *excluded))
        self.file = next((name for name in IGNORE_FILES if (folder / name).is_file()), "")
        self.kept_by_name: frozenset[str] = frozenset()
        if self.file in ("", ".gitignore"):
            self.rule_sets = _rules_above(folder)
            return
        lines = read_lines(folder / self.file)
        if self.file == OWN_IGNORE_FILE:
            kept = (line[1:].strip().strip("/") for line in lines if line.startswith("!"))
            self.kept_by_name = frozenset(kept)
        lines = tuple(chain.from_iterable(_included(folder, line) for line in lines))
        self.rule_sets = (read_docker_rules(lines) if self.file == DOCKER_IGNORE_FILE else read_rules(lines),)

    def with_nested(self, path: str, rule_sets: tuple[RuleSet, ...]) -> tuple[RuleSet, ...]:
        """The rules inside the folder `path`: a `.gitignore` in it comes before those above."""
        if self.file not in ("", ".gitignore"):
            return rule_sets
        lines = read_lines(self.folder / path / ".gitignore")
        return (read_rules(lines, base=f"{path}/" if path else ""), *rule_sets) if lines else rule_sets

    def excludes(self, path: str, name: str, is_folder: bool) -> bool:
        """Whether a built-in exclude leaves the path out."""
        if name in self.kept_by_name or path in self.kept_by_name:
            return False
        if not is_folder:
            return (
                name in EXCLUDED_FILES or name.endswith(EXCLUDED_SUFFIXES) or bool(OWN_SDIST.fullmatch(name))
            )
        if name in EXCLUDED_FOLDERS or name.endswith(".egg-info"):
            return True
        full = self.folder / path
        return os.path.isfile(full / "pyvenv.cfg") or (  # noqa: PTH113 - false where the folder is closed
            str(full.resolve()) in self.excluded
        )


class DockerRules(IgnoreRules):
    """The exclusions of `docker build`: the lines of FILE.dockerignore or .dockerignore, and nothing else.

    Source: docs.docker.com/build/concepts/context, ".dockerignore files".
    """

    def __init__(self, folder: Path, dockerfile: Path) -> None:
        beside = dockerfile.with_name(f"{dockerfile.name}{DOCKER_IGNORE_FILE}")
        found = next((path for path in (beside, folder / DOCKER_IGNORE_FILE) if path.is_file()), None)
        self.folder = folder
        self.file = found.name if found else ""
        self.rule_sets = (read_docker_rules(read_lines(found)),) if found else ()

    def with_nested(self, path: str, rule_sets: tuple[RuleSet, ...]) -> tuple[RuleSet, ...]:  # noqa: ARG002
        """The same rules: an ignore file in a subfolder says nothing to Docker."""
        return rule_sets

    def excludes(self, path: str, name: str, is_folder: bool) -> bool:  # noqa: ARG002
        """False: Docker has no built-in excludes."""
        return False


def _included(folder: Path, line: str) -> tuple[str, ...]:
    """The line itself, or those of the file that it names by `#!include:`, as gcloud takes them."""
    if not line.startswith(_GCLOUD_INCLUDE):
        return (line,)
    return read_lines(folder / line.removeprefix(_GCLOUD_INCLUDE).strip())


def _rules_above(folder: Path) -> tuple[RuleSet, ...]:
    """The `.gitignore` files between the folder and the top of its git work tree, nearest first.

    They are read as if they stood in the folder. When they leave out the folder itself they say
    nothing about it: a user who names a folder wants its files.
    """
    if (folder / ".git").exists():
        return ()
    tops = (depth for depth, parent in enumerate(folder.parents, 1) if (parent / ".git").exists())
    sets: list[RuleSet] = []
    for parent in folder.parents[: next(tops, 0)]:
        below = folder.relative_to(parent).as_posix()
        lines = read_lines(parent / ".gitignore")
        rules = read_rules(lines)
        if any(rules.verdict(path, True) for path in _chain(below)):
            return ()
        if rules.rules:
            sets.append(read_rules(lines, prefix=f"{below}/"))
    return tuple(sets)


def _chain(path: str) -> Iterator[str]:
    """The path, and the folders above it."""
    while path:
        yield path
        path = path.rpartition("/")[0]
