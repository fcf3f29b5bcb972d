"""The patterns of ignore files, as regular expressions that mean what the patterns mean to git, or to Docker.

Written after git's `wildmatch.c` and `dir.c`. The library for it, pathspec, reads bracket expressions
otherwise, and takes time by the power of the wildcards in a line. Here each wildcard but the last takes
the first text that fits and keeps it, so that time grows with the length of pattern and path alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_LENGTH = 8192
"""Characters of a pattern, twice those of the longest path. A longer one is taken to name nothing."""
STARS, FOLDERS, SOME_FOLDERS, REST = "[^/]*?", "(?:[^/]*/)*?", "(?:[^/]*/)+?", ".*"
"""`*`; `**/`; `**` before an escaped slash; `**` at the end."""
_BEFORE_WILDCARD = re.compile(r"\A[^*?\[\\]+")
_NOTHING = re.compile(r"(?!)")
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
        self._expression: re.Pattern[str] | None = None

    def names(self, path: str) -> bool:
        """Whether it names the path itself, and not only what is below."""
        anchored, text = self.key
        path = path if anchored else path.rpartition("/")[2]
        if self.is_literal:
            return path == text
        if self._expression is None:
            try:
                self._expression = re.compile(_joined(list(_pieces(text, self._docker))), re.DOTALL)
            except _NoMatch:
                self._expression = _NOTHING
        return self._expression.fullmatch(path) is not None


def read_pattern(body: str, *, docker: bool = False) -> GitPattern | None:
    """The pattern, which has no `!` in front and no slash at its end; None for one that names nothing."""
    text = body.removeprefix("/")
    if not text or len(body) > MAX_LENGTH:
        return None
    return GitPattern(text, anchored="/" in body, docker=docker)


def _pieces(text: str, docker: bool) -> Iterator[str]:
    """The expressions for each wildcard and each character."""
    # git compares what is before the first wildcard by itself, and for the rest the pattern begins there.
    at = begin = len(text) - len(_BEFORE_WILDCARD.sub("", text, count=1))
    yield from map(re.escape, text[:at])
    while at < len(text):
        char = text[at]
        if stars := _STARS.match(text, at):
            begins_segment = at == begin or text[at - 1] == "/"
            is_double = begins_segment and stars.end() - at > 1
            if docker and text.startswith("**", at):
                piece, at = _docker_double_star(text, at, begins_segment)
            else:
                piece, at = _double_star(text, stars.end()) if is_double else (STARS, stars.end())
            yield piece
        elif char == "[":
            piece, at = _bracket(text, at + 1)
            yield piece
        elif char == "\\" and at + 1 == len(text):
            raise _NoMatch
        else:
            at += char == "\\"
            yield "[^/]" if char == "?" else re.escape(text[at])
            at += 1


def _double_star(text: str, end: int) -> tuple[str, int]:
    """`**` that begins a segment and ends before `end`: its expression, and where the text goes on."""
    if end == len(text):
        return REST, end
    if text[end] == "/":
        return FOLDERS, end + 1
    if text.startswith("\\/", end):
        return SOME_FOLDERS, end + 2
    return STARS, end


def _docker_double_star(text: str, at: int, begins_segment: bool) -> tuple[str, int]:
    """The same for Docker, to which `**` is folders also where no slash follows."""
    end = at + 2
    if text.startswith("/", end) and begins_segment:
        return (FOLDERS, end + 1) if end + 1 < len(text) else (REST, end + 1)
    # By `**.log` alone, without another wildcard, it means the end of a path.
    if end == len(text) or (at == 0 and not _WILDCARD.search(text, end)):
        return REST, end
    return (FOLDERS if begins_segment else STARS), end


def _bracket(text: str, at: int) -> tuple[str, int]:
    """The expression in brackets whose inside begins at `at`, and where the text goes on."""
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
    return f"(?!/)[{'^' if negated else ''}{''.join(items)}]", at + 1


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


def _joined(pieces: list[str]) -> str:
    """One expression for all pieces, first cut at each `**`, then at each `*`."""
    numbers = iter(range(len(pieces)))
    sections = []
    for double_star, section in _split(pieces, (FOLDERS, SOME_FOLDERS, REST)):
        chunks = [star + "".join(chunk) for star, chunk in _split(section, (STARS,))]
        sections.append(double_star + _chained(chunks, numbers))
    return _chained(sections, numbers)


def _split(pieces: list[str], wildcards: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """The pieces before the first of the wildcards, and those after each."""
    found: list[tuple[str, list[str]]] = [("", [])]
    for piece in pieces:
        if piece in wildcards:
            found.append((piece, []))
        else:
            found[-1][1].append(piece)
    return found


def _chained(texts: list[str], numbers: Iterator[int]) -> str:
    """Expressions in a row, all but the first with a wildcard in front. Only the last one is tried again.

    Text that fits at the earliest leaves most to the next wildcard of its kind, so the others can keep it.
    They are atomic groups, which Python has from 3.11 on only.
    """
    kept = []
    for text in texts[1:-1]:
        name = f"g{next(numbers)}"
        kept.append(f"(?=(?P<{name}>{text}))(?P={name})")
    return "".join((texts[0], *kept, *texts[1:][-1:]))
