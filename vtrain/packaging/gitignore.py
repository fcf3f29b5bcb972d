"""Gitignore rules, decided as git decides them: the last rule that names the path itself wins.

`pathspec` translates one line into a pattern. A pattern of pathspec also matches everything below
what it names; git looks at a path only after its parents were kept, so a rule here has to name the
path itself. Without that, `*`, `!/src/`, `!/src/*.py` would keep `src/notes.txt`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from pathspec.pattern import Pattern


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One line of an ignore file."""

    ignores: bool
    only_folders: bool
    whole: Any
    last: Any
    segments: int
    anchored: bool

    def names(self, path: str, name: str, is_folder: bool) -> bool:
        """Whether this line names `path` itself; `name` is its last segment."""
        if self.only_folders and not is_folder:
            return False
        if not self.anchored:
            return _matches(self.last, name)
        if self.segments:
            return path.count("/") + 1 == self.segments and _matches(self.whole, path)
        return _matches(self.whole, path) and (self.last is None or _matches(self.last, name))


def _matches(pattern: Pattern, path: str) -> bool:
    return pattern.match_file(path) is not None


class RuleSet(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one ignore file, which speak of paths below `base` ("" or "folder/")."""

    base: str
    rules: tuple[Rule, ...]

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """True: left out. False: kept by a `!` line. None: no line names the path."""
        if not path.startswith(self.base):
            return None
        below = path[len(self.base) :]
        name = below.rpartition("/")[2]
        for rule in reversed(self.rules):
            if rule.names(below, name, is_folder):
                return rule.ignores
        return None

    def can_keep_below(self) -> bool:
        """Whether a folder that is left out may still hold files that are kept."""
        return False


def read_rules(lines: Iterable[str], base: str = "") -> RuleSet:
    """Translate the lines of an ignore file; a line that git cannot read is passed over, as in git."""
    return RuleSet(base=base, rules=tuple(rule for line in lines if (rule := _read_rule(line)) is not None))


def _read_rule(line: str) -> Rule | None:
    text = _strip_trailing_blanks(line)
    if not text or text.startswith("#"):
        return None
    ignores = not text.startswith("!")
    body = text if ignores else text[1:]
    only_folders = body.endswith("/")
    body = body.rstrip("/") + ("/*" if body.endswith("/**/") else "")
    anchored = "/" in body
    if body.startswith("**/") and body.count("/") == 1:
        body, anchored = body[3:], False
    last = body.rpartition("/")[2]
    try:
        whole, last_pattern = _pattern(body), None if last == "**" and anchored else _pattern(last)
    except ValueError:
        return None
    if whole is None or (last_pattern is None and not anchored):
        return None
    return Rule(
        ignores=ignores,
        only_folders=only_folders,
        whole=whole,
        last=last_pattern,
        segments=0 if "**" in body else body.lstrip("/").count("/") + 1,
        anchored=anchored,
    )


def _pattern(body: str) -> Pattern | None:
    from pathspec import GitIgnoreSpec

    patterns = GitIgnoreSpec.from_lines([body]).patterns
    return next((pattern for pattern in patterns if pattern.include is not None), None)


def _strip_trailing_blanks(line: str) -> str:
    text = line.rstrip("\r\n")
    stripped = text.rstrip(" ")
    escaped = len(stripped) - len(stripped.rstrip("\\"))
    return stripped + " " if escaped % 2 and stripped != text else stripped


class DockerRuleSet(RuleSet, frozen=True, kw_only=True):
    """The rules of a `.dockerignore`: a line that names a folder also decides what is below it."""

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """True: left out. False: kept by a `!` line. None: no line names the path or a parent."""
        segments = path.split("/")
        chain = ["/".join(segments[: depth + 1]) for depth in range(len(segments))]
        for rule in reversed(self.rules):
            for above, name in zip(chain, segments, strict=True):
                if rule.names(above, name, is_folder or above != path):
                    return rule.ignores
        return None

    def can_keep_below(self) -> bool:
        """Whether a folder that is left out may still hold files that are kept, as in docker."""
        return any(not rule.ignores for rule in self.rules)


def read_docker_rules(lines: Iterable[str]) -> DockerRuleSet:
    """Translate a `.dockerignore`, whose lines all start at the root of the folder.

    Source: docs.docker.com/build/concepts/context, ".dockerignore files".
    """
    return DockerRuleSet(base="", rules=read_rules(_rooted(line.strip()) for line in lines).rules)


def _rooted(line: str) -> str:
    if not line or line.startswith("#"):
        return ""
    mark, body = ("!", line[1:].strip()) if line.startswith("!") else ("", line)
    body = body.removeprefix("./").strip("/")
    return f"{mark}/{body}" if body and body != "." else ""


def read_lines(path: Path) -> tuple[str, ...]:
    """The lines of an ignore file; () when there is none. A byte-order mark is dropped, as in git."""
    if not path.is_file():
        return ()
    return tuple(path.read_text("utf-8-sig", errors="replace").split("\n"))
