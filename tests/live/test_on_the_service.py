"""The cheap part of what every backend owes, and what replicas really see, on the service itself.

`nox -s live` runs this on Vertex AI; the usual run rehearses it on the emulator, so that it works on the
day it is needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live_place import Place

from vtrain.backends import JobBackend, Plan
from vtrain.errors import VtrainError
from vtrain.messages import states
from vtrain.messages.codec import to_document
from vtrain.messages.custom_job import (
    ContainerSpec,
    CustomJob,
    CustomJobSpec,
    EnvVar,
    MachineSpec,
    Scheduling,
    WorkerPoolSpec,
)
from vtrain.messages.log import LogQuery
from vtrain.messages.structs import GcsDestination
from vtrain.messages.training_pipeline import TrainingPipeline
from vtrain.messages.training_task import CUSTOM_TASK
from vtrain.messages.yaml_reader import load_yaml
from vtrain.testing import player
from vtrain.testing.contract import ReplicaContract
from vtrain.testing.script import Script

pytestmark = pytest.mark.end_to_end

IMAGE = "python:3.11-slim"
MACHINE = MachineSpec(machine_type="e2-standard-4")
TIMEOUT = "3600s"
"""How long a job may run and cost, should a test not come to its end."""
MARK = "VTRAIN SEES "
DUMP = f"""
import json, os, sys, time
print({MARK!r} + json.dumps(dict(os.environ)), flush=True)
time.sleep(float(sys.argv[1]) if os.environ.get("RANK", "0") == "0" else 3600)
"""
"""Replicas tell what they see; the primary ends last of all, so that the others have had their time."""
OF_THE_SERVICE = ("AIP_", "CLOUD_ML_", "CLUSTER_SPEC", "MASTER_", "RANK", "SEEN_", "TF_CONFIG", "WORLD_SIZE")
JOB_HASH = re.compile(r"(?<=cmle-training-workerpool\d-)[0-9a-f]{10}")


def job_of(place: Place, *pools: WorkerPoolSpec) -> CustomJob:
    output = GcsDestination(output_uri_prefix=f"{place.bucket}/vtrain-live")
    spec = CustomJobSpec(
        worker_pool_specs=pools, scheduling=Scheduling(timeout=TIMEOUT), base_output_directory=output
    )
    return CustomJob(display_name="vtrain-live", job_spec=spec)


def pool(code: str, *args: str, count: int = 1) -> WorkerPoolSpec:
    """A pool whose replicas run this code."""
    env = (EnvVar(name="SEEN_FROM", value="$(CLOUD_ML_REGION)/$$(RANK)/$(NOBODY)"),)
    task = ContainerSpec(image_uri=IMAGE, command=("python3", "-c", code), args=args, env=env)
    return WorkerPoolSpec(machine_spec=MACHINE, replica_count=count, container_spec=task)


class TestContract(ReplicaContract):
    CHEAP = (
        "test_submit_names_the_job",
        "test_success",
        "test_the_primary_ends_the_job",
        "test_cancel_at_once_and_twice",
        "test_cancel_after_the_end",
    )
    """Those that need neither the log at once nor a project without other jobs; no others are collected."""
    place: Place

    @pytest.fixture
    def backend(self, place: Place) -> JobBackend:
        self.place = place
        return place.open()

    def make_job(self, *scripts: Script) -> CustomJob:
        source = Path(player.__file__).read_text(encoding="utf-8")
        return job_of(self.place, *(pool(source, json.dumps(script.steps)) for script in scripts))

    def reconnect(self, backend: JobBackend) -> JobBackend:
        return self.place.open()

    def wait_for(self, reached: Callable[[], bool]) -> None:
        self.place.until(reached)


def seen_there(place: Place, job: CustomJob, replicas: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """What each replica of the job saw: its environment, from the log; the job's id as JOB."""
    backend = place.open()
    name = backend.submit(backend.plan(job)).name
    place.until(lambda: states.has_ended(backend.get(name).state))
    assert backend.get(name).state == states.SUCCEEDED
    found: dict[str, dict[str, str]] = {}

    def read() -> bool:
        for replica in replicas:
            page = place.open().logs(LogQuery(name=name, task_name=replica, limit=2**26))
            dumps = [entry.message for entry in page.entries if entry.message.startswith(MARK)]
            if dumps:
                found[replica] = json.loads(dumps[0].removeprefix(MARK))
        return len(found) == len(replicas)

    place.until(read)
    return found


def told_here(vtrain: Any, file: Path, replica: str) -> dict[str, str]:
    """What `custom-jobs environment` says of a replica."""
    ended = vtrain(
        "custom-jobs", "environment", f"--config={file}", f"--replica={replica}", "--backend=vertex"
    )
    assert ended.code == 0, ended.err
    env: dict[str, str] = load_yaml(ended.out, "stdout")["env"]
    return env


