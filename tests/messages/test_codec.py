from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from lib.job_strategies import messages

from vtrain.errors import ConfigError
from vtrain.messages.codec import from_document, read_message, to_document
from vtrain.messages.custom_job import (
    CustomJob,
    CustomJobSpec,
    MachineSpec,
    Scheduling,
    WorkerPoolSpec,
)
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, StudySpec
from vtrain.messages.rules import check_formats
from vtrain.messages.service_documents import canonical_document


@given(messages(CustomJob))
def test_a_job_survives_json_whoever_reads_it(job: CustomJob) -> None:
    document = json.loads(json.dumps(to_document(job)))
    assert read_message(CustomJob, document) == job
    assert from_document(CustomJob, document) == job


@given(messages(CustomJobSpec))
def test_a_document_holds_no_null(spec: CustomJobSpec) -> None:
    def walk(value: Any) -> None:
        assert value is not None
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            walk(item)

    walk(to_document(spec))


def test_numbers_stand_as_proto3_json_has_them() -> None:
    pool = WorkerPoolSpec(replica_count=2, machine_spec=MachineSpec(accelerator_count=4))
    assert to_document(pool) == {"replicaCount": "2", "machineSpec": {"acceleratorCount": 4}}


def test_a_placeholder_pool_keeps_its_place() -> None:
    spec = CustomJobSpec(
        worker_pool_specs=(WorkerPoolSpec(replica_count=1), WorkerPoolSpec(), WorkerPoolSpec())
    )
    assert to_document(spec)["workerPoolSpecs"] == [{"replicaCount": "1"}, {}, {}]


def test_one_value_where_a_list_belongs_is_a_list_of_one() -> None:
    spec = read_message(CustomJobSpec, {"workerPoolSpecs": {"pythonPackageSpec": {"args": "--fast"}}})
    python = spec.worker_pool_specs[0].python_package_spec
    assert python is not None and python.args == ("--fast",)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"replicaCount": "3"}, 3),
        ({"replicaCount": 3}, 3),
        ({"replicaCount": None}, 0),
    ],
)
def test_whole_numbers_may_be_text(document: dict[str, Any], expected: int) -> None:
    assert read_message(WorkerPoolSpec, document).replica_count == expected


@pytest.mark.parametrize("word", ["y", "yes", "on", "On", True])
def test_switches_know_the_words_of_yaml_1_1(word: object) -> None:
    assert read_message(Scheduling, {"restartJobOnWorkerRestart": word}).restart_job_on_worker_restart


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"workerPoolSpec": []}, "workerPoolSpec: ", "workerPoolSpecs"),
    ({"worker_pool_specs": []}, "worker_pool_specs: ", "workerPoolSpecs"),
    (
        {"workerPoolSpecs": [{}, {"machineSpec": {"machinetype": "n1"}}]},
        "workerPoolSpecs[1].machineSpec.machinetype",
        "machineType",
    ),
    (
        {"scheduling": {"timeout": 3600}},
        'scheduling.timeout: expected a duration in seconds such as "3600s"',
        "",
    ),
    ({"scheduling": {"strategy": True}}, "scheduling.strategy: expected a string", ""),
    ({"network": 5}, "network: expected a string, found 5", "quotes"),
    ({"enableWebAccess": "maybe"}, "enableWebAccess: expected true or false", ""),
    ({"enableWebAccess": "true"}, "enableWebAccess: expected true or false", ""),
    ({"workerPoolSpecs": [None]}, "workerPoolSpecs[0]: expected a mapping", ""),
    (
        {"workerPoolSpecs": [{"replicaCount": 1.5}]},
        "workerPoolSpecs[0].replicaCount: expected a whole number",
        "",
    ),
    (
        {"workerPoolSpecs": [{"replicaCount": "٣"}]},
        "workerPoolSpecs[0].replicaCount: expected a whole number",
        "",
    ),
    (
        {"workerPoolSpecs": [{"replicaCount": True}]},
        "workerPoolSpecs[0].replicaCount: expected a whole number",
        "",
    ),
    (
        {"workerPoolSpecs": ["n1"]},
        "workerPoolSpecs[0]: expected a mapping of WorkerPoolSpec fields, found 'n1'",
        "",
    ),
    ({"scheduling": []}, "scheduling: expected a mapping of Scheduling fields, found a list", ""),
    ({"reservedIpRanges": [["a"]]}, "reservedIpRanges[0]: expected a string, found a list", ""),
]


