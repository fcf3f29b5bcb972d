"""The filter grammar of Google's APIs (google.aip.dev/160), and the test of a resource by such a filter.

    state="JOB_STATE_FAILED" AND display_name:"mnist*"
    NOT labels.team=vision OR create_time>="2026-01-31T00:00:00Z"

As in AIP-160, OR binds more tightly than AND, and terms side by side are joined by AND. The fields of
resources are those that `ListCustomJobsRequest` and its relatives name.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from vtrain import times
from vtrain.emulator.vertex.vertex_refusals import VertexRefusal, invalid
from vtrain.globs import Glob, anything
from vtrain.messages.codec import camel_case, snake_case
from vtrain.messages.names import ENDPOINTS, MODELS

CALL = "in_context"
"""The only function that filters call: whether an artifact or an execution belongs to a context."""
LISTS = ("parent_contexts", "child_contexts")
"""The fields that filters compare with several values."""
LONGEST = 20_000
DEEPEST = 30
Test = Callable[[Mapping[str, Any]], bool]
_QUOTED = r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\''
_TOKEN = re.compile(rf'\s*(?:({_QUOTED})|(<=|>=|!=|[=<>:()\-])|([^\s"\'=<>!:()]+))')
_FIELDS = frozenset(("display_name", "state", "create_time", "start_time", "end_time", "update_time"))
_MORE_FIELDS = frozenset(
    (
        "training_task_definition",
        "name",
        "model",
        "endpoint",
        "version_id",
        "is_default",
        "base_model_name",
        "metadata_schema_uri",
    )
)
_IDS = {"model": MODELS, "endpoint": ENDPOINTS}
"""The fields by which filters of these collections name the last part of `name` (`ListModelsRequest`)."""
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}


class Restriction(msgspec.Struct, frozen=True):
    """One comparison of a field: by a sign of `COMPARISONS`, or `:` for "has".

    The comparison is `()` for a call, whose `value` is its argument. Several values behind `:` are joined by
    commas.
    """

    field: str
    comparison: str
    value: str


class Terms(msgspec.Struct, frozen=True):
    """Terms joined by `AND` or `OR`, or one that `NOT` turns around."""

    word: str
    terms: tuple[Filter, ...]


Filter = Restriction | Terms


def parse_filter(text: str) -> Filter:
    """A filter taken apart; one without terms is empty. Raises VertexRefusal for any other text."""
    if len(text) > LONGEST:
        raise invalid(f"The filter has more than {LONGEST} characters.")
    if not text.strip():
        return Terms("AND", ())
    reader = _FilterReader(text)
    found = reader.conjunction(0)
    reader.expect_end()
    return found


def compiled(parsed: Filter, test_of: Callable[[Restriction], Test]) -> Test:
    """The test of a filter, made of those of its restrictions."""
    if isinstance(parsed, Restriction):
        return test_of(parsed)
    tests = [compiled(term, test_of) for term in parsed.terms]
    if parsed.word == "NOT":
        return lambda document: not tests[0](document)
    if parsed.word == "OR":
        return lambda document: any(test(document) for test in tests)
    return lambda document: all(test(document) for test in tests)


def read_filter(text: str, test_of: Callable[[Restriction], Test] | None = None) -> Test:
    """The test of a resource by a filter. Raises VertexRefusal for a filter that does not fit resources."""
    return compiled(parse_filter(text), test_of or resource_test)


def wrong_filter(text: str) -> VertexRefusal:
    """The error for an invalid filter, or an invalid part of one."""
    return invalid(f"Invalid filter: {text[:300]!r}.")


class _FilterReader:
    """Reads one filter from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._place = 0

    def conjunction(self, depth: int) -> Filter:
        """Terms that all have to hold."""
        if depth > DEEPEST:
            raise wrong_filter(self._text)
        terms = [self._disjunction(depth)]
        while self._peek() not in ("", ")"):
            if self._peek() == "AND":
                self._next()
            terms.append(self._disjunction(depth))
        return terms[0] if len(terms) == 1 else Terms("AND", tuple(terms))

    def _disjunction(self, depth: int) -> Filter:
        terms = [self._term(depth)]
        while self._peek() == "OR":
            self._next()
            terms.append(self._term(depth))
        return terms[0] if len(terms) == 1 else Terms("OR", tuple(terms))

    def _term(self, depth: int) -> Filter:
        negated = False
        while self._peek() in ("NOT", "-"):
            self._next()
            negated = not negated
        if self._peek() == "(":
            self._next()
            term = self.conjunction(depth + 1)
            if self._next() != ")":
                raise wrong_filter(self._text)
        else:
            term = self._restriction()
        return Terms("NOT", (term,)) if negated else term

    def _restriction(self) -> Restriction:
        field = _unquoted(self._next())
        is_metadata = field == "metadata."
        while self._peek() and (field.endswith(".") or (is_metadata and self._peek().startswith("."))):
            field += _unquoted(self._next())  # labels."a key in quotes", metadata."one".string_value
        comparison, value = self._next(), self._next()
        if value == "-":
            value += self._next()
        if field == CALL and (comparison, self._peek()) == ("(", ")"):
            self._next()
            return Restriction(field, "()", _unquoted(value))
        values = [value]
        while field in LISTS and comparison == ":" and self._peek() == ",":
            self._next()
            values.append(self._next())
        if comparison not in (*COMPARISONS, ":") or any(value in ("", "(", ")") for value in values):
            raise wrong_filter(self._text)
        return Restriction(field, comparison, ",".join(map(_unquoted, values)))

    def expect_end(self) -> None:
        """Raise VertexRefusal where something is left."""
        if self._peek():
            raise wrong_filter(self._text)

    def _peek(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._place += 1
        return token


def _tokens(text: str) -> list[str]:
    found, place, end = [], 0, len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None:
            raise wrong_filter(text)
        found.append(match[1] or match[2] or match[3])
        place = match.end()
    return found


def _unquoted(token: str) -> str:
    if token[:1] not in ('"', "'") or len(token) < 2:
        return token
    return re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)


