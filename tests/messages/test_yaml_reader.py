from __future__ import annotations

import json

import pytest
from hypothesis import given
from lib.job_strategies import JSON
from lib.pace import at_most

from vtrain.errors import ConfigError
from vtrain.messages.yaml_reader import line_of, load_entries, load_yaml
from vtrain.output.language.yaml_writer import dump_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n", "n"),
        ("no", "no"),
        ("yes", "yes"),
        ("On", "On"),
        ("012", "012"),
        ("0x1F", "0x1F"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("2024-05-01", "2024-05-01"),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-7", -7),
        ("0", 0),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        ("null", None),
        ("=", "="),
    ],
)
def test_scalars_are_what_they_look_like(text: str, value: object) -> None:
    loaded = load_yaml(f"key: {text}\n", "job.yaml")["key"]
    assert loaded == value
    assert type(loaded) is type(value)


def test_anchors_and_merges_work() -> None:
    text = "base: &b {a: 1, b: 2}\nother: {<<: *b, b: 3}\nlist: [*b]\n"
    assert load_yaml(text, "job.yaml") == {
        "base": {"a": 1, "b": 2},
        "other": {"a": 1, "b": 3},
        "list": [{"a": 1, "b": 2}],
    }


@pytest.mark.parametrize("text", ["😀", "a\\😀", "\\ud83d\\ude00", "\\\\ud83d\\ude00 😀😀"])
def test_json_may_escape_every_character(text: str) -> None:
    """Python's `json.dumps` writes one beyond U+FFFF as two escapes, which YAML does not know."""
    document = {"a": text, text: [text]}
    written = json.dumps(document)
    assert load_yaml(written, "job.json") == document
    assert load_entries(written, "flags.json")[0].value == text
    assert line_of(json.dumps({text: 1, "b": 2}, indent=1), "b") == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [\n", r"^job\.yaml:\d"),
        ("a: 1\nb: 2\na: 3\n", r"^job\.yaml:3: .*'a' stands here twice"),
        ("a: {b: 1, b: 2}\n", r"^job\.yaml:1: .*'b' stands here twice"),
        ("a: 1\n---\nb: 2\n", r"^job\.yaml"),
        ("a: !!python/object/apply:os.system [ls]\n", r"^job\.yaml:1"),
        ("a: \x07\n", r"^job\.yaml"),
        ("{" * 3000, r"^job\.yaml"),
        ("[a]: 1\n? {b: 1}\n: 2\n", r"^job\.yaml"),
    ],
)
def test_what_cannot_be_read_is_refused_with_file_and_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load_yaml(text, "job.yaml")
    assert "\n" not in caught.value.message


@given(JSON.filter(lambda document: "\0" not in "".join(map(str, [*document, *document.values()]))))
def test_reads_back_what_we_print(document: dict[str, object]) -> None:
    assert load_yaml(dump_yaml(document), "stdin") == document


@pytest.mark.parametrize("value", ["!!bool abc", "!!timestamp 99999-99-99", "!!int abc", "!!float x"])
def test_a_value_that_does_not_fit_its_tag_is_refused_with_its_line(value: str) -> None:
    with pytest.raises(ConfigError, match=r"^f:2: not a YAML document: '\S+' is no \w+\.$"):
        load_yaml(f"b: 1\na: {value}\n", "f")


JOB = """\
# a job
worker_pool_specs:
- machineSpec:
    machineType: n1

  replicaCount: 1
- {replicaCount: 2, containerSpec: {imageUri: i,
   args: x}}
labels:
  a.b: c
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("workerPoolSpecs", 2),
        ("workerPoolSpecs[0].machineSpec.machineType", 4),
        ("workerPoolSpecs[0].replicaCount", 6),
        ("workerPoolSpecs[1]", 7),
        ("workerPoolSpecs[1].containerSpec.args[0]", 8),
        ("workerPoolSpecs[1].machineSpec.machineType", 7),
        ("workerPoolSpecs[2].replicaCount", 2),
        ("labels.a.b", 10),
        ("nowhere", 0),
        ("", 0),
    ],
)
def test_the_line_of_a_field(path: str, line: int) -> None:
    assert line_of(JOB, path) == line
    assert line_of('{"a": {"b": [1,\n2]}}', "a.b[1]") == 2


def test_a_document_of_a_hundred_thousand_pools_is_refused_early() -> None:
    """It took 16 s until somebody counted the pools."""
    text = "workerPoolSpecs:\n" + "- {replicaCount: 1, machineSpec: {machineType: n1-standard-4}}\n" * 100_000
    with at_most(8), pytest.raises(ConfigError, match="it has more than 100,000 values"):
        load_yaml(text, "job.yaml")
