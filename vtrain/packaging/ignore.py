"""Which files of a trainer's folder belong to its package."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from vtrain.packaging.gitignore import RuleSet, read_docker_rules, read_lines, read_rules

OWN_IGNORE_FILE = ".vtrainignore"
IGNORE_FILES = (OWN_IGNORE_FILE, ".gcloudignore", ".dockerignore", ".gitignore")

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
        self.excluded = frozenset(str(path.resolve()) for path in excluded)
        self.file = next((name for name in IGNORE_FILES if (folder / name).is_file()), "")
        self.rule_sets = self._root_rules()
        self.kept_by_name = self._kept_by_name()

    def _root_rules(self) -> tuple[RuleSet, ...]:
        if self.file in ("", ".gitignore"):
            return _rules_above(self.folder)
        lines = _with_includes(self.folder, read_lines(self.folder / self.file))
        if self.file == ".dockerignore":
            return (read_docker_rules(lines),)
        return (read_rules(lines),)

    def _kept_by_name(self) -> frozenset[str]:
        if self.file != OWN_IGNORE_FILE:
            return frozenset()
        lines = read_lines(self.folder / OWN_IGNORE_FILE)
        return frozenset(line[1:].strip().strip("/") for line in lines if line.startswith("!"))

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
        return (full / "pyvenv.cfg").is_file() or (
            bool(self.excluded) and str(full.resolve()) in self.excluded
        )


def _with_includes(folder: Path, lines: tuple[str, ...]) -> list[str]:
    """Put the lines of a file named by `#!include:` in the place of that line, as gcloud does."""
    merged: list[str] = []
    for line in lines:
        if line.startswith(_GCLOUD_INCLUDE):
            merged.extend(read_lines(folder / line.removeprefix(_GCLOUD_INCLUDE).strip()))
        else:
            merged.append(line)
    return merged


def _rules_above(folder: Path) -> tuple[RuleSet, ...]:
    """The `.gitignore` files between the folder and the top of its git work tree, nearest first.

    They are read as if they stood in the folder. When they leave out the folder itself they say
    nothing about it: who names a folder wants what is in it.
    """
    parents = _parents_in_work_tree(folder)
    sets: list[RuleSet] = []
    for parent in parents:
        below = folder.relative_to(parent).as_posix()
        rules = read_rules(read_lines(parent / ".gitignore"))
        if any(rules.verdict(path, True) for path in _chain(below)):
            return ()
        if rules.rules:
            sets.append(_PrefixedRules(base="", rules=rules.rules, prefix=f"{below}/"))
    return tuple(sets)


class _PrefixedRules(RuleSet, frozen=True, kw_only=True):
    prefix: str

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        return super().verdict(self.prefix + path, is_folder)


def _parents_in_work_tree(folder: Path) -> tuple[Path, ...]:
    if (folder / ".git").exists():
        return ()
    for depth, parent in enumerate(folder.parents):
        if (parent / ".git").exists():
            return tuple(folder.parents[: depth + 1])
    return ()


def _chain(path: str) -> tuple[str, ...]:
    segments = path.split("/")
    return tuple("/".join(segments[: depth + 1]) for depth in range(len(segments)))
