"""What is declared as not reproduced: every field that is set and has no effect here, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from vtrain.messages.codec import read_message
from vtrain.messages.custom_job import CustomJob
from vtrain.runtime.notices import (
    CONTAINER_POOL_FIELDS,
    PROCESS_POOL_FIELDS,
    declaration,
    not_reproduced,
    notes_on,
    without_consequence,
)

TASK = {"containerSpec": {"imageUri": "example.com/i"}}


def job_of(*pools: dict[str, Any], **fields: Any) -> CustomJob:
    """A job whose pools have these fields beside their task."""
    specs = [TASK | pool if pool is not None else {} for pool in pools or ({},)]
    encryption = {"encryptionSpec": fields.pop("encryptionSpec")} if "encryptionSpec" in fields else {}
    return read_message(
        CustomJob, {"displayName": "d", "jobSpec": {"workerPoolSpecs": specs} | fields} | encryption
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ()),
        ({"network": "projects/1/global/networks/n"}, ("network",)),
        ({"serviceAccount": "a@b"}, ("serviceAccount",)),
        ({"tensorboard": "projects/1/locations/r/tensorboards/1"}, ("tensorboard",)),
        ({"encryptionSpec": {"kmsKeyName": "k"}}, ("encryptionSpec",)),
        ({"scheduling": {"strategy": "FLEX_START"}}, ("scheduling.strategy FLEX_START",)),
        (
            {"scheduling": {"strategy": "FLEX_START", "maxWaitDuration": "60s"}},
            ("scheduling.strategy FLEX_START", "scheduling.maxWaitDuration"),
        ),
        ({"scheduling": {"strategy": "SPOT"}}, ()),
        ({"scheduling": {"timeout": "60s", "restartJobOnWorkerRestart": True}}, ()),
        ({"scheduling": {"disableRetries": True}}, ()),
    ],
)
def test_fields_of_the_job(fields: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert not_reproduced(job_of(**fields), CONTAINER_POOL_FIELDS) == expected
    assert not_reproduced(job_of(**fields), PROCESS_POOL_FIELDS) == expected


def test_fields_of_pools_are_named_with_all_their_pools() -> None:
    mount = {"nfsMounts": [{"server": "10.0.0.1", "path": "/x", "mountPoint": "x"}]}
    job = job_of(
        mount | {"machineSpec": {"machineType": "n1-standard-4"}},
        {"diskSpec": {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 100}},
        mount | {"diskSpec": {"bootDiskType": "pd-standard", "bootDiskSizeGb": 200}},
        mount,
    )
    declared = (
        "nfsMounts of workerPoolSpecs[0], [2] and [3]",
        "bootDiskType of workerPoolSpecs[2]",
        "bootDiskSizeGb of workerPoolSpecs[2]",
    )
    assert not_reproduced(job, CONTAINER_POOL_FIELDS) == declared
    assert not_reproduced(job, PROCESS_POOL_FIELDS) == ("machineType of workerPoolSpecs[0]", *declared)
    assert declaration(declared) == (
        "Not reproduced here: nfsMounts of workerPoolSpecs[0], [2] and [3], "
        "bootDiskType of workerPoolSpecs[2], bootDiskSizeGb of workerPoolSpecs[2]."
    )


@pytest.mark.parametrize(
    ("fields", "memory_is_given", "told"),
    [
        (
            {"scheduling": {"maxWaitDuration": "60s"}},
            False,
            (
                "machineType of workerPoolSpecs[0]: only its memory counts here, for the queue.",
                "bootDiskSizeGb of workerPoolSpecs[0], scheduling.maxWaitDuration have no effect on the "
                "backend process.",
            ),
        ),
        (
            {"enableDashboardAccess": True},
            True,
            (
                "machineType of workerPoolSpecs[0], bootDiskSizeGb of workerPoolSpecs[0] have no effect on "
                "the backend process.",
                "enableDashboardAccess: only AIP_DASHBOARD_PORT is set.",
            ),
        ),
        (
            {"persistentResourceId": "r"},
            False,
            (
                "machineType of workerPoolSpecs[0], bootDiskSizeGb of workerPoolSpecs[0]: only a slot of the "
                "persistent resource is chosen by it.",
            ),
        ),
    ],
)
def test_a_note_says_what_is_left_of_a_field(
    fields: dict[str, Any], memory_is_given: bool, told: tuple[str, ...]
) -> None:
    machine = {"machineSpec": {"machineType": "n1-standard-4"}, "diskSpec": {"bootDiskSizeGb": 500}}
    job = job_of(machine, **fields)
    harmless, _ = without_consequence(not_reproduced(job, PROCESS_POOL_FIELDS))
    notes = notes_on(harmless, job.job_spec, "process", memory_is_given=memory_is_given)
    assert tuple(notes) == told


def test_a_machine_type_without_known_memory_has_no_effect() -> None:
    job = job_of({"machineSpec": {"machineType": "no-such"}})
    (note,) = notes_on(
        not_reproduced(job, PROCESS_POOL_FIELDS), job.job_spec, "process", memory_is_given=False
    )
    assert note == "machineType of workerPoolSpecs[0] has no effect on the backend process."
