"""What `custom-jobs environment` tells is what the replicas of the same job then see."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from vtrain.messages.yaml_reader import load_yaml

DUMP = """
import json, os, pathlib, sys, time
folder = pathlib.Path(os.environ["AIP_MODEL_DIR"].replace("gs://", "/gcs/"))
task = json.loads(os.environ["CLUSTER_SPEC"])["task"]
unfinished = folder / f"{task['type']}-{task['index']}.part"
unfinished.write_text(json.dumps({"env": dict(os.environ), "argv": sys.argv[1:]}))
unfinished.rename(unfinished.with_suffix(".json"))
while len(list(folder.glob("*.json"))) < 3:
    time.sleep(0.05)
"""
"""Each writes down what it sees, and waits for the others."""
REPLICAS = ("workerpool0-0", "workerpool2-0", "workerpool2-1")
ARGS = ["--a=b c", "$(RANK)", ""]
ENV = [
    {"name": "OWN", "value": "$(CLOUD_ML_JOB_ID)/$(RANK)/$(OTHER)/$$(RANK)"},
    {"name": "CLOUD_ML_REGION", "value": "moon"},
]


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VTRAIN_GRACE_SECONDS", "1")


def config(file: Path, task: dict[str, Any]) -> str:
    """A job of three replicas in the first and the third pool, in a file."""
    pools = [task, {}, {"replicaCount": 2, **task}]
    output = {"outputUriPrefix": "gs://models/run"}
    file.write_text(json.dumps({"workerPoolSpecs": pools, "baseOutputDirectory": output}))
    return f"--config={file}"


def expect_truth(vtrain: Any, home: Path, flags: tuple[str, ...]) -> None:
    told = [load_yaml(environment(vtrain, *flags, f"--replica={name}"), "stdout") for name in REPLICAS]
    ran = vtrain("custom-jobs", "create", *flags, "--display-name=demo", "--wait", "--format=value(name)")
    assert ran.code == 0, ran.err
    job_id = ran.out.strip().rpartition("/")[2]
    for replica in told:
        file = home / "buckets" / "models" / "run" / "model" / f"{replica['replica']}.json"
        seen = json.loads(file.read_text())
        assert replica["command"][-len(ARGS) :] == ARGS == seen["argv"]
        for name, value in replica["env"].items():
            assert anonymous(seen["env"][name], job_id) == anonymous(value, "0" * 19), name


def environment(vtrain: Any, *flags: str) -> str:
    ended = vtrain("custom-jobs", "environment", *flags)
    assert ended.code == 0, ended.err
    return str(ended.out)


def anonymous(value: str, job_id: str) -> str:
    """Without what is only known when the job runs: its id, hosts made of it, ports that were free."""
    value = value.replace(job_id, "JOB")
    value = re.sub(r"(?<=cmle-training-workerpool\d-)[0-9a-f]{10}", "HASH", value)
    return re.sub(r'(?<=127\.0\.0\.1:)\d+|(?<="open_ports":\[)\d+|^\d{4,5}$', "PORT", value)


def test_of_processes(vtrain: Any, vtrain_home: Path, tmp_path: Path) -> None:
    (tmp_path / "dump.py").write_text(DUMP)
    env = [*ENV, {"name": "PYTHONPATH", "value": str(tmp_path)}]
    task = {"pythonPackageSpec": {"pythonModule": "dump", "args": ARGS, "env": env}}
    expect_truth(vtrain, vtrain_home, (config(tmp_path / "job.yaml", task), "--backend=process"))


@pytest.mark.docker
def test_of_containers(vtrain: Any, vtrain_home: Path, tmp_path: Path, base_image: str) -> None:
    program = {"command": ["python3", "-c", DUMP], "args": ARGS, "env": ENV}
    task = {"containerSpec": {"imageUri": base_image, **program}}
    expect_truth(vtrain, vtrain_home, (config(tmp_path / "job.yaml", task), "--backend=docker"))
