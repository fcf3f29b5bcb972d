"""The recorded lines of AI Platform: those that gcloud refused are refused, the others are explained."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest

from vtrain.ai_platform.tables import MACHINES, SCALE_TIERS
from vtrain.messages.yaml_reader import load_yaml

DIFFERENCES = {
    "mlsubmit.network-ga": "--network is taken on every track",
    "mlsubmit.package-path-setup-fails": "packages are made when the job is submitted, and not to explain it",
    "mlsubmit.upload-403": "the bucket decides that, and the file is no package",
    "mlsubmit.server-409": "a name may be given twice",
}
"""Recorded refusals that `--explain` does not make, and why."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A run of gcloud: its words, the files around it, its exit code, and the job that it sent."""

    id: str
    argv: tuple[str, ...]
    files: dict[str, str]
    exit_code: int
    body: dict[str, Any] = {}
    env: dict[str, str] = {}


def recorded(group: str) -> list[Recorded]:
    lines = Path(__file__).with_name("recorded.jsonl").read_text().splitlines()
    runs = [msgspec.json.decode(line, type=Recorded) for line in lines]
    return [run for run in runs if run.id.startswith(group)]


@pytest.fixture
def played(vtrain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Play a recorded run among its files."""

    def play(run: Recorded, *flags: str) -> Any:
        for name, content in run.files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        for name, value in run.env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        words = list(run.argv)
        place = words.index("--") if "--" in words else len(words)
        return vtrain(*words[:place], *flags, *words[place:])

    return play


@pytest.mark.parametrize("run", recorded("mlsubmit"), ids=lambda run: run.id)
def test_a_line_is_refused_or_explained_as_gcloud_took_it(
    played: Any, run: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUDSDK_CORE_PROJECT", "demo")
    ended = played(run, "--explain")
    if run.id in DIFFERENCES:
        assert (run.exit_code, ended.code) in ((1, 0), (2, 0))
        return
    assert ended.code == run.exit_code, ended.err
    if run.exit_code:
        assert ended.out == ""
        return
    command, _, text = ended.out.partition("\n")
    words = shlex.split(command.removeprefix("# "))
    assert words[:1] == ["vtrain"]
    missing = list(missing_fields(run.body, load_yaml(text, "explained"), words))
    assert not missing, f"{missing}\n{ended.out}"


def missing_fields(body: dict[str, Any], job: dict[str, Any], words: list[str]) -> Any:
    """The fields of a recorded request that do not stand in their new place."""
    given = dict(body["trainingInput"])
    spec = job.get("jobSpec") or job["trialJobSpec"]
    pools = spec["workerPoolSpecs"]
    checks = {
        "jobId": job["displayName"] == body["jobId"],
        "labels": job.get("labels", {}) == body.get("labels", {}),
        "enableWebAccess": spec.get("enableWebAccess", False) == given.pop("enableWebAccess"),
        "region": f"--region={given['region']}" in words or not given["region"],
    }
    del given["region"]
    tasks = [pool.get("pythonPackageSpec") or pool.get("containerSpec") for pool in pools]
    for name, value in given.items():
        if name in ("masterType", "workerType", "parameterServerType"):
            place = ("masterType", "workerType", "parameterServerType").index(name)
            expected = MACHINES[value].machine_type if value in MACHINES else value
            checks[name] = pools[place]["machineSpec"]["machineType"] == expected
        elif name in ("workerCount", "parameterServerCount"):
            checks[name] = pools[1 + (name != "workerCount")]["replicaCount"] == value
        elif name in ("masterConfig", "workerConfig", "parameterServerConfig"):
            place = ("masterConfig", "workerConfig", "parameterServerConfig").index(name)
            checks[name] = has_config(pools[place], value)
        elif name == "scaleTier":
            tier = SCALE_TIERS.get(value, ())
            machines = [pool.get("machineSpec", {}).get("machineType") for pool in pools]
            checks[name] = machines[: len(tier)] == [each.spec.machine_type for each in tier]
        elif name == "packageUris":
            local = any(word.startswith("--local-package-path=") for word in words)
            files = {Path(uri).name for task in tasks for uri in task.get("packageUris", ())}
            checks[name] = local or {Path(uri).name for uri in value} <= files
        elif name == "pythonModule":
            checks[name] = all(task["pythonModule"] == value for task in tasks)
        elif name == "args":
            checks[name] = all(task["args"][: len(value)] == value for task in tasks)
        elif name == "jobDir":
            checks[name] = spec["baseOutputDirectory"]["outputUriPrefix"] == value and all(
                task["args"][-2:] == ["--job-dir", value] for task in tasks
            )
        elif name == "encryptionConfig":
            checks[name] = job["encryptionSpec"] == value
        elif name in ("runtimeVersion", "pythonVersion"):
            checks[name] = all("vertex-ai/training/tf-" in task["executorImageUri"] for task in tasks)
        else:
            checks[name] = spec.get(name) == value
    return (name for name, holds in checks.items() if not holds)


def has_config(pool: dict[str, Any], config: dict[str, Any]) -> bool:
    """Whether a pool has the accelerators and the image of a role; a version of TensorFlow has no equal."""
    accelerator = config.get("acceleratorConfig")
    machine = pool["machineSpec"]
    if accelerator is not None:
        kind = accelerator["type"].replace("K80", "T4")
        if (machine["acceleratorType"], machine["acceleratorCount"]) != (kind, int(accelerator["count"])):
            return False
    return "imageUri" not in config or pool["containerSpec"]["imageUri"] == config["imageUri"]


@pytest.mark.child
@pytest.mark.parametrize(
    "run", [run for run in recorded("mltrain") if "PROBE_SLEEP" not in run.env], ids=lambda run: run.id
)
def test_a_package_is_trained_here_with_the_exit_code_of_gcloud(played: Any, run: Recorded) -> None:
    ended = played(run)
    if run.id == "mltrain.local-python":
        assert ended.code == 0  # vtrain has an interpreter of its own
        return
    assert ended.code == run.exit_code, ended.err
    assert ("stdout of single\n" in ended.out) == (run.exit_code == 0)


@pytest.mark.child
def test_a_cluster_has_the_roles_that_are_asked_for(played: Any) -> None:
    (run,) = (run for run in recorded("mltrain") if run.id == "mltrain.distributed-no-ps")
    files = {"trainer/__init__.py": "", "trainer/task.py": CLUSTER}
    ended = played(msgspec.structs.replace(run, files=files, env={}))
    assert ended.code == 0, ended.err
    roles = [json.loads(line.partition("TF ")[2]) for line in ended.out.splitlines() if "TF " in line]
    assert sorted((role["task"]["type"], role["task"]["index"]) for role in roles) == [
        ("chief", 0),
        ("worker", 0),
    ]


CLUSTER = """
import os, time
print("TF", os.environ["TF_CONFIG"], flush=True)
if '"type":"chief"' in os.environ["TF_CONFIG"].replace(" ", ""):
    time.sleep(3)
"""
