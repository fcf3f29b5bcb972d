"""Flags as rows: the fields that they set, and what an empty value means."""

from __future__ import annotations

from typing import ClassVar

import pytest

from vtrain.ai_platform.training_input import TrainingInput
from vtrain.flags.ai_platform_options import PackageFlags, SubmitFlags
from vtrain.flags.grammar import whole_number
from vtrain.flags.job_options import PersistentResourceFlags, SpecFlags
from vtrain.flags.model_options import UploadFlags
from vtrain.flags.pipeline_options import DatasetFlags, ModelFlags
from vtrain.flags.row import (
    CLEARS,
    IGNORED,
    Empty,
    FlagGroup,
    argument,
    fields_of,
    flag,
    items,
    rows_of,
    switch,
    text,
)
from vtrain.flags.tuning_options import TuningFlags
from vtrain.messages.codec import fields
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.model import Model
from vtrain.messages.persistent_resource import PersistentResource
from vtrain.messages.structs import Message
from vtrain.messages.training_pipeline import InputDataConfig


class Flags(FlagGroup, frozen=True):
    empty: ClassVar[Empty] = IGNORED

    name: str | None = flag("NAME", "", to="displayName")
    network: str | None = flag("NETWORK", "", to="spec.network", empty=CLEARS)
    count: str | None = flag("N", "", to="spec.count", read=whole_number)
    words: list[str] = items("WORD", "", to="words", read=lambda words, _flag: tuple(words))
    access: bool | None = switch("", default=None, to="access", empty=CLEARS)
    other: str = text("TEXT", "")


def test_what_is_not_given_is_absent() -> None:
    assert fields_of(Flags()) == fields_of(Flags(other="x")) == {}


def test_each_flag_sets_its_field() -> None:
    flags = Flags(name="a", network="n", count="2", words=["b"], access=False)
    spec = {"network": "n", "count": 2}
    assert fields_of(flags) == {"displayName": "a", "spec": spec, "words": ["b"], "access": False}


def test_an_empty_value_clears_or_is_ignored() -> None:
    assert fields_of(Flags(name="", network="", count="0")) == {"spec": {"network": ""}}


def test_an_argument_without_a_default_has_to_be_given() -> None:
    class Name(FlagGroup, frozen=True):
        job: str = argument("JOB", "")

    with pytest.raises(TypeError, match="JOB"):
        Name()


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (SpecFlags, CustomJob),
        (TuningFlags, HyperparameterTuningJob),
        (PersistentResourceFlags, PersistentResource),
        (UploadFlags, Model),
        (ModelFlags, Model),
        (DatasetFlags, InputDataConfig),
        (PackageFlags, TrainingInput),
        (SubmitFlags, TrainingInput),
    ],
)
def test_every_row_names_a_field(group: type[FlagGroup], message: type[Message]) -> None:
    of_the_job = {"displayName", "labels"} if group is SubmitFlags else set()
    paths = {row.to for row in rows_of(group).values()} - {"", *of_the_job}
    assert paths
    for path in paths:
        below: type[Message] | None = message
        path = path.replace("jobSpec", "trialJobSpec" if group is TuningFlags else "jobSpec")
        path = path.replace("[*]", ".containerSpec")  # of every pool, the task
        for step in path.replace("[0]", "").split("."):
            if below is None:  # a document, such as a probe's
                break
            assert step in fields(below), path
            below = fields(below)[step].message  # type: ignore[assignment]
