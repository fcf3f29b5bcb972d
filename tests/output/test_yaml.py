"""The YAML writer: its look, and that every JSON document comes back from a YAML reader."""

import math
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from vtrain.output.language.value_transforms import float_
from vtrain.output.language.yaml_writer import dump_yaml


class CoreLoader(yaml.SafeLoader):
    """PyYAML with the scalars of the YAML 1.2 core schema."""


CoreLoader.yaml_implicit_resolvers = {}
for tag, pattern, first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
):
    CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), first)

TRICKY = st.sampled_from(
    [
        " lead",
        "trail ",
        "a\tb",
        "\ta",
        "a: b",
        "a:",
        "a #b",
        "#a",
        "- a",
        "-",
        "---",
        "--- a",
        "...",
        "? a",
        "?",
        ":",
        "~",
        "null",
        "True",
        "0x1f",
        "0o7",
        "010",
        "1_0",
        "1e3",
        ".5",
        "5.",
        "-.inf",
        "2026-01-01",
        "=",
        "<<",
        "'",
        '"',
        "\\",
        "a\nb",
        "a\nb\n",
        "a\n\n\n",
        "\n",
        "\n\na",
        " a\n b",
        "a\n  \n",
        "a\n  ",
        "a \n#b\n",
        "\ta\n\tb",
        "a\r\nb",
        "\x00",
        "\x1b[0m",
        "\x85",
        "\u2028",
        "\ufeff",
        "\xa0",
        "\U0001f600 \n x",
        "%a",
        "@",
        "`",
        "[a]",
        "{a",
        "&a",
        "*a",
        "!a",
    ]
)
TEXT = st.one_of(TRICKY, st.text(), st.text(alphabet=" \n\t:#-?'\"ab|>", max_size=12))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False).filter(lambda number: float(float_(number)) == number),
    TEXT,
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(DOCUMENTS)
def test_every_json_document_comes_back(document: object) -> None:
    assert yaml.load(dump_yaml(document), CoreLoader) == document


@given(st.lists(DOCUMENTS, max_size=3))
def test_marked_documents_follow_each_other(documents: list[object]) -> None:
    text = "".join("---\n" + dump_yaml(document) for document in documents)
    assert list(yaml.load_all(text, CoreLoader)) == documents


@given(DOCUMENTS)
def test_ends_in_one_line_and_has_no_tab_indentation(document: object) -> None:
    text = dump_yaml(document)
    assert text.endswith("\n")
    assert not text.startswith("---")


def test_a_key_beyond_the_limit_of_simple_keys_comes_back() -> None:
    document = {"k" * 2000: {"x": [1]}, "z": ["q"], "y" * 1500: "a\nb"}
    assert yaml.load(dump_yaml({"in": [document]}), CoreLoader) == {"in": [document]}


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "no",
        "on",
        "n",
        "gcr.io/p/img:1",
        "--epochs=10",
        "3600s",
        "a'b",
        "a,b",
        "a#b",
        "1.2.3",
        "C:\\x",
        "é",
        "😀",
    ],
)
def test_plain_strings(text: str) -> None:
    assert dump_yaml(text) == f"{text}\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10",
        "-1",
        "1.5",
        "1e3",
        "0x1f",
        "null",
        "~",
        "true",
        "False",
        "2026-01-03T10:00:00Z",
        "a: b",
        " a",
        "- a",
    ],
)
def test_strings_that_would_be_read_as_something_else_are_quoted(text: str) -> None:
    assert dump_yaml(text) == f"'{text}'\n"


def test_shape() -> None:
    document = {
        "b": [{"z": 1, "a": ["x", {"k": None}]}, [1, [True]], [], {}],
        "a": "first\nsecond",
        "c": {"text": "kept\n", "blank": "a\n\n", "float": 1e16},
    }
    assert dump_yaml(document) == (
        "a: |-\n  first\n  second\n"
        "b:\n- a:\n  - x\n  - k: null\n  z: 1\n- - 1\n  - - true\n- []\n- {}\n"
        "c:\n  blank: |+\n    a\n\n  float: 1e+16\n  text: |\n    kept\n"
    )


def test_control_characters_are_escaped() -> None:
    assert dump_yaml({"a": 'x"\x01\t\\'}) == 'a: "x\\"\\x01\\t\\\\"\n'


def test_non_finite_numbers() -> None:
    assert dump_yaml([math.inf, -math.inf]) == "- .inf\n- -.inf\n"
    assert math.isnan(yaml.load(dump_yaml(math.nan), CoreLoader))


LONG = "The replica workerpool0-0 exited with a non-zero status of 1. To find out more about why, see the log"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (LONG, LONG.replace(" more", "\n    more")),
        (f"{LONG}: x", "'" + LONG.replace(" out", "\n    out") + ": x'"),
        (f"it's: {LONG}", "\"it's: " + LONG.replace(" find", "\\\n    \\ find") + '"'),
        (f"{'x' * 90}  y z", f"{'x' * 90}  y\n    z"),
        ("x" * 200, "x" * 200),
    ],
)
def test_long_lines_are_folded_as_gcloud_folds_them(text: str, shown: str) -> None:
    assert dump_yaml({"error": {"message": text}}) == f"error:\n  message: {shown}\n"
    assert yaml.load(dump_yaml([text, [text]]), CoreLoader) == [text, [text]]


@given(st.text(alphabet="ab  .'\"\\:#\t\x07é", min_size=70, max_size=300))
def test_folded_text_comes_back(text: str) -> None:
    assert yaml.load(dump_yaml({"a": [text, {"b": text}]}), CoreLoader) == {"a": [text, {"b": text}]}


@pytest.mark.parametrize("text", ["\t\n", "\tx\ny", "\n\t\n", "x\n\ty\n"])
def test_a_block_may_begin_with_a_tab(text: str) -> None:
    assert yaml.load(dump_yaml({"a": [{"b": text}]}), CoreLoader) == {"a": [{"b": text}]}