def resource_test(restriction: Restriction, known: Collection[str] = _FIELDS | _MORE_FIELDS) -> Test:
    """The test of a resource by one restriction. Raises VertexRefusal for a field that no filter has."""
    wanted, comparison = restriction.value, restriction.comparison
    if restriction.field.startswith("labels."):
        return label_test(restriction, ("labels",))
    if restriction.field == "labels" and comparison == ":":
        return lambda document: wanted in document.get("labels", {})
    field = snake_case(restriction.field)
    if field not in known:
        raise wrong_filter(restriction.field)
    key = camel_case(field)
    if field.endswith("_time"):
        return time_test(key, restriction)
    if comparison == ":":
        return lambda document: has(str(document.get(key, "")), wanted)
    if comparison not in ("=", "!="):
        raise wrong_filter(restriction.field + comparison)
    same = COMPARISONS[comparison]
    if field in _IDS:
        return lambda document: same(_id_of(document, _IDS[field]) or str(document.get(key, "")), wanted)
    if field == "is_default":
        return lambda document: same(document.get(key, False), wanted.lower() == "true")
    return lambda document: same(str(document.get(key, "")), wanted)


def _id_of(document: Mapping[str, Any], collection: str) -> str:
    """The id of a resource of that collection; empty for another one."""
    *_, found, own_id = ("", *str(document.get("name", "")).split("/"))
    return own_id if found == collection else ""


def label_test(restriction: Restriction, place: tuple[str, ...]) -> Test:
    """The test of a label in the mapping that lies at `place`; the field's name begins with that place."""
    key = restriction.field.split(".", len(place))[-1]
    wanted, comparison = restriction.value, restriction.comparison
    if comparison not in ("=", "!=", ":"):
        raise wrong_filter(restriction.field + comparison)

    def test(document: Mapping[str, Any]) -> bool:
        labels: Any = document
        for name in place:
            labels = labels.get(name, {})
        if comparison == ":":
            return key in labels and (wanted == "*" or has(str(labels[key]), wanted))
        return (labels.get(key) == wanted) is (comparison == "=")

    return test


def time_test(key: str, restriction: Restriction) -> Test:
    """The test of a time by one in RFC 3339."""
    try:
        moment = times.nanoseconds(restriction.value)
        holds = COMPARISONS[restriction.comparison]
    except (ValueError, OverflowError, KeyError):
        raise wrong_filter(restriction.field + restriction.comparison + restriction.value) from None

    def test(document: Mapping[str, Any]) -> bool:
        text = document.get(key, "")
        return bool(text) and holds(times.nanoseconds(text), moment)

    return test


def has(text: str, pattern: str) -> bool:
    """Whether a text has the pattern in it; one with `*`, each for any text, has to fit as a whole."""
    return _glob(pattern).matches(text) if "*" in pattern else pattern in text


@lru_cache(maxsize=64)
def _glob(pattern: str) -> Glob:
    glob = Glob()
    for letter in pattern:
        glob.end = glob.many(glob.end, anything) if letter == "*" else glob.one(glob.end, letter.__eq__)
    return glob
