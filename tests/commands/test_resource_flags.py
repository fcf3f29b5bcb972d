"""Flags and the file of a persistent resource. The rules are gcloud's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lib.tables import rows

from vtrain.commands.persistent_resources import ResourceDraft, check_given, compose_resource
from vtrain.errors import ConfigError, UsageError
from vtrain.flags.job_options import PersistentResourceFlags
from vtrain.messages.codec import to_document

POOL = "machine-type=n1-standard-4,replica-count=2"
FILE = "resourcePools: [{id: p0, machineSpec: {machineType: n1}, replicaCount: 1}]"


def drafted(*pools: str, **flags: Any) -> ResourceDraft:
    given = {"persistent_resource_id": "pr-1", "resource_pool_spec": list(pools), **flags}
    check_given(PersistentResourceFlags(**given))
    return compose_resource(PersistentResourceFlags(**given), "demo")


def pools_of(draft: ResourceDraft) -> list[dict[str, Any]]:
    pools: list[dict[str, Any]] = to_document(draft.resource)["resourcePools"]
    return pools


@pytest.fixture
def config(tmp_path: Path) -> Any:
    def write(content: str) -> str:
        file = tmp_path / "resource.yaml"
        file.write_text(content)
        return str(file)

    return write


N1: dict[str, Any] = {"machineSpec": {"machineType": "n1"}}
A100 = {"machineType": "a2", "acceleratorType": "NVIDIA_TESLA_A100", "acceleratorCount": 2}
GPU = "accelerator-type=NVIDIA_TESLA_A100,accelerator-count=2"
SSD: dict[str, Any] = {"bootDiskType": "pd-ssd"}


@pytest.mark.parametrize(
    ("pool", "document"),
    [
        (POOL, {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "2"}),
        (f"machine-type=a2,replica-count=1,{GPU}", {"machineSpec": A100, "replicaCount": "1"}),
        (
            "machine-type=n1,min-replica-count=5,max-replica-count=2",
            N1 | {"autoscalingSpec": {"minReplicaCount": "5", "maxReplicaCount": "2"}},
        ),
        (
            "machine-type=n1,replica-count=-3,min-replica-count=0,max-replica-count=0",
            N1 | {"replicaCount": "-3"},
        ),
        ("machine-type=n1,replica-count=0,disk-type=pd-ssd", N1 | {"diskSpec": SSD}),
        (
            "machine-type=n1,replica-count=1,replica-count=2,disk-type=pd-ssd,disk-size=300",
            N1 | {"replicaCount": "2", "diskSpec": SSD | {"bootDiskSizeGb": 300}},
        ),
        (
            "machine-type=n1,replica-count=1,accelerator-type=,accelerator-count=2",
            N1 | {"replicaCount": "1"},
        ),
    ],
)
def test_a_pool_becomes_a_resource_pool(pool: str, document: dict[str, Any]) -> None:
    draft = drafted(pool)
    assert pools_of(draft) == [document]
    assert draft.warnings == ()


@pytest.mark.parametrize("key", ["disk-size", "local-ssd-count"])
def test_a_key_without_effect_is_said(key: str) -> None:
    draft = drafted(f"{POOL},{key}=300")
    assert pools_of(draft) == pools_of(drafted(POOL))
    assert [key in warning for warning in draft.warnings] == [True]


@pytest.mark.parametrize(
    "pool",
    [
        "",
        "replica-count=1",
        "machine-type=n1",
        "machine-type=n1,min-replica-count=1",
        "machine-type=n1,max-replica-count=1,replica-count=1",
        f"{POOL},accelerator-type=NVIDIA_L4",
        f"{POOL},accelerator-count=1",
        f"{POOL},accelerator-type=TPU_V2,accelerator-count=1",
        f"{POOL},accelerator-type=nvidia-l4,accelerator-count=1",
    ],
)
def test_a_pool_that_breaks_a_rule_is_refused_wherever_it_stands(pool: str) -> None:
    with pytest.raises(ConfigError, match="pool 0"):
        drafted(pool)
    with pytest.raises(ConfigError, match="pool 1"):
        drafted(POOL, pool)


@pytest.mark.parametrize(
    "pool", ["machine-type", "=1", "machine_type=n1", f"{POOL},disk-size=big", "replica-count=1.5"]
)
def test_a_pool_that_does_not_parse_is_refused(pool: str) -> None:
    with pytest.raises(UsageError):
        drafted(pool)


def test_pools_of_the_file_come_before_those_of_flags(config: Any) -> None:
    draft = drafted(POOL, config=config(FILE))
    assert [pool["machineSpec"]["machineType"] for pool in pools_of(draft)] == ["n1", "n1-standard-4"]
    assert pools_of(draft)[0]["id"] == "p0"


def test_of_the_file_only_the_pools_count(config: Any) -> None:
    draft = drafted(config=config(f"{FILE}\ndisplayName: a\nlabels: {{x: z}}\nstate: SOMEHOW\nnew: 1"))
    assert list(to_document(draft.resource)) == ["resourcePools"]
    assert [name in draft.warnings[0] for name in ("displayName", "labels", "state", "new")] == [True] * 4


def test_one_pool_needs_no_list(config: Any) -> None:
    draft = drafted(config=config("resourcePools: {machineSpec: {machineType: n1}, replicaCount: '1'}"))
    assert pools_of(draft) == [{"machineSpec": {"machineType": "n1"}, "replicaCount": "1"}]


WRONG_POOLS = rows(
    """
    {} | machineSpec.machineType
    {$N1} | replicaCount
    {$N1, replicaCount: x} | replicaCount
    {$N1, replicaCount: 9223372036854775808} | replicaCount
    {$N1, autoscalingSpec: {minReplicaCount: -2, maxReplicaCount: 3}} | minReplicaCount
    {$N1, autoscalingSpec: {maxReplicaCount: 3}} | autoscalingSpec
    {$N1, autoscalingSpec: {minReplicaCount: 0, maxReplicaCount: 3}} | autoscalingSpec
    {$N1, autoscalingSpec: {minReplicaCount: 3, maxReplicaCount: 3}} | minReplicaCount
    {$N1, replicaCount: 4, autoscalingSpec: {minReplicaCount: 1, maxReplicaCount: 3}} | replicaCount
    {machineSpec: {machineType: n1, acceleratorCount: 1}, replicaCount: 1} | acceleratorCount
    {machineSpec: {machineType: n1, acceleratorType: TPU_V2}, replicaCount: 1} | acceleratorType
    {$N1, replicaCount: 1, diskSpec: {bootDiskSizeGb: 200}} | bootDiskSizeGb
    """,
    2,
    N1="machineSpec: {machineType: n1}",
)


@pytest.mark.parametrize(("pool", "path"), WRONG_POOLS)
def test_a_pool_of_the_file_is_refused_with_its_path(config: Any, pool: str, path: str) -> None:
    with pytest.raises(ConfigError, match=rf"resource.yaml:\d+: resourcePools\[0\].*{path}"):
        drafted(config=config(f"resourcePools: [{pool}]"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "found nothing"),
        pytest.param("[" * 300 + "]" * 300, "nested deeper than 100 levels", id="deep"),
        ("[1]", "expected the fields"),
        ("displayName: q", "at least one pool"),
        ("resourcePools: []", "at least one pool"),
        ("resourcePools: 5", "resourcePools"),
        (f"{FILE}\ndisplayName: 5", "displayName"),
    ],
)
def test_a_file_without_pools_is_refused_though_flags_have_some(
    config: Any, content: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        drafted(POOL, config=config(content))


def test_flags_say_everything_else() -> None:
    draft = drafted(
        POOL,
        display_name="machines",
        network="n",
        labels=["b=2,a=1"],
        kms_key="projects/p/locations/l/keyRings/r/cryptoKeys/k",
        enable_custom_service_account=True,
    )
    document = to_document(draft.resource)
    del document["resourcePools"]
    assert document == {
        "displayName": "machines",
        "network": "n",
        "labels": {"a": "1", "b": "2"},
        "encryptionSpec": {"kmsKeyName": "projects/p/locations/l/keyRings/r/cryptoKeys/k"},
        "resourceRuntimeSpec": {"serviceAccountSpec": {"enableCustomServiceAccount": True}},
    }


def test_what_gcloud_requires_is_required() -> None:
    with pytest.raises(UsageError, match="--persistent-resource-id"):
        drafted(POOL, persistent_resource_id=None)
    with pytest.raises(UsageError, match="machines"):
        drafted()
    with pytest.raises(ConfigError, match="--config"):
        drafted(config="")
