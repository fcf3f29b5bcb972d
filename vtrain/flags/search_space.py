"""The study that `vtrain tune` makes of its flags: `--param lr=1e-4..1e-1:log --metric accuracy:max`."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

import msgspec

from vtrain.core.config_file import ConfigFile
from vtrain.errors import FieldError, UsageError
from vtrain.flags.grammar import whole_number
from vtrain.flags.row import fields_of
from vtrain.flags.tuning_config import read_tuning_file
from vtrain.flags.tuning_options import SpaceFlags, TuningFlags
from vtrain.messages.codec import from_document, with_json_names
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, StudySpec
from vtrain.messages.study_rules import MOST_VALUES, check_study
from vtrain.runtime.tuning.suggestion import grid

TRIALS = 10
"""The trials of a study of which neither a flag nor a file says how many."""
_SCALES = {"linear": "UNIT_LINEAR_SCALE", "log": "UNIT_LOG_SCALE", "reverse-log": "UNIT_REVERSE_LOG_SCALE"}
_GOALS = {"max": "MAXIMIZE", "min": "MINIMIZE", "maximize": "MAXIMIZE", "minimize": "MINIMIZE"}
_WHOLE = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_FLAG_WORDS = {
    **{name: f":{word}" for word, name in _SCALES.items()},
    "minValue": "the lowest value",
    "maxValue": "the highest",
    "GRID_SEARCH": "--algorithm=grid-search",
    "List the values under discreteValueSpec": "List its values, with commas between them",
}
"""What is called otherwise in a file of the API than in these flags."""
_FORMS = "A range: lr=1e-4..0.1:log, layers=1..8. Some values: units=64,128,256, act=relu,tanh."


def study_file(space: SpaceFlags, flags: TuningFlags) -> ConfigFile:
    """The file of a tuning job that these flags stand for; where `--config` names one, laid over that.

    Raises UsageError for a parameter, a metric or a count that is wrong, ConfigError for a wrong file.
    """
    file = read_tuning_file(flags) if flags.config is not None else None
    if file is None and not (space.param and space.metric):
        wanted = (("--param=NAME=VALUES", space.param), ("--metric=NAME:max|min", space.metric))
        raise UsageError(
            f"{' and '.join(flag for flag, given in wanted if not given)} must be given.",
            hint="For example: --param lr=1e-4..0.1:log --metric accuracy:max",
        )
    for flag, count in (("-n", flags.max_trial_count), ("-j", flags.parallel_trial_count)):
        if count is not None and whole_number(count, flag) < 1:
            raise UsageError(f"{flag}: expected 1 or more, found {count}.")
    parameters, metrics = [*map(_parameter, space.param)], [*map(_metric, space.metric)]
    found = {"parameters": parameters} if parameters else {}
    found |= {"metrics": metrics} if metrics else {}
    if file is not None:
        with file.blamed():
            content = with_json_names(HyperparameterTuningJob, file.content)
        study = content.get("studySpec")
        study = {**(study if isinstance(study, dict) else {}), **found}
    else:
        content, study = {}, found
        _check(study | fields_of(flags).get("studySpec", {}), space)
    content = content | {"studySpec": study}
    content.setdefault("maxTrialCount", _points(study, flags))
    if file is None:
        return ConfigFile(origin="vtrain tune", text="", content=content)
    return msgspec.structs.replace(file, content=content)


def _points(study: dict[str, Any], flags: TuningFlags) -> int:
    """The number of trials that nobody gave: all of a grid, else `TRIALS`."""
    try:
        spec = from_document(StudySpec, study | fields_of(flags).get("studySpec", {}))
    except msgspec.ValidationError:  # the check of the whole job names the field
        return TRIALS
    if spec.algorithm != "GRID_SEARCH":
        return TRIALS
    return sum(1 for _ in islice(grid(spec), MOST_VALUES))


def _check(study: dict[str, Any], space: SpaceFlags) -> None:
    """Raise UsageError, by the flag, for the first rule of studies that one of them breaks."""
    try:
        check_study(from_document(StudySpec, study))
    except FieldError as error:
        found = re.match(r"studySpec\.(parameters|metrics)\[(\d+)\]", error.path)
        if found is None:
            raise
        flag, values = ("param", space.param) if found[1] == "parameters" else ("metric", space.metric)
        problem, hint = error.message.removeprefix(error.path).lstrip(": "), error.hint
        for name, words in _FLAG_WORDS.items():
            problem, hint = problem.replace(name, words), hint.replace(name, words)
        raise UsageError(f"--{flag}={values[int(found[2])]}: {problem}", hint=hint) from error


def _parameter(text: str) -> dict[str, Any]:
    """`lr=1e-4..1e-1:log` as a ParameterSpec. The text's form tells its kind."""
    name, equals, values = text.partition("=")
    if not (name and equals and values):
        raise UsageError(f"--param: expected NAME=VALUES, found {text!r}.", hint=_FORMS)
    head, colon, scale = values.rpartition(":")
    if colon and scale in _SCALES:
        values = head
    else:
        scale = ""
    kind, spec = _values(text, values)
    if scale and kind == "categoricalValueSpec":
        raise UsageError(f"--param={text}: words have no scale.", hint=f"Leave out :{scale}.")
    return {
        "parameterId": name.removeprefix("--"),
        kind: spec,
        **({"scaleType": _SCALES[scale]} if scale else {}),
    }


def _values(text: str, values: str) -> tuple[str, dict[str, Any]]:
    """The kind of a parameter, and its values."""
    low, dots, high = values.partition("..")
    if dots:
        if not (_NUMBER.fullmatch(low) and _NUMBER.fullmatch(high)):
            scales = ", ".join(f":{scale}" for scale in _SCALES)
            raise UsageError(
                f"--param={text}: expected LOW..HIGH with two numbers, found {values!r}.",
                hint=f"A scale may follow: {scales}.",
            )
        if _WHOLE.fullmatch(low) and _WHOLE.fullmatch(high):
            return "integerValueSpec", {"minValue": str(int(low)), "maxValue": str(int(high))}
        return "doubleValueSpec", {"minValue": float(low), "maxValue": float(high)}
    words = values.split("|" if "|" in values else ",")
    if len(words) < 2 or not all(words):
        hint = (
            f"{_FORMS} A single value is an argument of the trainer: -- --{text.partition('=')[0]}={values}"
        )
        raise UsageError(f"--param={text}: expected a range or several values, found {values!r}.", hint=hint)
    if "|" in values or not all(map(_NUMBER.fullmatch, words)):
        return "categoricalValueSpec", {"values": words}
    return "discreteValueSpec", {"values": sorted(map(float, words))}


def _metric(text: str) -> dict[str, str]:
    """`accuracy:max` as a MetricSpec."""
    name, colon, goal = text.rpartition(":")
    if not colon or not name or goal not in _GOALS:
        name = (name if colon else text) or "NAME"
        raise UsageError(
            f"--metric: expected NAME:max or NAME:min, found {text!r}.",
            hint=f"Say which is better: --metric {name}:max or --metric {name}:min",
        )
    return {"metricId": name, "goal": _GOALS[goal]}
