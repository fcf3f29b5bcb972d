"""The languages of --filter, --format and --sort-by: the laws they keep, and formats that others can read."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from vtrain.errors import ConfigError
from vtrain.output.language.expressions import parse_filter, parse_key, parse_sort
from vtrain.output.language.format import parse_format
from vtrain.output.language.keys import Key, get
from vtrain.output.language.printers import render, render_list
from vtrain.output.language.projection import sort_documents
from vtrain.output.language.scan import OPERATORS
from vtrain.output.layout import display_width

NAMES = st.sampled_from(["a", "b", "c", "displayName", "with-dash", "1", "é", "a b", "x.y", ""])
VALUES = st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=6)
DOCUMENTS = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
).map(lambda value: value if isinstance(value, dict) else {"a": value})
TERMS = st.builds(
    lambda key, operator, operand: f"{key}{operator}{operand}",
    st.sampled_from(["a", "b", "a.b", "a[0]", "b.len()", "displayName"]),
    st.sampled_from([":", "=", "!=", "<", "<=", ">", ">=", "~", "!~"]),
    st.sampled_from(["x", '""', "1", "-1", '"a b"', "true", "a*", "null", "-P1D", "(x)"]),
) | st.sampled_from(["a:*", "a:(x y)", "a=(1,2)", "word", "-a=1"])


def accepted(text: str, document: Any) -> bool | None:
    """Whether a filter lets a document through; None where it is no filter."""
    try:
        return parse_filter(text).matches(document)
    except ConfigError:
        return None


@given(TERMS, DOCUMENTS)
def test_not_and_parentheses(term: str, document: Any) -> None:
    found = accepted(term, document)
    assert accepted(f"({term})", document) == found
    assert accepted(f"NOT NOT ({term})", document) == found
    if found is not None:
        assert accepted(f"NOT ({term})", document) is not found


@given(TERMS, TERMS, DOCUMENTS)
def test_and_or_and_side_by_side(one: str, other: str, document: Any) -> None:
    first, second = accepted(one, document), accepted(other, document)
    if first is None or second is None:
        return
    assert accepted(f"({one}) AND ({other})", document) is (first and second)
    assert accepted(f"({one}) OR ({other})", document) is (first or second)
    assert accepted(f"({one}) ({other})", document) is (first and second)
    assert accepted(f"NOT (({one}) AND ({other}))", document) is (not (first and second))


@given(
    st.lists(DOCUMENTS, max_size=6), st.sampled_from(["a", "~a", "a,b", "~a,b", "a.b", "displayName,~a", ""])
)
def test_sorting_again_changes_nothing(documents: list[Any], order: str) -> None:
    keys = parse_sort(order)
    ordered = sort_documents(documents, keys)
    assert sort_documents(ordered, keys) == ordered
    assert sorted(map(repr, ordered)) == sorted(map(repr, documents))


PATHS = st.lists(
    st.text(min_size=1, max_size=6) | st.integers(-3, 9) | st.none(), min_size=1, max_size=4
).filter(lambda path: isinstance(path[0], str))


@given(PATHS)
def test_a_key_is_read_as_it_is_written(path: list[Any]) -> None:
    key = Key(path=tuple(path))
    assert parse_key(key.text).path == key.path


@given(DOCUMENTS, PATHS)
def test_a_key_names_only_what_the_document_holds(document: Any, path: list[Any]) -> None:
    held = json.dumps([document], ensure_ascii=False)
    assert all(
        json.dumps(leaf, ensure_ascii=False)[1:-1] in held for leaf in texts(get(document, tuple(path)))
    )


def texts(value: Any) -> list[str]:
    """Every text in a value, however deep."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) else []


@given(st.lists(DOCUMENTS, max_size=4))
def test_json_is_read_by_others(documents: list[Any]) -> None:
    fmt = parse_format("json")
    assert json.loads("".join(render_list(documents, fmt))) == documents
    assert all(json.loads(render(document, fmt)) == document for document in documents)


CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=8)


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5))
def test_csv_is_read_by_others(rows: list[tuple[str, str]]) -> None:
    documents = [{"one": one, "other": other} for one, other in rows]
    text = "".join(render_list(documents, parse_format("csv(one,other)")))
    found = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert found == [["one", "other"], *([one, other] for one, other in rows)]


LINES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=9)


@given(st.lists(st.tuples(LINES, LINES), min_size=1, max_size=5))
def test_the_lines_of_a_box_are_equally_wide(rows: list[tuple[str, str]]) -> None:
    documents = [{"one": one, "other": other} for one, other in rows]
    text = "".join(render_list(documents, parse_format("table[box](one,other)")))
    assert len({display_width(line) for line in text.splitlines()}) == 1


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), DOCUMENTS)
def test_a_quoted_word_is_a_term(word: str, document: Any) -> None:
    quoted = '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
    assert parse_filter(f"a={quoted}").matches({"a": word}) is True
    assert accepted(quoted, document) in (True, False, None)
    assert all(
        operator not in quoted or accepted(f"b:{quoted}", document) is not None for operator in OPERATORS
    )
