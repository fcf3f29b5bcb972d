"""Every text is a format, an order, a key to flatten or a refusal; every document can be printed."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lib.pace import at_most

from vtrain.errors import ConfigError
from vtrain.output.language.expressions import parse_key, parse_sort, transforms
from vtrain.output.language.format import FORMATS, parse_format
from vtrain.output.language.printers import render, render_list

WORDS = (
    "json",
    "table",
    "value",
    "csv",
    "multi",
    "n",
    "a.b",
    "len",
    "map",
    "list",
    "label",
    "sort",
    "no-heading",
    "1",
)
TEXTS = st.lists(st.sampled_from((*WORDS, *"()[].,:=*~\"'\\ {}|")), max_size=14).map("".join)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("anlk"), inner, max_size=4),
    max_leaves=10,
)
COLUMNS = "(n,a.n:label=X,l[0],l[].k,k.len(),n.list(),a:sort=1)"


@pytest.mark.parametrize("parse", [parse_format, parse_sort, parse_key])
@given(text=TEXTS)
def test_any_text_is_read_or_refused(parse: Callable[[str], object], text: str) -> None:
    try:
        parse(text)
    except ConfigError as refusal:
        assert refusal.exit_code == 1


@given(text=TEXTS)
@example("n['']")
def test_a_format_takes_every_order_that_is_read(text: str) -> None:
    try:
        order = parse_sort(text)
    except ConfigError:
        return
    columns = {column.key.path for column in parse_format("table(zz)", order).columns if column.order}
    assert columns == {each.key.path for each in order if not each.key.calls}


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=25)
@given(documents=st.lists(st.dictionaries(st.sampled_from("anlk"), DOCUMENTS, max_size=4), max_size=3))
def test_every_document_has_a_text(name: str, documents: list[Any]) -> None:
    columns = "(n:format=json,a:format=yaml)" if name == "multi" else COLUMNS
    bare = [name] if name not in ("csv", "get", "multi", "table", "value") else []
    for text in (*bare, name + columns):
        fmt = parse_format(text)
        assert isinstance("".join(render_list(documents, fmt)), str)
        assert all(isinstance(render(document, fmt), str) for document in documents)


@pytest.mark.parametrize("name", sorted(transforms()))
@settings(max_examples=25)
@given(document=DOCUMENTS)
def test_a_transform_takes_every_value(name: str, document: Any) -> None:
    arguments = {
        "decode": "base64", "encode": "base64", "filter": "n=1", "format": '"{0}"', "regex": "x",
        "sub": "x,y", "synthesize": "(a=n)", "trailoff": "5",
    }  # fmt: skip
    fmt = parse_format(f"value(n.{name}({arguments.get(name, '')}))")
    assert isinstance(render({"n": document}, fmt), str)


@pytest.mark.parametrize("name", ["enum", "error", "fatal", "if", "nosuch"])
def test_a_transform_that_is_not_there_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}\\(\\)"):
        parse_format(f"value(n.{name}(x))")


def test_a_key_that_a_format_names_many_times_is_not_copied_with_all_below() -> None:
    names = [f"a.k{number}" for number in range(2000)] + ["a"] * 2000
    with at_most(5):  # 24 s, when each copy had all 2,000
        parse_format(f"json({','.join(names)})")
