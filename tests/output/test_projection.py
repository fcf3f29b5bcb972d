"""The format language: what each format prints, how keys reach, and what is refused."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtrain.errors import ConfigError
from vtrain.output.language.expressions import parse_key
from vtrain.output.language.format import FORMATS, parse_format
from vtrain.output.language.printers import render, render_list
from vtrain.output.language.projection import flatten_documents

PIANO = {
    "name": "projects/7/locations/europe-west4/customJobs/41",
    "displayName": "piano",
    "state": "JOB_STATE_RUNNING",
    "createTime": "2026-03-01T08:00:00.250Z",
    "labels": {"team": "keys", "env": "dev"},
    "jobSpec": {"workerPoolSpecs": [{"replicaCount": "1", "args": ["-a", "-b"]}, {"replicaCount": "10"}]},
    "steps": 12,
}
VIOLIN = {
    "name": "projects/7/locations/europe-west4/customJobs/9",
    "displayName": 'violin "II"',
    "state": "JOB_STATE_FAILED",
    "createTime": "2026-02-01T08:00:00Z",
    "error": {"code": 3, "message": "bow lost\nsee the log"},
    "steps": 4,
}


def listed(text: str, *documents: object) -> str:
    return "".join(render_list(documents or (PIANO, VIOLIN), parse_format(text)))


def cell(key: str, document: object = PIANO) -> str:
    return render(document, parse_format(f"value({key})")).removesuffix("\n")


# Whole documents


def test_json_list_is_an_array_and_an_empty_one_is_brackets() -> None:
    assert json.loads(listed("json")) == [PIANO, VIOLIN]
    assert "".join(render_list([], parse_format("json"))) == "[]\n"
    assert listed("json", {"é": 1}) == '[\n  {\n    "é": 1\n  }\n]\n'


def test_describe_has_no_marks_and_list_has_one_before_each() -> None:
    assert render({"b": 1, "a": "x"}, parse_format("yaml")) == "a: x\nb: 1\n"
    assert listed("default", {"b": 1}, {"b": 2}) == "---\nb: 1\n---\nb: 2\n"


def test_projection_keeps_nesting_and_leaves_out_what_is_absent() -> None:
    text = "json(jobSpec.workerPoolSpecs[].replicaCount, labels.team, endTime)"
    assert json.loads(render(PIANO, parse_format(text))) == {
        "jobSpec": {"workerPoolSpecs": [{"replicaCount": "1"}, {"replicaCount": "10"}]},
        "labels": {"team": "keys"},
    }


def test_projection_merges_fields_of_the_same_elements() -> None:
    fmt = parse_format("json(p[].a, p.b, p[1].c, q[0].upper())")
    document = {"p": [{"a": 1}, {"b": 2, "c": 3, "d": 4}], "q": ["x", "y"]}
    assert json.loads(render(document, fmt)) == {"p": [{"a": 1}, {"c": 3}], "q": ["X"]}


def test_projection_of_nothing_is_null() -> None:
    assert render(PIANO, parse_format("json(nosuch)")) == "null\n"


def test_flattened_aligns_and_counts() -> None:
    document = {"b": ["x", {"c": True}], "a": {"long": 1.5, "none": None, "empty": {}}, "t": "1\n2"}
    assert render(document, parse_format("flattened")) == (
        'a.empty: {}\na.long:  1.5\nb[0]:    x\nb[1].c:  True\nt:       "1\\n2"\n'
    )
    assert listed("text[no-pad](b[0],a.long)", document) == "---\nlong: 1.5\nb: x\n"


def test_list_items() -> None:
    assert listed("list[title=Jobs](displayName,error.code)") == 'Jobs\n - piano\n - violin "II"\n   3\n'
    assert listed("list", {"b": [1], "a": None}) == " - b: [1]\n"


# Columns


def test_value_columns() -> None:
    assert listed("value(displayName,endTime,labels,steps)") == (
        'piano\t\tenv=dev;team=keys\t12\nviolin "II"\t\t\t4\n'
    )


def test_value_attributes() -> None:
    text = 'value[separator=" | ",delimiter="+",quote,terminator=";\\n"](displayName,labels)'
    assert listed(text) == 'piano | env=dev+team=keys;\n"violin ""II""" | ;\n'


