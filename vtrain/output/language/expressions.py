"""Keys with their transforms, sort orders, and filters. A key and a filter may hold each other.

    filter  := [group]...                         all of them: standing side by side means AND
    group   := factor [AND factor]... | factor [OR factor]...
    factor  := [NOT] ["-"] term | [NOT] "(" filter ")"
    term    := key operator operand | key "." call... | word
    operand := text | "(" text [("," | OR | space) text]... ")"      any of them, for = and :

AND and OR bind alike, so mixing them needs parentheses. `matching` defines the operators, `keys` has the
grammar of keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from vtrain.errors import ConfigError
from vtrain.messages.states import names_of
from vtrain.output.language.keys import Aliases, Call, Key, Path, Step, get, no_alias, scan_path
from vtrain.output.language.scan import OPERATORS, Scanner

if TYPE_CHECKING:
    from datetime import datetime

    from vtrain.output.language.transforms import Transform

_OPERATOR = re.compile(r"[:=!<>~][:=!<>~]?")
_KNOWN = (":", "=", "!=", "<", "<=", ">=", ">", "~", "!~")
_WORDS = ("AND", "NOT", "OR")

Predicate = Callable[[Any], bool]


def scan_key(scanner: Scanner, aliases: Aliases = no_alias) -> Key:
    """Read one key with its transforms, without the attributes that may follow it.

    `aliases` are other names of keys. Raises ConfigError for bad syntax, an unknown transform or an argument
    that the transform does not take.
    """
    path, alias = scan_path(scanner, aliases)
    if scanner.peek() != "(":
        return Key(path=path, calls=alias.calls, is_always=alias.is_always) if alias else Key(path=path)
    calls, is_always = _scan_calls(scanner, path[-1] if path else None)
    before = alias.calls if alias else ()
    return Key(path=path[:-1], calls=(*before, *calls), is_always=is_always)


def _scan_calls(scanner: Scanner, first: Step) -> tuple[tuple[Call, ...], bool]:
    """The transforms from the first opening parenthesis on, and whether ``always()`` is among them."""
    calls: list[Call] = []
    name, is_always, depth = str(first), False, 0
    while True:
        call = _scan_call(scanner, name, depth)
        if name == "map":
            depth = int(call.arguments[0]) if call.arguments else 1
        elif name == "always":
            is_always = True
        else:
            depth = 0
            calls.append(call)
        if not scanner.accept("."):
            return tuple(calls), is_always
        path, _ = scan_path(scanner, no_alias)
        if scanner.peek() != "(" or len(path) != 1:
            raise scanner.error("A transform is expected: transforms can only be followed by transforms")
        name = str(path[0])


def _scan_call(scanner: Scanner, name: str, depth: int) -> Call:
    from vtrain.output.language.transforms import option_names, problem_with

    scanner.position += 1
    start = scanner.position
    transform = transforms().get(name)
    if transform is None:
        raise scanner.error(f"There is no transform {name}()", start)
    names = option_names(transform)
    arguments: list[str] = []
    options: dict[str, str] = {}
    for argument in scanner.arguments():
        option, equals, value = argument.partition("=")
        if names and equals and option.isidentifier():
            options[option] = value
        else:
            arguments.append(argument)
    call = Call(name=name, arguments=tuple(arguments), options=options, depth=depth)
    if problem := problem_with(transform, call) or _inner_problem(call):
        raise scanner.error(problem, start)
    return call


def _inner_problem(call: Call) -> str:
    """The problem of the filter, the template or the keys in a call's arguments; '' for none."""
    try:
        if call.name == "filter":
            parse_filter(call.arguments[0])
        elif call.name == "format":
            for key in call.arguments[1:]:
                parse_key(key)
            return _bad_template(call.arguments[0], len(call.arguments) - 1)
    except (ConfigError, ValueError) as error:
        return f"An argument of {call.name}() does not parse: {error}"
    return ""


def _bad_template(template: str, count: int) -> str:
    """The problem of a template for `count` keys (0: for the value itself); '' for none."""
    import string

    fields = [field for _, field, _, _ in string.Formatter().parse(template) if field is not None]
    numbers = [re.split(r"[.\[]", field)[0] for field in fields]
    if any(number and not number.isdecimal() for number in numbers):
        return "The fields in the template of format() are numbers: {0}, {1}..."
    most = max((int(number or place) + 1 for place, number in enumerate(numbers)), default=0)
    return f"The template of format() has {most} fields and not as many keys" if 0 < count < most else ""


