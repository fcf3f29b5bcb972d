"""Training pipelines that really run on this machine, as processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lib.supervisors import living_supervisor
from lib.tables import rows
from lib.waiting import wait_until

from vtrain.messages.model import Model
from vtrain.messages.names import CUSTOM_JOBS, TRAINING_PIPELINES
from vtrain.messages.structs import Query
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.model_registry import ModelRegistry
from vtrain.runtime.store import Store

pytestmark = pytest.mark.end_to_end

TRAINER = """
import glob, json, os, sys, time
from pathlib import Path

case = sys.argv[1]
if case == "data":
    sets = {}
    for name in ("TRAINING", "VALIDATION", "TEST"):
        (file,) = glob.glob(os.environ[f"AIP_{name}_DATA_URI"])
        sets[name] = Path(file).read_text().splitlines()
    print("DATA", json.dumps([os.environ["AIP_DATA_FORMAT"], sets]), flush=True)
if case == "fails":
    sys.exit("out of luck")
if case == "hangs":
    while not Path(os.environ["AIP_CHECKPOINT_DIR"], "go").exists():
        time.sleep(0.01)
if case == "astray":
    Path("gs://my-bucket/model").mkdir(parents=True)
if case not in ("nothing", "astray"):
    folder = Path(os.environ["AIP_MODEL_DIR"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.txt").write_text(case)
for word in sys.argv[2:]:
    if word.startswith("--n="):
        metric = {"accuracy": word.removeprefix("--n="), "global_step": "1", "timestamp": 1, "trial": "1"}
        Path(os.environ["CLOUD_ML_HP_METRIC_FILE"]).write_text(json.dumps(metric) + "\\n")
"""
MODEL = ("--model-display-name=digits", "--serving-container-image-uri=example.com/serve:1")
Train = Callable[..., Any]


@pytest.fixture
def train(vtrain: Any, tmp_path: Path) -> Train:
    """Create a pipeline of that trainer, and stay until it has ended."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(TRAINER)

    def run(case: str, *flags: str, wait: bool = True) -> Any:
        return vtrain(
            *("training-pipelines", "create", "--backend=process", "--display-name=line", "--format=json"),
            *(f"--local-package-path={tmp_path / 'code'}", "--script=train.py"),
            *(["--wait"] if wait else []),
            *flags,
            *("--", case),
        )

    return run


def eventually(found: Callable[[], Any]) -> Any:
    """What is found, once there is something."""
    wait_until(lambda: bool(found()))
    return found()


def models(home: Path) -> list[Model]:
    return [*ModelRegistry(home).list_models(Query()).models]


def test_a_pipeline_its_job_and_its_model_name_each_other(
    train: Train, vtrain: Any, vtrain_home: Path
) -> None:
    ended = train("good", *MODEL)
    assert ended.code == 0, ended.err
    pipeline = json.loads(ended.out)
    assert pipeline["state"] == "PIPELINE_STATE_SUCCEEDED"
    job_name = pipeline["trainingTaskMetadata"]["backingCustomJob"]
    job = json.loads(vtrain("custom-jobs", "describe", job_name, "--format=json").out)
    (model,) = models(vtrain_home)
    assert job["displayName"] == "line-custom-job"
    assert job["trainingPipeline"] == model.training_pipeline == pipeline["name"]
    assert job["model"] == f"{model.name}@1"
    assert pipeline["modelToUpload"]["name"] == model.name
    assert model.artifact_uri == pipeline["modelToUpload"]["artifactUri"]
    folder = vtrain_home / "buckets" / model.artifact_uri.removeprefix("gs://")
    assert (folder / "model.txt").read_text() == "good"
    assert vtrain("ps", "--format=value(name)").out.splitlines() == [pipeline["name"]], "without its job"
    assert vtrain("custom-jobs", "list", "--format=value(name)").out.splitlines() == [job_name]
    (file := vtrain_home / "pipeline.json").write_text(ended.out)
    again = vtrain("training-pipelines", "create", "--backend=process", f"--config={file}", "--dry-run")
    assert again.code == 0, again.err
    assert "displayName: line" in again.out and pipeline["name"] not in again.out


def test_a_task_that_leaves_nothing_fails_the_pipeline(train: Train, vtrain_home: Path) -> None:
    ended = train("nothing", *MODEL)
    assert ended.code == 10
    assert "The task has left no model: AIP_MODEL_DIR is empty (gs://" in ended.err
    assert json.loads(ended.out)["state"] == "PIPELINE_STATE_FAILED"
    assert models(vtrain_home) == []


def test_a_task_that_writes_beside_the_buckets_is_told_so(train: Train) -> None:
    ended = train("astray", *MODEL)
    assert ended.code == 10
    message = json.loads(ended.out)["error"]["message"]
    assert "AIP_MODEL_DIR is empty" in message
    assert "workerpool0-0 wrote to a local folder `gs:`; on Vertex AI that is lost: use /gcs/…" in message
    assert "Let the trainer write its model to the folder" not in ended.err


def test_a_task_that_fails_tells_why_in_the_pipeline(train: Train, vtrain_home: Path) -> None:
    ended = train("fails", *MODEL)
    assert ended.code == 10
    error = json.loads(ended.out)["error"]
    assert "workerpool0-0 exited with a non-zero status of 1" in error["message"]
    assert train("nothing").code == 0, "a pipeline without a model needs no files"
    assert models(vtrain_home) == []


def test_another_run_adds_a_version(train: Train, vtrain_home: Path) -> None:
    train("one", *MODEL, "--model-id=digits")
    refused = train("two", *MODEL, "--model-id=digits")
    assert (refused.code, "There is a model digits already" in refused.err) == (1, True)
    ended = train("three", *MODEL, "--parent-model=digits", "--model-version-aliases=best")
    assert ended.code == 0, ended.err
    name = "projects/local/locations/us-central1/models/digits"
    versions = ModelRegistry(vtrain_home).list_model_versions(name, Query()).models
    assert [(one.version_id, one.version_aliases) for one in versions] == [
        ("1", ("default",)),
        ("2", ("best",)),
    ]


def splits(home: Path) -> list[Path]:
    """What is left of datasets that were split."""
    return [path for path in (home / "buckets").rglob("*") if "dataset-" in path.name]


def test_a_dataset_is_split_and_its_parts_go_with_the_end_of_the_job(
    train: Train, tmp_path: Path, vtrain_home: Path
) -> None:
    data = [f"{number},{number % 7}" for number in range(100)]
    (tmp_path / "data.csv").write_text("\n".join(["x,y", *data]) + "\n")
    for case, code in (("data", 0), ("fails", 10)):
        ended = train(case, f"--dataset={tmp_path / 'data.csv'}", "--stream-logs", wait=False)
        assert ended.code == code, ended.err
        assert "The dataset is split: 80 for training, 10 for validation, 10 for test." in ended.err
        assert splits(vtrain_home) == []
        assert len([*(vtrain_home / "buckets").rglob("model.txt")]) == 1
        if case == "data":
            line = next(line for line in ended.err.splitlines() if "DATA " in line)
    data_format, sets = json.loads(line.partition("DATA ")[2])
    assert data_format == "csv"
    assert {name: (lines[0], len(lines) - 1) for name, lines in sets.items()} == {
        "TRAINING": ("x,y", 80),
        "VALIDATION": ("x,y", 10),
        "TEST": ("x,y", 10),
    }
    assert sorted(row for lines in sets.values() for row in lines[1:]) == sorted(data)


@pytest.mark.parametrize("killed", [False, True])
def test_a_pipeline_is_cancelled_while_it_splits_its_dataset(
    train: Train, vtrain: Any, tmp_path: Path, vtrain_home: Path, *, killed: bool
) -> None:
    with (tmp_path / "data.jsonl").open("wb") as file:  # seconds of work
        for _ in range(50):
            file.write(b"{}\n" * 100_000)
    name = json.loads(train("data", f"--dataset={tmp_path / 'data.jsonl'}", wait=False).out)["name"]
    eventually(lambda: splits(vtrain_home))
    if killed:
        os.kill(living_supervisor(JobFolder(vtrain_home / "jobs" / name.rpartition("/")[2])), signal.SIGKILL)
    assert vtrain("training-pipelines", "cancel", name).code == 0
    assert vtrain("training-pipelines", "wait", name).code == 11
    assert "The dataset is split" not in vtrain("logs", name).out
    assert splits(vtrain_home) == []


def test_a_tuning_task_registers_the_best_trial(train: Train, tmp_path: Path, vtrain_home: Path) -> None:
    study = tmp_path / "study.json"
    parameter = {"parameterId": "n", "integerValueSpec": {"minValue": 1, "maxValue": 3}}
    metric = {"metricId": "accuracy", "goal": "MAXIMIZE"}
    spec = {"algorithm": "GRID_SEARCH", "metrics": [metric], "parameters": [parameter]}
    study.write_text(json.dumps({"studySpec": spec, "maxTrialCount": 3, "parallelTrialCount": 3}))
    ended = train("good", f"--config={study}", *MODEL)
    assert ended.code == 0, ended.err
    pipeline = json.loads(ended.out)
    named = pipeline["trainingTaskMetadata"]
    assert set(named) == {"backingHyperparameterTuningJob", "bestTrialBackingCustomJob"}
    (model,) = models(vtrain_home)
    assert model.artifact_uri.endswith("/3/model")
    best = Store.open(vtrain_home).get(named["bestTrialBackingCustomJob"])
    assert json.loads(best.document)["displayName"].endswith("-trial-3")


def test_cancelling_a_pipeline_cancels_its_job(train: Train, vtrain: Any, vtrain_home: Path) -> None:
    name = json.loads(train("hangs", wait=False).out)["name"]
    store = Store.open(vtrain_home)

    def is_running() -> bool:
        jobs, _ = store.page(CUSTOM_JOBS, size=10, token="")
        return [job.state for job in jobs] == ["JOB_STATE_RUNNING"]

    eventually(is_running)
    assert vtrain("training-pipelines", "cancel", name).code == 0
    assert vtrain("training-pipelines", "wait", name).code == 11
    (job,), _ = store.page(CUSTOM_JOBS, size=10, token="")
    assert job.state == "JOB_STATE_CANCELLED"


def test_a_killed_supervisor_changes_nothing(train: Train, vtrain: Any, vtrain_home: Path) -> None:
    name = json.loads(train("hangs", *MODEL, wait=False).out)["name"]
    store = Store.open(vtrain_home)
    folder = JobFolder(vtrain_home / "jobs" / name.rpartition("/")[2])

    def running_job() -> str:
        jobs, _ = store.page(CUSTOM_JOBS, size=10, token="")
        return next((job.name for job in jobs if job.state == "JOB_STATE_RUNNING"), "")

    eventually(running_job)
    os.kill(living_supervisor(folder), signal.SIGKILL)
    (checkpoints,) = eventually(lambda: [*(vtrain_home / "buckets").glob("local-runs/*/checkpoints")])
    (checkpoints / "go").touch()
    assert vtrain("training-pipelines", "wait", name).code == 0
    records, _ = store.page(TRAINING_PIPELINES, size=10, token="")
    assert [record.state for record in records] == ["JOB_STATE_SUCCEEDED"]
    assert len(models(vtrain_home)) == 1
    assert len(store.page(CUSTOM_JOBS, size=10, token="")[0]) == 1


def test_a_pipeline_that_lost_its_folder_ends_its_job(train: Train, vtrain: Any, vtrain_home: Path) -> None:
    """It has lost its supervisor, too, which would end it."""
    name = json.loads(train("hangs", wait=False).out)["name"]
    store = Store.open(vtrain_home)
    folder = JobFolder(vtrain_home / "jobs" / name.rpartition("/")[2])
    eventually(lambda: [job.name for job in store.page(CUSTOM_JOBS, size=1, token="")[0]])
    ((job,), _) = store.page(CUSTOM_JOBS, size=2, token="")
    os.kill(living_supervisor(folder), signal.SIGKILL)
    shutil.rmtree(folder.path)
    assert vtrain("training-pipelines", "wait", name).code == 10
    assert vtrain("custom-jobs", "wait", job.name, "--wait-timeout=60s").code == 11


REFUSED = rows(
    """
    1 | --model-display-name=m | --serving-container-image-uri
    2 | --serving-container-image-uri=i | --model-display-name
    1 | $MODEL --model-id=Digits | 'Digits' is not the id of a model
    1 | $MODEL --parent-model=nosuch | Model nosuch not found
    2 | $MODEL --model-id=digits --parent-model=digits | --model-id is for a new model
    1 | $MODEL --model-version-aliases=1x | '1x' is not an alias of a version
    1 | --dataset=/no/such/file.csv | that ends in .jsonl
    2 | --dataset=x.csv --training-fraction-split=2 | from 0 to 1
    2 | --training-fraction-split=0.5 | --dataset
    1 | --dataset=gs://../../etc/passwd | gs://
    2 | --dataset=x --training-filter-split=a --predefined-split-column-name=b | take one of them
    """,
    3,
    MODEL=" ".join(MODEL),
)


@pytest.mark.parametrize(("code", "flags", "words"), REFUSED)
def test_bad_flags_are_refused_and_change_nothing(
    train: Train, vtrain_home: Path, code: str, flags: str, words: str
) -> None:
    refused = train("good", *flags.split())
    assert (refused.code, words in refused.err) == (int(code), True), refused.err
    assert not (vtrain_home / "jobs").exists()
