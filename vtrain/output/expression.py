"""gcloud's filter language: ``--filter``, with ``--sort-by`` beside it.

    filter  := [group]...                         all of them: standing side by side means AND
    group   := factor [AND factor]... | factor [OR factor]...
    factor  := (NOT | "-") factor | "(" filter ")" | term
    term    := key operator operand | word
    operand := text | "(" text [("," | OR | space) text]... ")"      any of them

AND and OR bind alike, so mixing them needs parentheses. What each operator means is in `matching`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec

from vtrain.errors import ConfigError
from vtrain.output.keys import Key, Scanner, evaluate, scan_key
from vtrain.output.ordering import SortKey, parse_sort, sort_documents

__all__ = ["Filter", "SortKey", "parse_filter", "parse_sort", "sort_documents"]

_OPERATOR = re.compile(r"!=|!~|<=|>=|[=:<>~]")
_KEYWORD = re.compile(r"(AND|OR|NOT)(?=[\s()]|$)")
_WORD = re.compile(r"""[^\s()]+""")
_OPERAND = re.compile(r"[^\s()]+")
_LISTED = re.compile(r"[^\s(),]+")

Predicate = Callable[[object], bool]


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """A condition on documents, and the keys that it reads."""

    text: str
    keys: tuple[Key, ...]
    predicate: Predicate

    def matches(self, document: object) -> bool:
        """Whether the document meets the condition."""
        return self.predicate(document)

    def absent_keys(self, documents: Iterable[object]) -> tuple[str, ...]:
        """The keys that no document has: most likely misspelt, so worth a warning."""
        absent = {".".join(key.names): key for key in self.keys}
        for document in documents:
            absent = {name: key for name, key in absent.items() if evaluate(key, document) is None}
            if not absent:
                break
        return tuple(absent)


def parse_filter(text: str, *, now: datetime | None = None) -> Filter:
    """Read the value of ``--filter``; empty text lets everything through.

    `now` is the instant from which durations such as ``-P2W`` count, by default the present. Raises
    ConfigError, with the position marked, for bad syntax, a bad regular expression or an unknown transform.
    """
    parser = _Parser(text, now)
    predicate = parser.filter()
    if parser.scanner.peek():
        raise parser.scanner.error("Unexpected tokens in expression")
    return Filter(text=text, keys=tuple(parser.keys), predicate=predicate)


class _Parser:
    def __init__(self, text: str, now: datetime | None) -> None:
        self.scanner = Scanner(text, kind="--filter")
        self.keys: list[Key] = []
        self.now = now

    def filter(self) -> Predicate:
        groups: list[Predicate] = []
        while self.scanner.peek() not in ("", ")"):
            groups.append(self.group())
        return _every(groups)

    def group(self) -> Predicate:
        factors = [self.factor()]
        joined_by = ""
        while word := self.keyword("AND", "OR"):
            if joined_by and word != joined_by:
                raise self.scanner.error("Parenthesis grouping is required when AND and OR are combined")
            joined_by = word
            factors.append(self.factor())
        return _some(factors) if joined_by == "OR" else _every(factors)

    def factor(self) -> Predicate:
        if self.keyword("NOT") or self.scanner.accept("-"):
            return _negate(self.factor())
        if self.scanner.accept("("):
            inner = self.filter()
            self.scanner.expect(")")
            return inner
        if self.scanner.peek() in ("", ")") or self.keyword("AND", "OR"):
            raise self.scanner.error("Term expected")
        return self.term()

    def keyword(self, *wanted: str) -> str:
        """The keyword that comes next, if it is one of `wanted`, read; '' otherwise."""
        self.scanner.skip_spaces()
        start = self.scanner.position
        found = self.scanner.match(_KEYWORD)
        if found and found[1] in wanted:
            return found[1]
        self.scanner.position = start
        return ""

    def term(self) -> Predicate:
        start = self.scanner.position
        key = self.key()
        self.scanner.skip_spaces()
        operator = self.scanner.match(_OPERATOR) if key else None
        if not key or not operator:
            self.scanner.position = start
            return self.word()
        operands = self.operands(start=operator.start())
        if key not in self.keys:
            self.keys.append(key)
        return self.test(key, operator[0], operands, operator.end())

    def key(self) -> Key | None:
        """The key that starts here; None for a word that cannot be one, such as ``img*``."""
        if _OPERATOR.match(self.scanner.text, self.scanner.position):
            raise self.scanner.error("Non-empty key name expected")
        start = self.scanner.position
        try:
            return scan_key(self.scanner)
        except ConfigError:
            word = _WORD.match(self.scanner.text, start)
            if not word or "(" in self.scanner.text[word.end() : word.end() + 1] or _OPERATOR.search(word[0]):
                raise
            return None

    def word(self) -> Predicate:
        from vtrain.output.matching import contains_word

        if self.scanner.peek() in ("'", '"'):
            return contains_word(self.scanner.quoted())
        found = self.scanner.match(_WORD)
        if not found:
            raise self.scanner.error("Term expected")
        return contains_word(found[0])

    def operands(self, start: int) -> list[str]:
        """The operand after an operator at `start`, or the several of a list in parentheses."""
        if self.scanner.accept("("):
            return self.listed()
        following = self.scanner.peek()
        if following in ("'", '"') and following:
            return [self.scanner.quoted()]
        if following in ("=", "~", "!", "<", ">") and self.scanner.text[self.scanner.position - 1] != " ":
            raise self.scanner.error("Malformed operator", start)
        found = None if self.keyword("AND", "OR") else self.scanner.match(_OPERAND)
        if not found:
            raise self.scanner.error("Term operand expected")
        return [found[0]]

    def listed(self) -> list[str]:
        operands: list[str] = []
        while not self.scanner.accept(")"):
            if self.scanner.accept(",") or self.keyword("OR"):
                continue
            if self.scanner.peek() in ("'", '"'):
                operands.append(self.scanner.quoted())
            elif self.keyword("AND"):
                raise self.scanner.error("A list of values means any of them: AND does not fit")
            elif found := self.scanner.match(_LISTED):
                operands.append(found[0])
            else:
                raise self.scanner.error("More tokens expected")
        return operands

    def test(self, key: Key, operator: str, operands: list[str], place: int) -> Predicate:
        from vtrain.output.matching import comparison

        try:
            tests = [comparison(operator, operand, self.now) for operand in operands]
        except re.error as error:
            raise self.scanner.error(f"The pattern is no regular expression: {error}", place) from error
        meets = _every(tests) if operator.startswith("!") else _some(tests)
        return lambda document: meets(evaluate(key, document))


def _every(predicates: list[Predicate]) -> Predicate:
    return predicates[0] if len(predicates) == 1 else lambda value: all(test(value) for test in predicates)


def _some(predicates: list[Predicate]) -> Predicate:
    return predicates[0] if len(predicates) == 1 else lambda value: any(test(value) for test in predicates)


def _negate(predicate: Predicate) -> Predicate:
    return lambda value: not predicate(value)
