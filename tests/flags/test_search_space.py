"""The study that `vtrain tune` makes of its flags."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from vtrain.errors import ConfigError, FieldError, UsageError
from vtrain.flags.search_space import study_file
from vtrain.flags.tuning_options import SpaceFlags, TuningFlags


def content(*params: str, metric: str = "accuracy:max", **flags: Any) -> dict[Any, Any]:
    space = SpaceFlags(param=list(params), metric=[metric] if metric else [])
    return study_file(space, TuningFlags(**flags)).content


@pytest.mark.parametrize(
    ("text", "parameter"),
    [
        ("lr=1e-4..1e-1", {"doubleValueSpec": {"minValue": 0.0001, "maxValue": 0.1}}),
        (
            "lr=1e-4..1:log",
            {"doubleValueSpec": {"minValue": 0.0001, "maxValue": 1.0}, "scaleType": "UNIT_LOG_SCALE"},
        ),
        ("n=1..8", {"integerValueSpec": {"minValue": "1", "maxValue": "8"}}),
        ("n=-2..8", {"integerValueSpec": {"minValue": "-2", "maxValue": "8"}}),
        (
            "n=1..8:reverse-log",
            {
                "integerValueSpec": {"minValue": "1", "maxValue": "8"},
                "scaleType": "UNIT_REVERSE_LOG_SCALE",
            },
        ),
        ("units=256,64,1e2", {"discreteValueSpec": {"values": [64.0, 100.0, 256.0]}}),
        (
            "units=1,2:linear",
            {"discreteValueSpec": {"values": [1.0, 2.0]}, "scaleType": "UNIT_LINEAR_SCALE"},
        ),
        ("act=relu|tanh", {"categoricalValueSpec": {"values": ["relu", "tanh"]}}),
        ("act=relu,tanh", {"categoricalValueSpec": {"values": ["relu", "tanh"]}}),
        ("units=64|128", {"categoricalValueSpec": {"values": ["64", "128"]}}),
        ("data=gs://a,gs://b", {"categoricalValueSpec": {"values": ["gs://a", "gs://b"]}}),
    ],
)
def test_the_form_of_a_text_tells_the_kind_of_the_parameter(text: str, parameter: dict[str, Any]) -> None:
    (found,) = content(text)["studySpec"]["parameters"]
    assert found == {"parameterId": text.partition("=")[0], **parameter}


@pytest.mark.parametrize(
    ("metric", "found"),
    [
        ("loss:min", {"metricId": "loss", "goal": "MINIMIZE"}),
        ("val:top:maximize", {"metricId": "val:top", "goal": "MAXIMIZE"}),
    ],
)
def test_a_metric_says_what_is_better(metric: str, found: dict[str, str]) -> None:
    assert content("n=1..2", metric=metric)["studySpec"]["metrics"] == [found]


@pytest.mark.parametrize(
    ("param", "metric", "words"),
    [
        ("lr", "a:max", "--param: expected NAME=VALUES, found 'lr'."),
        ("=1..2", "a:max", "--param: expected NAME=VALUES"),
        ("lr=1..x", "a:max", "--param=lr=1..x: expected LOW..HIGH with two numbers, found '1..x'."),
        ("lr=1..2:lag", "a:max", "found '1..2:lag'."),
        ("lr=3", "a:max", "expected a range or several values, found '3'."),
        ("lr=3,,4", "a:max", "expected a range or several values"),
        ("lr=3..1", "a:max", "--param=lr=3..1: the lowest value 3 is above the highest 1."),
        ("lr=0..1.0:log", "a:max", "--param=lr=0..1.0:log: :log needs values above 0"),
        ("act=a,b:log", "a:max", "words have no scale."),
        ("a b=1..2", "a:max", "--param=a b=1..2: 'a b' holds white space"),
        ("n=1..2", "a", "--metric: expected NAME:max or NAME:min, found 'a'."),
        ("n=1..2", ":max", "--metric: expected NAME:max or NAME:min, found ':max'."),
        ("n=1..2", "a:best", "found 'a:best'."),
        ("n=1..2", "a b:max", "--metric=a b:max: 'a b' holds white space"),
        ("n=1..2", "", "--metric=NAME:max|min must be given."),
    ],
)
def test_an_error_names_the_flag(param: str, metric: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        content(param, metric=metric)
    assert words in refused.value.message
    assert not re.search("UNIT_|Value", refused.value.message + refused.value.hint), "no field of the API"


@pytest.mark.parametrize("metric", [":max", ":"])
def test_a_metric_without_a_name_gets_a_hint_with_one(metric: str) -> None:
    with pytest.raises(UsageError) as refused:
        content("n=1..2", metric=metric)
    assert refused.value.hint == "Say which is better: --metric NAME:max or --metric NAME:min"


def test_a_parameter_twice_and_a_double_in_a_grid_are_refused() -> None:
    with pytest.raises(UsageError, match=r"--param=n=3\.\.4: the parameter n is there twice"):
        content("n=1..2", "n=3..4")
    with pytest.raises((UsageError, FieldError), match=r"lr=0\.1\.\.1: --algorithm=grid-search takes"):
        content("lr=0.1..1", algorithm="grid-search")


@pytest.mark.parametrize(
    ("flags", "trials"),
    [({}, 10), ({"algorithm": "grid-search"}, 6), ({"algorithm": "random-search"}, 10)],
)
def test_the_number_of_trials_that_nobody_gave(flags: dict[str, str], trials: int) -> None:
    assert content("n=1..3", "act=a,b", **flags)["maxTrialCount"] == trials


@pytest.mark.parametrize("count", ["0", "-1", "many"])
@pytest.mark.parametrize("name", ["max_trial_count", "parallel_trial_count"])
def test_a_count_is_one_or_more(name: str, count: str) -> None:
    with pytest.raises(UsageError, match="expected"):
        content("n=1..3", **{name: count})


def test_flags_lie_over_a_file(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(
        "max_trial_count: 3\nstudy_spec:\n  algorithm: RANDOM_SEARCH\n"
        "  metrics: [{metric_id: a, goal: MAXIMIZE}]\n"
    )
    found = content("n=1..3", metric="", config=str(file))
    assert found["maxTrialCount"] == 3
    assert found["studySpec"]["algorithm"] == "RANDOM_SEARCH"
    assert found["studySpec"]["metrics"] == [{"metricId": "a", "goal": "MAXIMIZE"}]
    assert [each["parameterId"] for each in found["studySpec"]["parameters"]] == ["n"]
    with pytest.raises(ConfigError):
        content("n=1..3", metric="", config=str(tmp_path / "none.yaml"))
