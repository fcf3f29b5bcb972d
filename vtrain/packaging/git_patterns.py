"""The patterns of ignore files, as globs that mean what the patterns mean to git, or to Docker.

Written after git's `wildmatch.c` and `dir.c`. The library for it, pathspec, reads bracket expressions
otherwise, and takes time by the power of the wildcards in a line.
"""

from __future__ import annotations

import re

from vtrain.globs import Glob, Test, anything, not_slash

MAX_LENGTH = 8192
"""Characters of a pattern, twice those of the longest path. A longer one is taken to name nothing."""
_BEFORE_WILDCARD = re.compile(r"\A[^*?\[\\]+")
_WILDCARD = re.compile(r"[*?\[\]\\]")
_STARS = re.compile(r"\*+")
_RANGE_END = re.compile(r"-(?:\\(.)|([^\]\\]))", re.DOTALL)
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r"\ \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": r"\ -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t-\r\ ",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


class _NoMatch(Exception):
    """The pattern names nothing: a bracket or an escape that does not end."""


class GitPattern:
    """A line of an ignore file without its marks. One with a slash is `anchored`: it names whole paths.

    What it names begins with `head` and ends with `tail`; one that `is_literal` names this text alone. The
    rest of it is read when somebody asks: few patterns of a long file come close to a path.
    """

    def __init__(self, text: str, *, anchored: bool, docker: bool) -> None:
        self.key = (anchored, text)
        found = _BEFORE_WILDCARD.match(text)
        self.head = found[0] if found else ""
        self.is_literal = self.head == text
        self.tail = _WILDCARD.split(text)[-1].removeprefix("/")
        self._docker = docker
        self._glob: Glob | None = None

    def names(self, path: str) -> bool:
        """Whether it names the path itself, and not only what is below."""
        anchored, text = self.key
        path = path if anchored else path.rpartition("/")[2]
        if self.is_literal:
            return path == text
        if not (path.startswith(self.head) and path.endswith(self.tail)):
            return False
        if self._glob is None:
            self._glob = _read(text, self._docker)
        return self._glob.matches(path)


def read_pattern(body: str, *, docker: bool = False) -> GitPattern | None:
    """The pattern, which has no `!` in front and no slash at its end; None for one that names nothing."""
    text = body.removeprefix("/")
    if not text or len(body) > MAX_LENGTH:
        return None
    return GitPattern(text, anchored="/" in body, docker=docker)


def _read(text: str, docker: bool) -> Glob:
    """The glob of a pattern: one of a bracket or an escape that does not end stands for nothing."""
    glob = Glob()
    # git compares what is before the first wildcard by itself, and for the rest the pattern begins there.
    at = begin = len(text) - len(_BEFORE_WILDCARD.sub("", text, count=1))
    state = 0
    for letter in text[:at]:
        state = glob.one(state, letter.__eq__)
    try:
        while at < len(text):
            if stars := _STARS.match(text, at):
                begins_segment = at == begin or text[at - 1] == "/"
                if docker and text.startswith("**", at):
                    state, at = _docker_double_star(glob, state, text, at, begins_segment)
                elif begins_segment and stars.end() - at > 1:
                    state, at = _double_star(glob, state, text, stars.end())
                else:
                    state, at = glob.many(state, not_slash), stars.end()
            else:
                test, at = _character(text, at)
                state = glob.one(state, test)
        glob.end = state
    except _NoMatch:
        glob.end = -1
    return glob


def _character(text: str, at: int) -> tuple[Test, int]:
    """The test of the character that stands at a place, and where the text goes on."""
    if text[at] == "[":
        return _bracket(text, at + 1)
    if text[at] == "?":
        return not_slash, at + 1
    at += text[at] == "\\"
    if at == len(text):
        raise _NoMatch
    return text[at].__eq__, at + 1


def _double_star(glob: Glob, state: int, text: str, end: int) -> tuple[int, int]:
    """The state behind `**` that begins a segment and ends before `end`, and where the text goes on."""
    if end == len(text):
        return glob.many(state, anything), end
    if text[end] == "/":
        return glob.folders(state), end + 1
    if text.startswith("\\/", end):
        return glob.folders(state, needs_one=True), end + 2
    return glob.many(state, not_slash), end


def _docker_double_star(glob: Glob, state: int, text: str, at: int, begins_segment: bool) -> tuple[int, int]:
    """The same for Docker, to which `**` is folders also where no slash follows."""
    end = at + 2
    if text.startswith("/", end) and begins_segment:
        is_last = end + 1 == len(text)
        return (glob.many(state, anything) if is_last else glob.folders(state)), end + 1
    # By `**.log` alone, without another wildcard, it means the end of a path.
    if end == len(text) or (at == 0 and not _WILDCARD.search(text, end)):
        return glob.many(state, anything), end
    return (glob.folders(state) if begins_segment else glob.many(state, not_slash)), end


def _bracket(text: str, at: int) -> tuple[Test, int]:
    """The test of the brackets whose inside begins at `at`, and where the text goes on."""
    negated = text[at : at + 1] in ("!", "^")
    at += negated
    items: list[str] = []
    first = True
    while first or text[at : at + 1] != "]":
        first = False
        found = _posix_class(text, at)
        if found is not None:
            item, at = found
            items.append(item)
            continue
        at += text[at : at + 1] == "\\"
        char = text[at : at + 1]
        if not char:
            raise _NoMatch
        items.append(re.escape(char))
        at += 1
        end = _RANGE_END.match(text, at)
        if end is not None:
            last = end[1] or end[2]
            at = end.end()
            items += [f"{re.escape(char)}-{re.escape(last)}"] if char <= last else []
    return re.compile(f"(?!/)[{'^' if negated else ''}{''.join(items)}]").fullmatch, at + 1


def _posix_class(text: str, at: int) -> tuple[str, int] | None:
    """`[:alpha:]`, which begins at `at`, and where the text goes on; None where there is none."""
    if not text.startswith("[:", at):
        return None
    end = text.find("]", at + 2)
    if end < 0:
        raise _NoMatch
    if end == at + 2 or text[end - 1] != ":":
        return None
    name = text[at + 2 : end - 1]
    if name not in _POSIX:
        raise _NoMatch
    return _POSIX[name], end + 1