def test_csv_quotes_and_names_its_columns() -> None:
    assert listed("csv(displayName,error.message,steps:label=N)") == (
        'display_name,message,n\npiano,,12\n"violin ""II""","bow lost\nsee the log",4\n'
    )
    assert listed("csv[no-heading](steps)") == "12\n4\n"
    assert "".join(render_list([], parse_format("csv(steps)"))) == ""


def test_table() -> None:
    assert listed("table(name.basename():label=ID, displayName, error.code, endTime:optional)") == (
        'ID  DISPLAY_NAME  CODE\n41  piano\n9   violin "II"   3\n'
    )
    assert "".join(render_list([], parse_format("table(steps)"))) == ""


def test_table_tells_columns_of_the_same_name_apart() -> None:
    document = {"a": {"x": 1}, "b": {"x": 2}, "c": {"d": {"x": 3}}}
    assert listed("table(a.x,b.x,c.d.x)", document) == "X  B_X  D_X\n1  2    3\n"


def test_table_splits_cells_of_several_lines_and_measures_wide_characters() -> None:
    assert listed("table(m,n)", {"m": "日本", "n": "x\ny"}) == "M     N\n日本  x\n      y\n"


def test_table_alignment_box_and_title() -> None:
    assert listed("table[pad=1](steps:align=right,displayName:align=center:label=D)") == (
        'STEPS      D\n   12    piano\n    4 violin "II"\n'
    )
    assert listed("table[box,title=Two](steps,displayName:label=D)") == (
        "┌─────────────────────┐\n│         Two         │\n├───────┬─────────────┤\n"
        "│ STEPS │      D      │\n├───────┼─────────────┤\n"
        '│ 12    │ piano       │\n│ 4     │ violin "II" │\n└───────┴─────────────┘\n'
    )
    assert listed("table[all-box,no-heading](steps)") == "┌────┐\n│ 12 │\n├────┤\n│ 4  │\n└────┘\n"


def test_order_by_attribute_and_by_composition() -> None:
    assert listed("table[no-heading](steps:sort=1)") == "4\n12\n"
    assert listed("table[no-heading](steps:sort=1:reverse)") == "12\n4\n"


@given(st.lists(st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp"))), min_size=1, max_size=5))
def test_no_line_of_a_table_ends_in_a_space(names: list[str]) -> None:
    text = listed("table(a,b)", *({"a": name, "b": ""} for name in names))
    assert all(line == line.rstrip() for line in text.split("\n"))


# Which documents are asked for


def counted(asked: list[int]) -> Iterator[object]:
    for number in range(3):
        asked.append(number)
        yield {"n": number}


def test_lists_stream() -> None:
    asked: list[int] = []
    chunks = render_list(counted(asked), parse_format("value(n)"))
    assert next(chunks) == "0\n"
    assert asked == [0]


def test_none_consumes_and_disable_does_not() -> None:
    asked: list[int] = []
    assert "".join(render_list(counted(asked), parse_format("disable"))) == ""
    assert asked == []
    assert "".join(render_list(counted(asked), parse_format("none"))) == ""
    assert asked == [0, 1, 2]


# Keys


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("labels.team", "keys"),
        ('"labels"."team"', "keys"),
        ("display_name", "piano"),
        ("jobSpec.workerPoolSpecs[].replicaCount", "1;10"),
        ("jobSpec.workerPoolSpecs[-1].replicaCount", "10"),
        ("jobSpec.workerPoolSpecs[7].replicaCount", ""),
        ("jobSpec.workerPoolSpecs[0].args", "-a;-b"),
        ("steps.deeper.still", ""),
        ("steps[0]", ""),
    ],
)
def test_keys(key: str, expected: str) -> None:
    assert cell(key) == expected


def test_the_dot_is_the_document() -> None:
    assert cell(".", {"b": 1, "a": [{"d": 1, "c": 2}]}) == "a=[{'c': 2, 'd': 1}];b=1"