@lru_cache(maxsize=256)  # transforms ask for each document
def parse_key(text: str, kind: str = "key") -> Key:
    """One key that is all of `text`; raises ConfigError with the place marked."""
    scanner = Scanner(text, kind=kind)
    key = scan_key(scanner)
    if not scanner.at_end:
        raise scanner.error("Nothing can follow the key here")
    return key


def evaluate(key: Key, document: object) -> Any:
    """The value of `key` in `document`, after its transforms; None if there is none."""
    return transformed(key.calls, get(document, key.path))


def transformed(calls: tuple[Call, ...], value: Any) -> Any:
    """The value after transforms."""
    if calls:
        from vtrain.output.language.transforms import apply

        for call in calls:
            value = apply(transforms()[call.name], call, value)
    return value


# Orders


class SortKey(msgspec.Struct, frozen=True, kw_only=True):
    """One key of ``--sort-by``, with `reverse` in descending order."""

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


# Filters


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """A condition on documents, and the keys that it reads."""

    matches: Predicate
    keys: tuple[Key, ...]


def parse_filter(text: str, *, now: datetime | None = None, aliases: Aliases = no_alias) -> Filter:
    """Read the value of ``--filter``; empty text lets everything through.

    `now` is the instant from which durations such as ``-P2W`` count, by default the present. `aliases` are
    other names of keys, such as the labels of a format. Raises ConfigError, with the position marked, for bad
    syntax, a bad regular expression or an unknown transform.
    """
    parser = _Parser(text, now, aliases)
    try:
        predicate = parser.filter()
    except RecursionError:
        raise parser.scanner.error("The filter is nested too deeply") from None
    if not parser.scanner.at_end:
        raise parser.scanner.error("A ) without its (")
    return Filter(matches=predicate, keys=tuple(parser.keys.values()))


class _Parser:
    def __init__(self, text: str, now: datetime | None, aliases: Aliases) -> None:
        self.scanner = Scanner(text, kind="--filter")
        self.keys: dict[Path, Key] = {}
        self.now = now
        self.aliases = aliases

    def filter(self) -> Predicate:
        """Groups up to the end or a closing parenthesis; AND and OR are checked over all of them."""
        groups: list[Predicate] = []
        joined_by = ""
        while not self.ends():
            group, joined_by = self.group(joined_by)
            groups.append(group)
        return _joined(groups, all)

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
        return _joined(factors, any if own == "OR" else all), joined_by

    def factor(self) -> Predicate:
        is_inverted = False
        while self.scanner.keyword("NOT"):
            is_inverted = not is_inverted
        if self.ends():
            raise self.scanner.error("A term is expected")
        if self.scanner.accept("("):
            predicate = self.filter()
            if not self.scanner.demand(")"):
                raise self.scanner.error("A ) is expected")
        else:
            if self.scanner.accept("-"):
                is_inverted = not is_inverted
            predicate = self.term()
        return (lambda value: not predicate(value)) if is_inverted else predicate

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
        from vtrain.output.language.matching import contains_word

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
        from vtrain.output.language.matching import comparison

        self.scanner.skip_spaces()
        start = self.scanner.position
        operands = self.operands(operator)
        if key == Key(path=("state",)) and operator in ("=", "!="):
            operands = tuple(name for operand in operands for name in names_of(operand))
        if key.path:
            self.keys.setdefault(key.path, key)
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


def _joined(predicates: list[Predicate], join: Callable[[Iterable[bool]], bool]) -> Predicate:
    """All of several conditions, or any: `join` is one of these functions."""
    return predicates[0] if len(predicates) == 1 else lambda value: join(test(value) for test in predicates)


# Transforms


def _filter(value: Any, expression: str) -> Any:
    """The elements of a list that meet a filter; of another value itself, or nothing."""
    matches = parse_filter(expression).matches
    if isinstance(value, list):
        return [item for item in value if matches(item)]
    return value if not value or matches(value) else ""


def _format(value: Any, fmt: str, *keys: str) -> str:
    """`fmt` with ``{0}``, ``{1}``... replaced by keys; without keys by the list, or by the value."""
    if keys:
        found = [evaluate(parse_key(key), value) for key in keys]
    else:
        found = value if isinstance(value, list) else [value or ""]
    try:
        return fmt.format(*found)
    except (IndexError, KeyError, ValueError, AttributeError, TypeError):
        return ""


@lru_cache(maxsize=1)
def transforms() -> dict[str, Transform]:
    """All transforms by their names; `filter` and `format` evaluate expressions of their own."""
    # Every format needs this module and few formats have transforms, so their modules are imported late.
    from vtrain.output.language.transforms import PLAIN_TRANSFORMS

    return {**PLAIN_TRANSFORMS, "filter": _filter, "format": _format}
