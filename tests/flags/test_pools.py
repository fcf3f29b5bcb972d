from __future__ import annotations

from typing import Any

import pytest

from vtrain.core.compose import check_executors
from vtrain.errors import ConfigError, UsageError
from vtrain.flags.request import check_pools, parse_pools, pools_document

CONTAINER = "machine-type=n1-standard-4,container-image-uri=gcr.io/p/i"
PYTHON = "machine-type=n1,executor-image-uri=gcr.io/p/e,python-module=trainer.task"
PACKAGED = "machine-type=n1,executor-image-uri=gcr.io/p/e,local-package-path=.,python-module=trainer.task"


def check(*values: str, executor_required: bool = True) -> None:
    pools = parse_pools(values)
    check_pools(pools)
    if executor_required:
        check_executors(pools_document(pools), packaged="local-package-path" in pools[0])


@pytest.mark.parametrize(
    ("value", "document"),
    [
        (
            CONTAINER,
            {
                "machineSpec": {"machineType": "n1-standard-4"},
                "replicaCount": 1,
                "containerSpec": {"imageUri": "gcr.io/p/i"},
            },
        ),
        (
            PYTHON + ",replica-count=3,accelerator-type=NVIDIA_L4",
            {
                "machineSpec": {"machineType": "n1", "acceleratorType": "NVIDIA_L4", "acceleratorCount": 1},
                "replicaCount": 3,
                "pythonPackageSpec": {"executorImageUri": "gcr.io/p/e", "pythonModule": "trainer.task"},
            },
        ),
    ],
)
def test_a_pool_becomes_a_worker_pool_spec(value: str, document: dict[str, Any]) -> None:
    assert pools_document(parse_pools([value, ""])) == [document, {}]


def test_lists_inside_a_pool_split_on_semicolons_or_their_own_delimiter() -> None:
    pool = parse_pools(["requirements=a==1;b>=2,extra-dirs=^:^x;y:z"])[0]
    assert pool == {"requirements": ("a==1", "b>=2"), "extra-dirs": ("x;y", "z")}


@pytest.mark.parametrize(
    "values",
    [
        (CONTAINER,),
        (CONTAINER, "", PYTHON),
        (PACKAGED, "machine-type=n1,replica-count=2"),
        (CONTAINER + ",output-image-uri=x",),
        (CONTAINER + ",accelerator-type=TPU_V2,accelerator-count=8",),
        ("machine-type=,container-image-uri=i",),
    ],
)
def test_gclouds_rules_allow(values: tuple[str, ...]) -> None:
    check(*values)


def test_local_backends_need_no_executor_image() -> None:
    check("machine-type=n1,python-module=m", executor_required=False)
    check("machine-type=n1,local-package-path=.,script=a.py", executor_required=False)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (("", CONTAINER), "pool 0 may not be empty"),
        (("container-image-uri=i",), "pool 0 needs machine-type"),
        ((CONTAINER, "container-image-uri=i"), "pool 1 needs machine-type"),
        ((CONTAINER + ",accelerator-count=2",), "accelerator-count without accelerator-type"),
        ((CONTAINER + ",accelerator-type=nvidia-l4",), "unknown accelerator-type, 'nvidia-l4'"),
        (("machine-type=n1",), "exactly one of executor-image-uri and container-image-uri"),
        ((PYTHON + ",container-image-uri=i",), "exactly one of executor-image-uri and container-image-uri"),
        ((CONTAINER + ",python-module=m",), "python-module"),
        (("machine-type=n1,executor-image-uri=e",), "needs python-module"),
        ((CONTAINER + ",requirements=a",), "requirements, which go with local-package-path only"),
        ((PYTHON + ",script=a.py",), "script"),
        ((PACKAGED + ",script=a.py",), "exactly one of python-module and script"),
        (
            ("machine-type=n1,executor-image-uri=e,local-package-path=.",),
            "exactly one of python-module and script",
        ),
        (("machine-type=n1,local-package-path=.,script=a.py",), "needs executor-image-uri"),
        ((PACKAGED, PYTHON), "pool 1 has executor-image-uri, python-module"),
        ((CONTAINER, PACKAGED), "pool 1 has local-package-path"),
    ],
)
def test_gclouds_rules_refuse(values: tuple[str, ...], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check(*values)
    assert words in caught.value.message


def test_an_accelerator_in_small_letters_is_suggested_in_capitals() -> None:
    with pytest.raises(ConfigError) as caught:
        check(CONTAINER + ",accelerator-type=nvidia-tesla-t4")
    assert caught.value.hint == "Did you mean NVIDIA_TESLA_T4?"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("machine_type=n1", "there is no key 'machine_type'"),
        ("machine-type", "expected KEY=VALUE"),
        ("machine-type=n1, replica-count=2", "there is no key ' replica-count'"),
        ("replica-count=two", "replica-count: expected a whole number, found 'two'"),
        ("accelerator-count=", "accelerator-count: expected a whole number"),
    ],
)
def test_what_does_not_parse_is_exit_2(value: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_pools([value])
    assert words in caught.value.message


def test_empty_values_are_none() -> None:
    value = "machine-type=,accelerator-type=,container-image-uri="
    check(value)
    assert pools_document(parse_pools([value])) == [{"machineSpec": {"machineType": ""}, "replicaCount": 1}]


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("machine-type=n1", "container-image-uri=IMAGE"),
        ("machine-type=n1,local-package-path=.,script=a.py", "executor-image-uri=IMAGE"),
        ("machine-type=n1,local-package-path=.,executor-image-uri=i", "script=FILE"),
    ],
)
def test_what_to_write_is_told(value: str, hint: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        check(value)
    assert hint in refusal.value.hint
