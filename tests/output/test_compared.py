"""Arguments of command lines, and the order of jobs by what they measured."""

from __future__ import annotations

from typing import Any

import pytest

from vtrain.messages.codec import from_document
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.output.compared import compared_job, named_arguments, side_of, sorted_documents


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("--lr=0.1 --units 64 --name adam", {"lr": 0.1, "units": 64, "name": "adam"}),
        ("--lr 1e-3 --shift -1 --size=-2.5", {"lr": 0.001, "shift": -1, "size": -2.5}),
        ("data.csv --fast --layers=2 -v", {"fast": "true", "layers": 2, "v": "true"}),
        ("--lr=0.1 --lr=0.2 -- --", {"lr": 0.2}),
        ("--hidden 64 32 --lr 0.1 data.csv", {"hidden": "64 32", "lr": 0.1}),
        ("--classes cat dog -v", {"classes": "cat dog", "v": "true"}),
        ("--a= --b=x=y --c=1_000", {"a": "", "b": "x=y", "c": "1_000"}),
        (f"--n={'9' * 30}", {"n": "9" * 30}),
        ("--p=.5 --far=1e999", {"p": 0.5, "far": "1e999"}),  # JSON has no infinity
        ("", {}),
    ],
)
def test_arguments_by_their_names(line: str, values: dict[str, Any]) -> None:
    assert repr(named_arguments(line.split())) == repr(values)  # -1 is not -1.0


def test_secrets_are_not_shown() -> None:
    assert "hush-hush-1234" not in str(named_arguments(["--password=hush-hush-1234", "--lr=1"]))


def test_numbers_are_sorted_as_numbers_and_what_has_none_is_last() -> None:
    lrs = {"a": 10, "b": 9.5, "c": "x", "e": 1e-5}
    documents = [{"id": name, "args": {"lr": value}, "metrics": {}} for name, value in lrs.items()]
    documents.insert(0, {"id": "d", "args": {}, "metrics": {}})

    def ids(key: str) -> str:
        return "".join(one["id"] for one in sorted_documents(documents, key))

    assert ids("args.lr") == "ebacd"
    assert ids("~args.lr") == "abecd"
    assert ids("id") == "abcde"
    assert ids("metrics.lr") == "dabce"


def test_the_numbers_of_a_tuning_job_are_those_of_its_best_trial() -> None:
    def trial(own_id: str, rate: float, accuracy: float) -> dict[str, Any]:
        return {
            "id": own_id,
            "state": "SUCCEEDED",
            "parameters": [{"parameterId": "rate", "value": rate}],
            "finalMeasurement": {"metrics": [{"metricId": "accuracy", "value": accuracy}]},
        }

    document = {
        "studySpec": {"metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}]},
        "trials": [trial("1", 0.1, 0.5), trial("2", 0.2, 0.75)],
        "trialJobSpec": {"workerPoolSpecs": [{"pythonPackageSpec": {"args": ["--epochs=3", "--rate=9"]}}]},
    }
    job = from_document(HyperparameterTuningJob, document)
    assert compared_job(job, None) == {"args": {"epochs": 3, "rate": 0.2}, "metrics": {"accuracy": 0.75}}
    job = from_document(HyperparameterTuningJob, document | {"trials": []})
    assert compared_job(job, None) == {"args": {"epochs": 3, "rate": 9}, "metrics": {}}


def test_a_job_without_arguments_has_none() -> None:
    for pool in ({}, {"containerSpec": {"imageUri": "x", "args": ["--lr=1"]}}):
        job = from_document(CustomJob, {"jobSpec": {"workerPoolSpecs": [pool]}})
        assert compared_job(job, None) == {"args": {"lr": 1} if pool else {}, "metrics": {}}
    assert compared_job(from_document(CustomJob, {}), None) == {"args": {}, "metrics": {}}


def test_words_before_the_first_flag_and_the_study_are_part_of_a_setup() -> None:
    def setup(message: type[Any], spec: str, words: list[str], **more: Any) -> dict[str, Any]:
        pools = [{"pythonPackageSpec": {"args": words}}]
        found: dict[str, Any] = side_of(
            from_document(message, {spec: {"workerPoolSpecs": pools}, **more}), None
        )
        return dict(found["setup"])

    assert (
        setup(CustomJob, "jobSpec", ["small", "x.csv", "--lr", "1", "y"])["positional arguments"]
        == "small x.csv"
    )
    space = {"parameterId": "lr", "doubleValueSpec": {"minValue": 0.1, "maxValue": 1.0}}
    study = {"parameters": [space], "algorithm": "RANDOM_SEARCH"}
    found = setup(HyperparameterTuningJob, "trialJobSpec", [], studySpec=study, maxTrialCount=3)
    assert (found["trials"], found["algorithm"]) == (3, "RANDOM_SEARCH")
    assert found["parameter.lr"] == '{"doubleValueSpec": {"minValue": 0.1, "maxValue": 1.0}}'