def test_flatten_makes_a_record_of_each_element() -> None:
    path = parse_key("jobSpec.workerPoolSpecs[]", "--flatten").path
    flat = list(flatten_documents([PIANO, VIOLIN], [path]))
    assert listed("value(displayName,job_spec.workerPoolSpecs.replicaCount)", *flat) == (
        "piano\t1\npiano\t10\n\t\n"
    )


# Refusals


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("xml", "Unknown format [xml]"),
        ("value", "Format [value] requires a non-empty projection"),
        ("csv()", "Format [csv] requires a non-empty projection"),
        ("table[box]", "Format [table] requires a non-empty projection"),
        ("value(a.x", "More is expected [value(a.x *HERE*]"),
        ("value(a b)", "A ) or a comma is expected after a key [value(a *HERE* b)]"),
        ("value(a,)", "A key's name is expected [value(a, *HERE* )]"),
        ("value(a..b)", "A key's name is expected [value(a. *HERE* .b)]"),
        ("value(a[1:3])", "Only [N] and [] are indices of a key"),
        ("value(a.nope())", "There is no transform nope() [value(a.nope( *HERE* ))]"),
        ("value(a.enum(x))", "There is no transform enum()"),
        ("value(a.basename(nope=1))", "Transform basename() has no option nope"),
        ("value(a.basename(1,2))", "Transform basename() takes at most 1 arguments"),
        ("value(a.segment(1,index=2))", "Transform segment() has index twice"),
        ("value(a.sub(x))", "Transform sub() needs replacement"),
        ('value(a.sub("(",x))', "The pattern of sub() is no regular expression"),
        ("value(a:nope=1)", "There is no key attribute nope [value(a: *HERE* nope=1)]"),
        ("value(a:)", "There is no key attribute"),
        ("table(a:align=up)", "align must be one of center, left, right"),
        ("table(a:sort=x)", "sort must be a whole number"),
        ("value[quote", "More is expected [value[quote *HERE*]"),
        ('value("a)', 'The quote " is not closed'),
        ("value(a.basename().b)", "transforms can only be followed by transforms"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_format(text)
    assert message in refusal.value.message
    assert refusal.value.hint
    assert refusal.value.exit_code == 1


def test_unknown_attributes_of_a_format_are_ignored() -> None:
    assert listed("value[bad=1,no-worse](steps)") == "12\n4\n"


@given(st.text(alphabet="jsonvaluetable()[].,:~*\"'= 019\\", max_size=24))
def test_any_text_is_a_format_or_a_refusal(tail: str) -> None:
    for name in FORMATS:
        try:
            fmt = parse_format(name + tail)
        except ConfigError:
            continue
        assert isinstance("".join(render_list([PIANO, VIOLIN, {}, "text", None], fmt)), str)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1e300, "a": [[], {}, [{"z": "é\u2028\x7f\x01/\\"}]]}, None),
        ({"n": 2**70, "t": True, "f": 0.1, "e": "", "k": {"b": None, "a": -0.0}}, None),
        ({"n": float("nan"), "i": float("-inf")}, '{\n  "i": -Infinity,\n  "n": NaN\n}'),
        ({"half": "\ud800"}, '{\n  "half": "\ud800"\n}'),
    ],
)
def test_json_is_indented_as_python_does(value: object, text: str | None) -> None:
    expected = text or json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    assert render(value, parse_format("json")) == expected + "\n"


def test_flatten_needs_brackets_behind_each_list() -> None:
    documents = [{"pools": [{"spec": {"args": ["a", "b"]}}]}]
    whole = flatten_documents(documents, [parse_key("pools[].spec.args[]").path])
    assert [document["pools"]["spec"]["args"] for document in whole] == ["a", "b"]
    with pytest.raises(ConfigError, match=r"--flatten cannot reach spec\.args") as caught:
        list(flatten_documents(documents, [parse_key("pools.spec.args").path]))
    assert "[]" in caught.value.hint


def test_characters_that_only_format_take_no_column() -> None:
    documents = [{"a": "soft\u00adhyphen", "b": 1}, {"a": "no\u200bspace", "b": 2}, {"a": "日本", "b": 3}]
    lines = "".join(render_list(documents, parse_format("table(a,b)"))).splitlines()
    assert lines == ["A           B", "soft\u00adhyphen  1", "no\u200bspace     2", "日本        3"]