@pytest.mark.parametrize(("document", "message", "hint"), REFUSED, ids=[row[1][:40] for row in REFUSED])
def test_a_bad_field_is_refused_with_its_path_and_the_nearest_name(
    document: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_message(CustomJobSpec, document)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_name_like_none_is_answered_with_all_there_are() -> None:
    with pytest.raises(ConfigError) as caught:
        read_message(Scheduling, {"zzz": 1})
    assert "disableRetries, maxWaitDuration" in caught.value.hint


def test_a_field_name_that_is_not_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="no field"):
        read_message(CustomJobSpec, {5: 1})


def test_an_enum_may_be_given_by_number() -> None:
    """One that vtrain has no name for stays a number: the service may know it."""
    for number, kept in ((4, "SPOT"), (0, "STRATEGY_UNSPECIFIED"), (99, 99)):
        spec = read_message(Scheduling, {"strategy": number})
        assert to_document(spec) == {"strategy": kept}
    with pytest.raises(ConfigError, match=r"algorithm: expected one of .* found 1"):
        read_message(StudySpec, {"algorithm": 1})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            {"scheduling": {"timeout": "1h"}},
            'scheduling.timeout: expected a duration in seconds such as "3600s"',
        ),
        ({"scheduling": {"timeout": "315576000001s"}}, "scheduling.timeout: expected a duration of at most"),
        ({"scheduling": {"timeout": "٣s"}}, "scheduling.timeout: expected a duration in seconds"),
        ({"scheduling": {"strategy": "spot"}}, "scheduling.strategy: expected a name in capitals"),
        ({"workerPoolSpecs": [{"replicaCount": 2**63}]}, "workerPoolSpecs[0].replicaCount: expected a whole"),
        (
            {"workerPoolSpecs": [{"diskSpec": {"bootDiskSizeGb": 2**31}}]},
            "workerPoolSpecs[0].diskSpec.bootDiskSizeGb: expected a whole number of 32 bits",
        ),
    ],
)
def test_values_that_no_field_can_hold_are_read_and_told(document: dict[str, Any], message: str) -> None:
    spec = read_message(CustomJobSpec, document)
    with pytest.raises(ConfigError) as caught:
        check_formats(spec)
    assert message in caught.value.message


def test_a_document_of_the_service_is_shown_as_proto3_json_has_it() -> None:
    pool = {"replicaCount": 3, "machineSpec": {"acceleratorCount": "2"}, "containerSpec": {"args": []}}
    document = {"labels": {}, "state": None, "jobSpec": {"workerPoolSpecs": [pool]}, "newer": [1, None, []]}
    assert canonical_document(CustomJob, document) == {
        "labels": {},
        "jobSpec": {
            "workerPoolSpecs": [
                {"replicaCount": "3", "machineSpec": {"acceleratorCount": 2}, "containerSpec": {}}
            ]
        },
        "newer": [1, None, []],
    }
    trial = {"parameters": [{"parameterId": "n", "value": 1}]}
    trial["finalMeasurement"] = {"stepCount": 10, "metrics": [{"metricId": "loss", "value": 1}]}
    shown = canonical_document(HyperparameterTuningJob, {"trials": [trial]})
    assert json.dumps(shown["trials"][0]) == json.dumps(
        {
            "parameters": [{"parameterId": "n", "value": 1}],
            "finalMeasurement": {"stepCount": "10", "metrics": [{"metricId": "loss", "value": 1.0}]},
        }
    )
