"""What every group of commands keeps on Vertex AI: what a dry run shows is sent once, to its own kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from lib.vertex_service import VertexService

from vtrain.messages.training_task import CUSTOM_TASK

PARENT = "projects/demo/locations/us-central1"
MACHINE = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "1"}
JOB = {"workerPoolSpecs": [MACHINE | {"containerSpec": {"imageUri": "gcr.io/p/i"}}]}
STUDY = {
    "metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}],
    "parameters": [{"parameterId": "units", "integerValueSpec": {"minValue": "1", "maxValue": "100"}}],
}
COUNTS = {"maxTrialCount": 5, "parallelTrialCount": 2}


class Kind(NamedTuple):
    """A group, what it makes, flags that create one of a file, and what that sends."""

    collection: str
    title: str
    config: dict[str, Any]
    sent: dict[str, Any]
    flags: tuple[str, ...] = ("--display-name=own",)
    refused: str = ""
    verbs: str = "describe cancel wait delete stream-logs"


KINDS = {
    "custom-jobs": Kind(
        *("customJobs", "CustomJob", {"displayName": "a", "jobSpec": JOB}),
        {"displayName": "own", "jobSpec": JOB},
        refused="2 --worker-pool-spec=machine-type; 2 --wait-timeout=1s; 1 --set=nothing=1",
    ),
    "hp-tuning-jobs": Kind(
        *("hyperparameterTuningJobs", "HyperparameterTuningJob"),
        COUNTS | {"displayName": "a", "studySpec": STUDY, "trialJobSpec": JOB},
        COUNTS | {"displayName": "own", "studySpec": STUDY, "trialJobSpec": JOB},
        refused="2 --worker-pool-spec=machine-type=n1; 2 --algorithm=bayes; 1 --set=nothing=1;"
        "2 --max-trial-count=x; 2 --wait-timeout=1s",
    ),
    "training-pipelines": Kind(
        *("trainingPipelines", "TrainingPipeline", {"displayName": "a", "trainingTaskInputs": JOB}),
        {"displayName": "own", "trainingTaskDefinition": CUSTOM_TASK, "trainingTaskInputs": JOB},
        refused="2 --training-fraction-split=2; 1 --dataset=data.csv",
        verbs="describe cancel wait delete",
    ),
    "persistent-resources": Kind(
        *("persistentResources", "PersistentResource", {"resourcePools": [MACHINE]}),
        {"resourcePools": [MACHINE]},
        flags=("--persistent-resource-id=pr-1",),
        refused="2 --resource-pool-spec=machine-type=n1,disk=3; 1 --resource-pool-spec=; 1 --kms-key=k;"
        "1 --resource-pool-spec=machine-type=n1; 2 --service-account=s@p.iam.gserviceaccount.com",
        verbs="describe delete reboot",
    ),
}
EVERY_KIND = pytest.mark.parametrize("group", KINDS)
EVERY_VERB = pytest.mark.parametrize(
    ("group", "verb"), [(group, verb) for group, kind in KINDS.items() for verb in kind.verbs.split()]
)


@pytest.fixture
def create(vtrain: Any, tmp_path: Path) -> Any:
    """Creates one of a group, with more flags, and words before the group."""

    def run(group: str, *flags: str, track: tuple[str, ...] = ()) -> Any:
        kind, file = KINDS[group], tmp_path / "config.json"
        file.write_text(json.dumps(kind.config))
        return vtrain(*track, group, "create", f"--config={file}", *kind.flags, *flags)

    return run


@EVERY_KIND
def test_what_a_dry_run_shows_is_sent_and_said(vertex: VertexService, create: Any, group: str) -> None:
    kind = KINDS[group]
    planned = create(group, "--dry-run", "--format=json")
    assert (planned.code, json.loads(planned.out), vertex.requests) == (0, kind.sent, [])
    ended = create(group)
    assert (ended.code, ended.out) == (0, ""), ended.err
    assert vertex.calls() == [f"POST /v1/{PARENT}/{kind.collection}"]
    assert vertex.requests[0].body == kind.sent
    (name,) = vertex.resources
    assert f"{kind.title} [{name}]" in ended.err
    assert f"vtrain {group} describe {name}" in ended.err


@EVERY_KIND
def test_each_track_speaks_its_version(vtrain: Any, vertex: VertexService, create: Any, group: str) -> None:
    for track in ("ai", "beta", "alpha"):
        assert create(group, track=(track, "ai")).code == 0
        assert vtrain(track, "ai", group, "list").code == 0
        vertex.resources.clear()
    calls = [request.path.split("/")[1] for request in vertex.requests]
    assert calls == ["v1"] * 2 + ["v1beta1"] * 4


@EVERY_KIND
def test_a_refused_line_sends_nothing(vertex: VertexService, create: Any, group: str) -> None:
    everywhere = "1 --region=nowhere; 1 --config=none.yaml; 1 --format=nope"
    for line in f"{everywhere};{KINDS[group].refused}".split(";"):
        code, flag = line.split()
        assert create(group, flag).code == int(code), flag
        assert vertex.requests == []


@EVERY_KIND
def test_describe_shows_what_the_service_wrote(vtrain: Any, vertex: VertexService, group: str) -> None:
    name = f"{PARENT}/{KINDS[group].collection}/2001"
    written = {"name": name, **KINDS[group].sent, "state": "ANY", "aFieldOfTomorrow": {"a": [1]}}
    vertex.answer(json.dumps(written).encode())
    assert json.loads(vtrain(group, "describe", "2001", "--format=json").out) == written


@EVERY_VERB
def test_what_is_not_there_is_named(vtrain: Any, vertex: VertexService, group: str, verb: str) -> None:
    ended = vtrain(group, verb, "9")
    assert (ended.code, f"{KINDS[group].collection}/9" in ended.err) == (1, True), ended.err


@EVERY_VERB
def test_a_name_of_another_kind_is_not_asked_for(
    vtrain: Any, vertex: VertexService, group: str, verb: str
) -> None:
    others = {"models", "customJobs", "hyperparameterTuningJobs"} - {KINDS[group].collection}
    for other in {"models"} if verb == "stream-logs" and group == "custom-jobs" else others:
        ended = vtrain(group, verb, f"{PARENT}/{other}/1")
        assert (ended.code, vertex.requests) == (1, []), ended.err
