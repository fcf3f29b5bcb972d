"""gcloud's filter language, ``--filter``, and its sort orders, ``--sort-by``.

    filter  := [group]...                         all of them: standing side by side means AND
    group   := factor [AND factor]... | factor [OR factor]...
    factor  := [NOT] ["-"] term | [NOT] "(" filter ")"
    term    := key operator operand | key "." call... | word
    operand := text | "(" text [("," | OR | space) text]... ")"      any of them, for = and :

AND and OR bind alike, so mixing them needs parentheses. `matching` defines the operators.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from vtrain.errors import ConfigError
from vtrain.output.keys import Aliases, Key, evaluate, get, scan_key
from vtrain.output.matching import comparison, contains_word
from vtrain.output.scanner import OPERATORS, Scanner

_OPERATOR = re.compile(r"[:=!<>~][:=!<>~]?")
_KNOWN = (":", "=", "!=", "<", "<=", ">=", ">", "~", "!~")
_WORDS = ("AND", "NOT", "OR")

Predicate = Callable[[Any], bool]
Row = TypeVar("Row")


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """A condition on documents, and the keys that it reads."""

    text: str
    keys: tuple[Key, ...]
    predicate: Predicate

    def matches(self, document: Any) -> bool:
        """Whether the document meets the condition."""
        return self.predicate(document)

    def keys_absent_in(self, document: Any, keys: tuple[Key, ...]) -> tuple[Key, ...]:
        """The ones among `keys` that this document lacks, too."""
        return tuple(key for key in keys if get(document, key.path) is None)


def parse_filter(text: str, *, now: datetime | None = None, aliases: Aliases | None = None) -> Filter:
    """Read the value of ``--filter``; empty text lets everything through.

    `now` is the instant from which durations such as ``-P2W`` count, by default the present. `aliases` are
    other names of keys, such as the labels of a format. Raises ConfigError, with the position marked, for bad
    syntax, a bad regular expression or an unknown transform.
    """
    parser = _Parser(text, now, aliases or {})
    predicate = parser.filter()
    if not parser.scanner.at_end:
        raise parser.scanner.error("A ) without its (")
    return Filter(text=text, keys=tuple(parser.keys), predicate=predicate)


class _Parser:
    def __init__(self, text: str, now: datetime | None, aliases: Aliases) -> None:
        self.scanner = Scanner(text, kind="--filter")
        self.keys: list[Key] = []
        self.now = now
        self.aliases = aliases

    def filter(self) -> Predicate:
        """Groups up to the end or a closing parenthesis; AND and OR are checked over all of them."""
        groups: list[Predicate] = []
        joined_by = ""
        while not self.ends():
            group, joined_by = self.group(joined_by)
            groups.append(group)
        return _every(groups)

    def ends(self) -> bool:
        self.scanner.skip_spaces()
        return self.scanner.peek() in ("", ")")

    def group(self, joined_by: str) -> tuple[Predicate, str]:
        factors = [self.factor()]
        own = ""
        while word := next((word for word in ("AND", "OR") if self.scanner.keyword(word)), ""):
            if joined_by not in ("", word):
                raise self.scanner.error("AND and OR together need parentheses")
            own = joined_by = word
            factors.append(self.factor())
        return _some(factors) if own == "OR" else _every(factors), joined_by

    def factor(self) -> Predicate:
        if self.scanner.keyword("NOT"):
            return _negate(self.factor())
        return self.factor_without_not()

    def factor_without_not(self) -> Predicate:
        if self.ends():
            raise self.scanner.error("A term is expected")
        if not self.scanner.accept("("):
            inverted = self.scanner.accept("-")
            return _negate(self.term()) if inverted else self.term()
        inner = self.filter()
        if not self.scanner.demand(")"):
            raise self.scanner.error("A ) is expected")
        return inner

    def term(self) -> Predicate:
        start, text = self.scanner.position, self.scanner.text
        try:
            key = scan_key(self.scanner, self.aliases)
            problem = None
        except ConfigError as error:
            key, problem = Key(), error
            self.scanner.position, self.scanner.text = start, text
            word = self.scanner.token(OPERATORS, spaces=False)
        else:
            word = _plain_text(key)
        if not key.calls and word in _WORDS:
            raise self.scanner.error("A term is expected", start)
        self.scanner.skip_spaces()
        operator = self.operator()
        if operator and problem:
            raise problem
        if operator:
            return self.comparison(key, operator)
        return self.alone(key, word, problem)

    def alone(self, key: Key, word: str | None, problem: ConfigError | None) -> Predicate:
        """A term without an operator: a transform of the whole document, or a word anywhere in it."""
        if key.calls and not key.path:
            return lambda document: bool(evaluate(key, document))
        if key.calls:
            raise self.scanner.error("An operator is expected")
        if problem is not None and (not word or self.scanner.peek() == "("):
            raise problem
        return contains_word(word or "")

    def operator(self) -> str:
        start = self.scanner.position
        found = _OPERATOR.match(self.scanner.text, start)
        if not found:
            return ""
        if found[0] not in _KNOWN:
            raise self.scanner.error("There is no such operator", start)
        self.scanner.position = found.end()
        return found[0]

    def comparison(self, key: Key, operator: str) -> Predicate:
        self.scanner.skip_spaces()
        start = self.scanner.position
        operands = self.operands(operator)
        if key.path and key not in self.keys:
            self.keys.append(key)
        try:
            test = comparison(operator, operands, now=self.now, reads_times=not key.calls)
        except (re.error, ValueError) as error:
            raise self.scanner.error(
                f"The operand does not fit the operator {operator}: {error}", start
            ) from error
        return lambda document: test(evaluate(key, document))

    def operands(self, operator: str) -> tuple[str, ...]:
        """The operand, or the several of a list in parentheses."""
        if any(self.scanner.keyword(word, read=False) for word in _WORDS):
            raise self.scanner.error("An operand is expected, and not AND, OR or NOT")
        if operator in (":", "=") and self.scanner.accept("("):
            return tuple(text for text in self.scanner.arguments(" \t\n,") if text not in _WORDS)
        operand = self.scanner.token("()")
        if operand is None:
            raise self.scanner.error("An operand is expected")
        return (operand,)


def _plain_text(key: Key) -> str:
    """The word that a key spells when no operator follows it."""
    steps = (step if isinstance(step, str) else f"[{'' if step is None else step}]" for step in key.path)
    return ".".join(steps).replace(".[", "[") or "."


def _every(predicates: list[Predicate]) -> Predicate:
    return predicates[0] if len(predicates) == 1 else lambda value: all(test(value) for test in predicates)


def _some(predicates: list[Predicate]) -> Predicate:
    return predicates[0] if len(predicates) == 1 else lambda value: any(test(value) for test in predicates)


def _negate(predicate: Predicate) -> Predicate:
    return lambda value: not predicate(value)


class SortKey(msgspec.Struct, frozen=True, kw_only=True):
    """One key to sort by, with `reverse` in descending order."""

    key: Key
    reverse: bool = False


def parse_sort(text: str) -> tuple[SortKey, ...]:
    """Read the value of ``--sort-by``: keys separated by commas, ``~`` before one to reverse it.

    ``[]`` means the first element. Raises ConfigError, with the position marked, for bad syntax.
    """
    scanner = Scanner(text.replace("[]", "[0]"), kind="--sort-by")
    keys: list[SortKey] = []
    while True:
        scanner.skip_spaces()
        if scanner.at_end:
            return tuple(keys)
        reverse = False
        while scanner.accept("~"):
            reverse = True
        keys.append(SortKey(key=scan_key(scanner), reverse=reverse))
        scanner.skip_spaces()
        if not scanner.at_end and not scanner.accept(","):
            raise scanner.error("A comma is expected between sort keys")


def sort_documents(documents: Iterable[Row], keys: Iterable[SortKey]) -> list[Row]:
    """The documents in order; equal ones keep their order.

    As in gcloud everything is compared as text, case-sensitive, a missing value as the text ``None``.
    """
    ordered = list(documents)
    for sort_key in reversed(tuple(keys)):
        ordered.sort(key=lambda document: str(evaluate(sort_key.key, document)), reverse=sort_key.reverse)
    return ordered


def order_suffix(keys: tuple[SortKey, ...]) -> str:
    """The sort keys as the end of a format, for tables, which compare numbers as numbers."""
    parts = (
        f"{sort_key.key.text}:sort={place}{':reverse' if sort_key.reverse else ''}"
        for place, sort_key in enumerate(keys, start=1)
        if not sort_key.key.calls
    )
    joined = ",".join(parts)
    return f":({joined})" if joined else ""
