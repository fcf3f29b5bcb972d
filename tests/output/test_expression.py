"""The filter language and the order of rows."""

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.pace import at_most

from vtrain.errors import ConfigError
from vtrain.output.language.expressions import parse_filter, parse_sort
from vtrain.output.language.keys import get
from vtrain.output.language.projection import sort_documents

NOW = datetime(2026, 1, 10, tzinfo=timezone.utc)
OAK = {
    "name": "oak",
    "rings": 4,
    "height": "10",
    "birds": ["wren", "owl"],
    "labels": {"site": "North wood"},
    "planted": "2026-01-03T10:00:00.5Z",
    "alive": True,
    "note": "first line\nlast",
    "age": "3600s",
    "empty": "",
    "pools": [{"n": "1"}, {"n": "3"}],
}
PINE = {"name": "Scots pine", "rings": 10, "birds": [], "planted": "2025-06-04T10:00:00Z", "alive": False}
BOTH, FIRST, SECOND, NEITHER = [True, True], [True, False], [False, True], [False, False]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", BOTH),
        ("()", BOTH),
        # equality
        ("name=oak", FIRST),
        ("name=OAK", FIRST),
        ("name=oa", NEITHER),
        ("name = oak", FIRST),
        ("name!=oak", SECOND),
        ("nosuch!=x", BOTH),
        ('empty=""', BOTH),
        ("nosuch=null", BOTH),
        ("note=LAST", FIRST),
        ("note='first line'", FIRST),
        ("alive=true", FIRST),
        ("rings=4.0", FIRST),
        ("birds=owl", FIRST),
        ("birds!=owl", BOTH),
        ("labels.site='north wood'", FIRST),
        ("labels=site", FIRST),
        ("pools.n=3", FIRST),
        ("pools[0].n=3", NEITHER),
        ("name=oak*", NEITHER),
        # has
        ("name:sc", SECOND),
        ("name:PINE", SECOND),
        ("name:sc*", SECOND),
        ("name:pi*", NEITHER),
        ("name:*ne", SECOND),
        ("name:*", BOTH),
        ("nosuch:*", NEITHER),
        ("empty:*", NEITHER),
        ("birds:*", FIRST),
        ("alive:*", BOTH),
        ("-labels:*", SECOND),
        ("labels:wood", FIRST),
        ("rings:1", SECOND),
        # order
        ("rings>4", SECOND),
        ("rings>=4", BOTH),
        ("rings<10", FIRST),
        ("height>9", FIRST),
        ("name<a", SECOND),
        ("name<=oak", BOTH),
        ("pools.n>2", FIRST),
        # times
        ("planted>2026-01-01", FIRST),
        ("planted>-P2W", FIRST),
        ("planted<-p1d", BOTH),
        ("planted=2026-01-03T11:00:00.5+01:00", FIRST),
        ('planted>"2026-01-03T10:00:00Z"', FIRST),
        # regular expressions
        ("name~^o", FIRST),
        ("name~O", NEITHER),
        ("name!~k$", SECOND),
        ("nosuch!~a", BOTH),
        ("nosuch~a", NEITHER),
        ('name~"\\\\s"', SECOND),
        ('name~"\\s"', SECOND),
        ("birds~^w", FIRST),
        # any of several
        ("name=(elm,oak)", FIRST),
        ("name:(elm OR pine)", SECOND),
        ('name=("Scots pine" elm)', SECOND),
        ("name=()", NEITHER),
        # words
        ("wood", FIRST),
        ("NORTH", FIRST),
        ("site", NEITHER),
        ('"scots pine"', SECOND),
        # logic
        ("name=oak AND rings=4", FIRST),
        ("name=oak rings=10", NEITHER),
        ("name=oak OR rings=10", BOTH),
        ("NOT name=oak", SECOND),
        ("-name=oak", SECOND),
        ("NOT NOT name=oak", FIRST),
        ("NOT (name=oak OR rings=10)", NEITHER),
        ("(name=oak OR rings=10) alive=true", FIRST),
        ("name=oak OR rings=10 alive=true", FIRST),
        ("name=oak AND (rings=4 OR rings=5) AND alive=true", FIRST),
        ("name=oak and", NEITHER),
        # keys
        ("name.len()=3", FIRST),
        ("birds.len()>0", FIRST),
        ("name.upper()~OAK", FIRST),
    ],
)
def test_filter(text: str, expected: list[bool]) -> None:
    wanted = parse_filter(text, now=NOW)
    assert [wanted.matches(OAK), wanted.matches(PINE)] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a=1 AND b=2 OR c=3",
            "AND and OR together need parentheses [a=1 AND b=2 OR *HERE* c=3]",
        ),
        ("a=", "An operand is expected [a= *HERE*]"),
        ("a= AND b=1", "An operand is expected"),
        ("a==1", "There is no such operator [a *HERE* ==1]"),
        ("(a:b", "More is expected [(a:b *HERE*]"),
        ("a=1)", "A ) without its ( [a=1 *HERE* )]"),
        ("AND a=1", "A term is expected [*HERE* AND a=1]"),
        ("a=1 OR", "A term is expected [a=1 OR *HERE*]"),
        ("NOT", "A term is expected [NOT *HERE*]"),
        ("=a", "A key's name is expected [*HERE* =a]"),
        ('a~"["', "The operand does not fit the operator ~"),
        ("a.nope()=1", "There is no transform nope()"),
        ("a:(b", "More is expected"),
        ('a="b', 'The quote " is not closed'),
    ],
)
def test_refused_filter(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_filter(text)
    assert message in refusal.value.message
    assert refusal.value.exit_code == 1


def test_a_filter_tells_the_keys_that_it_reads() -> None:
    wanted = parse_filter("nam=oak OR labels.site=x OR nosuch.deep:* OR nam=elm")
    assert [key.text for key in wanted.keys] == ["nam", "labels.site", "nosuch.deep"]
    absent = [key.text for key in wanted.keys if all(get(tree, key.path) is None for tree in (OAK, PINE))]
    assert absent == ["nam", "nosuch.deep"]


@given(st.text(alphabet="ab=:<>~!()-*\"' ,.ANDORT12", max_size=20))
def test_any_text_is_a_filter_or_a_refusal(text: str) -> None:
    try:
        wanted = parse_filter(text)
    except ConfigError:
        return
    assert wanted.matches(OAK) in (True, False)


@given(st.text(min_size=1))
def test_a_quoted_value_equals_itself(value: str) -> None:
    quoted = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    assert parse_filter(f"k={quoted}").matches({"k": value})


@given(st.lists(st.integers(-3, 3)), st.integers(-3, 3))
def test_not_is_the_complement(values: list[int], bound: int) -> None:
    for value in values:
        document = {"k": value}
        assert parse_filter(f"k<{bound}").matches(document) == (value < bound)
        assert parse_filter(f"NOT k<{bound}").matches(document) == (value >= bound)


def test_sort_compares_text() -> None:
    rows: list[dict[str, object]] = [{"n": 9}, {"n": 100}, {"n": 10}, {"n": "x"}]
    assert [row["n"] for row in sort_documents(rows, parse_sort("n"))] == [10, 100, 9, "x"]


def test_sort_by_several_keys_keeps_the_order_of_equals() -> None:
    rows: list[dict[str, object]] = [{"a": "x", "b": 1}, {"a": "y", "b": 2}, {"a": "x", "b": 3}, {"b": 4}]
    assert [row["b"] for row in sort_documents(rows, parse_sort("~a"))] == [2, 1, 3, 4]
    assert [row["b"] for row in sort_documents(rows, parse_sort("a, ~b"))] == [4, 3, 1, 2]
    assert sort_documents(rows, parse_sort("nosuch")) == rows


@pytest.mark.parametrize("text", ["a b", "a,,b"])
def test_refused_sort(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_sort(text)


def test_what_is_absent_is_no_time_where_others_have_one() -> None:
    wanted = parse_filter("end<2026-02")
    ends = ("2026-01-01T00:00:00Z", "", None)
    assert [wanted.matches({"end": end}) for end in ends] == [True, False, False]


def test_a_long_or_deep_filter_is_read_at_once_or_refused() -> None:
    with at_most(5):
        assert parse_filter("name=" + "x" * 100_000).matches({"name": "x" * 100_000})
    assert not parse_filter("NOT " * 20_001 + "n=1").matches({"n": 1})
    for deep in ("(" * 5000 + "n=1" + ")" * 5000, "pools" + ".filter(a" * 3000 + ")" * 3000):
        with pytest.raises(ConfigError, match="nested too deeply"):
            parse_filter(deep)
