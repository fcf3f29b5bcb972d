from __future__ import annotations

from typing import Any

import pytest

from vtrain.errors import ConfigError, UsageError, VtrainError
from vtrain.messages.codec import read_message
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.paths import assign


def assigned(assignment: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
    target: dict[str, Any] = document if document is not None else {"jobSpec": {}}
    assign(target, assignment)
    read_message(CustomJob, target)
    return target


@pytest.mark.parametrize(
    ("assignment", "document"),
    [
        ("displayName=a=b", {"displayName": "a=b", "jobSpec": {}}),
        ("scheduling.strategy=SPOT", {"jobSpec": {"scheduling": {"strategy": "SPOT"}}}),
        ("jobSpec.scheduling.strategy=SPOT", {"jobSpec": {"scheduling": {"strategy": "SPOT"}}}),
        ("scheduling.disableRetries=true", {"jobSpec": {"scheduling": {"disableRetries": True}}}),
        ("network=123", {"jobSpec": {"network": "123"}}),
        ("network=", {"jobSpec": {"network": ""}}),
        ("labels.team=ml", {"labels": {"team": "ml"}, "jobSpec": {}}),
        ("labels={a: b}", {"labels": {"a": "b"}, "jobSpec": {}}),
        (
            "workerPoolSpecs[0].machineSpec.machineType=n1-standard-8",
            {"jobSpec": {"workerPoolSpecs": [{"machineSpec": {"machineType": "n1-standard-8"}}]}},
        ),
        ("workerPoolSpecs[0].replicaCount=2", {"jobSpec": {"workerPoolSpecs": [{"replicaCount": 2}]}}),
        (
            "workerPoolSpecs[0].pythonPackageSpec.args=[--rate, '0.1']",
            {"jobSpec": {"workerPoolSpecs": [{"pythonPackageSpec": {"args": ["--rate", "0.1"]}}]}},
        ),
        (
            "workerPoolSpecs[0].containerSpec.args[0]=--x",
            {"jobSpec": {"workerPoolSpecs": [{"containerSpec": {"args": ["--x"]}}]}},
        ),
        ("workerPoolSpecs[0]={replicaCount: 1}", {"jobSpec": {"workerPoolSpecs": [{"replicaCount": 1}]}}),
    ],
)
def test_reaches_every_field(assignment: str, document: dict[str, Any]) -> None:
    assert assigned(assignment) == document


def test_changes_one_field_and_keeps_the_others() -> None:
    document = {"jobSpec": {"scheduling": {"timeout": "60s"}, "workerPoolSpecs": [{"replicaCount": "1"}, {}]}}
    assigned("workerPoolSpecs[1].replicaCount=3", document)
    assigned("scheduling.strategy=SPOT", document)
    assert document["jobSpec"] == {
        "scheduling": {"timeout": "60s", "strategy": "SPOT"},
        "workerPoolSpecs": [{"replicaCount": "1"}, {"replicaCount": 3}],
    }


@pytest.mark.parametrize(
    ("assignment", "error", "words"),
    [
        ("scheduling", UsageError, "expected PATH=VALUE"),
        ("=5", UsageError, "expected PATH=VALUE"),
        ("schedulin.strategy=SPOT", ConfigError, "schedulin"),
        ("scheduling.strategi=SPOT", ConfigError, "scheduling.strategi"),
        ("scheduling.strategy.x=1", ConfigError, "nothing lies below"),
        ("workerPoolSpecs.machineSpec=1", ConfigError, "is a list"),
        ("workerPoolSpecs[2].replicaCount=1", ConfigError, "next index is 0"),
        ("workerPoolSpecs[0].machineSpec[1]=1", ConfigError, "workerPoolSpecs[0].machineSpec"),
        ("scheduling..x=1", ConfigError, "not a field name"),
        ("scheduling.disableRetries=maybe", ConfigError, "true or false"),
        ("workerPoolSpecs[0].replicaCount=two", ConfigError, "whole number"),
        ("scheduling={strategy: SPOT, x: 1}", ConfigError, "x"),
        ("workerPoolSpecs[0=1", ConfigError, "not a field name"),
    ],
)
def test_refuses_what_the_api_does_not_have(assignment: str, error: type[VtrainError], words: str) -> None:
    with pytest.raises(error) as caught:
        assigned(assignment)
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("first", "then", "place"),
    [
        ("jobSpec=", "scheduling.timeout=60s", {"jobSpec": {"scheduling": {"timeout": "60s"}}}),
        (
            "workerPoolSpecs=",
            "workerPoolSpecs[0].replicaCount=1",
            {"jobSpec": {"workerPoolSpecs": [{"replicaCount": 1}]}},
        ),
        ("labels=", "labels.a=b", {"labels": {"a": "b"}}),
    ],
)
def test_what_was_emptied_is_filled_again(first: str, then: str, place: dict[str, object]) -> None:
    document: dict[str, object] = {}
    assign(document, first)
    assign(document, then)
    assert document == place


@pytest.mark.parametrize(
    "assignment", ["jobSpec=1", "jobSpec=[]", "workerPoolSpecs={a: 1}", "workerPoolSpecs=[x]", "labels=7"]
)
def test_a_value_of_another_type_is_refused(assignment: str) -> None:
    with pytest.raises(ConfigError, match=f"--set {assignment.partition('=')[0]}: "):
        assign({}, assignment)


def test_below_another_value_nothing_is_set() -> None:
    document: dict[str, object] = {}
    assign(document, "workerPoolSpecs={replicaCount: 1}")  # one value stands for a list of one
    with pytest.raises(ConfigError, match="nothing lies below"):
        assign(document, "workerPoolSpecs[0].replicaCount=1")