def differences(told: dict[str, str], seen: dict[str, str]) -> dict[str, tuple[Any, Any]]:
    """By variable: what is told here, and what was seen there. Ids that the service gives count as equal."""
    (planned,) = set(JOB_HASH.findall(told["CLUSTER_SPEC"]))
    given = {
        told["CLOUD_ML_JOB_ID"]: seen["CLOUD_ML_JOB_ID"],
        told["CLOUD_ML_PROJECT_ID"]: seen["CLOUD_ML_PROJECT_ID"],
        planned: JOB_HASH.findall(seen["CLUSTER_SPEC"])[0],
    }
    names = [*told, *(name for name in seen if name.startswith(OF_THE_SERVICE) and name not in told)]
    pairs = {name: (_read(told.get(name), given), _read(seen.get(name), {})) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _read(value: str | None, given: dict[str, str]) -> Any:
    """A value, with what only the service knows put in; JSON as what it says."""
    if value is None:
        return None
    for ours, theirs in sorted(given.items(), key=lambda pair: -len(pair[0])):
        value = value.replace(ours, theirs)
    return json.loads(value) if value.startswith("{") else value


@pytest.mark.parametrize("counts", [(1,), (1, 2)], ids=["one replica", "three replicas"])
def test_replicas_see_what_is_told_here(
    place: Place, vtrain: Any, tmp_path: Path, counts: tuple[int, ...]
) -> None:
    job = job_of(place, *(pool(DUMP, str(place.linger), count=count) for count in counts))
    (tmp_path / "job.json").write_text(json.dumps(to_document(job)))
    names = tuple(
        f"workerpool{number}-{index}" for number, count in enumerate(counts) for index in range(count)
    )
    seen = seen_there(place, job, names)
    found = {name: differences(told_here(vtrain, tmp_path / "job.json", name), seen[name]) for name in names}
    assert found == {name: {} for name in names}, (
        "what is told here is not what is seen there: see fidelity.md"
    )


def test_the_trainers_failure_is_the_commands(place: Place, vtrain: Any, tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(
        json.dumps(to_document(job_of(place, pool("import sys; sys.exit(7)"))))
    )
    words = ("--backend=vertex", f"--config={tmp_path / 'job.json'}", "--wait", "--format=value(name)")
    ended = vtrain("custom-jobs", "create", *words)
    assert ended.code == 10, ended.err
    assert "workerpool0-0 exited with a non-zero status of 7" in ended.err
    assert vtrain("custom-jobs", "delete", ended.out.strip()).code == 0
    assert vtrain("custom-jobs", "describe", ended.out.strip()).code == 1


@pytest.mark.parametrize(
    "fields",
    [{"args": [1]}, {"args": "--epochs=3"}, {"command": "python -c 1"}],
    ids=["number", "args", "command"],
)
def test_inputs_of_a_task_that_are_no_lists_of_texts_are_refused(
    place: Place, fields: dict[str, Any]
) -> None:
    inputs = to_document(job_of(place, pool("pass")).job_spec)
    inputs["workerPoolSpecs"][0]["containerSpec"] |= fields
    line = TrainingPipeline(
        display_name="vtrain-live", training_task_definition=CUSTOM_TASK, training_task_inputs=inputs
    )
    with pytest.raises(VtrainError, match="training_task_inputs"):
        place.open().submit(Plan(job=line, backend="vertex"))


def test_what_differs_is_found() -> None:
    told = {
        "CLUSTER_SPEC": '{"a":"cmle-training-workerpool0-0000000000-0"}',
        "CLOUD_ML_JOB_ID": "000",
        "CLOUD_ML_PROJECT_ID": "<PROJECT_NUMBER>",
        "CLOUD_ML_JOB_SA": "service-<PROJECT_NUMBER>@x",
        "MASTER_PORT": "3333",
        "AIP_ONLY_HERE": "1",
    }
    seen = {
        "CLUSTER_SPEC": '{ "a": "cmle-training-workerpool0-123456789a-0" }',
        "CLOUD_ML_JOB_ID": "77",
        "CLOUD_ML_PROJECT_ID": "42",
        "CLOUD_ML_JOB_SA": "service-42@x",
        "MASTER_PORT": "2222",
        "CLOUD_ML_ONLY_THERE": "1",
        "PATH": "/bin",
    }
    assert differences(told, seen) == {
        "MASTER_PORT": ("3333", "2222"),
        "AIP_ONLY_HERE": ("1", None),
        "CLOUD_ML_ONLY_THERE": (None, "1"),
    }
