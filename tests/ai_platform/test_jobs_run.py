"""Command lines of AI Platform that really train on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.end_to_end

TRAINER = """
import argparse, os
parser = argparse.ArgumentParser()
parser.add_argument("--job-dir", required=True)
parser.add_argument("--train-steps", type=int)
parser.add_argument("--lr", type=float, default=0.0)
options = parser.parse_args()
print("steps", options.train_steps, "config", bool(os.environ.get("TF_CONFIG")), flush=True)
open(os.path.join(options.job_dir, "model.txt"), "w").write("trained")
if "CLOUD_ML_HP_METRIC_FILE" in os.environ:
    with open(os.environ["CLOUD_ML_HP_METRIC_FILE"], "w") as file:
        file.write('{"timestamp": 1, "trial": "1", "loss": "%s", "global_step": "1"}\\n' % options.lr)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a trainer, as the old guides have it, in which one stands."""
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "__init__.py").touch()
    (tmp_path / "trainer" / "task.py").write_text(TRAINER)
    monkeypatch.chdir(tmp_path)
    return tmp_path


GUIDE = (
    *("ai-platform", "jobs", "submit", "training", "census_1", "--scale-tier=BASIC", "--region=us-central1"),
    *("--runtime-version=2.11", "--python-version=3.7", "--module-name=trainer.task"),
    *("--package-path=trainer", "--job-dir=gs://census/job_1"),
)


def test_the_command_of_the_old_guide_trains_on_this_machine(
    vtrain: Any, vtrain_home: Path, project: Path
) -> None:
    ended = vtrain(*GUIDE, "--backend=process", "--stream-logs", "--", "--train-steps=1000")
    assert ended.code == 0, ended.err
    assert "steps 1000 config True" in ended.err
    assert (vtrain_home / "buckets" / "census" / "job_1" / "model.txt").read_text() == "trained"
    described = vtrain("ml-engine", "jobs", "describe", "census_1", "--format=value(state)")
    assert described.out == "JOB_STATE_SUCCEEDED\n"
    listed = vtrain("ai-platform", "jobs", "list", "--format=value(displayName)")
    assert listed.out == "census_1\n"
    logs = vtrain("ai-platform", "jobs", "stream-logs", "census_1")
    assert (logs.code, "steps 1000" in logs.out) == (0, True)
    assert vtrain("ai-platform", "jobs", "cancel", "census_1").code == 0


@pytest.mark.parametrize(
    ("words", "below"),
    [
        (("--job-dir=output/a", "--package-path=trainer"), ""),
        (("--job-dir", "output/a"), ""),
        (("--package-path=trainer", "--", "--job-dir", "output/a"), ""),
        (("--package-path=trainer", "--", "--job-dir=./output/a"), ""),
        (("--package-path=../trainer", "--job-dir=output/a"), "elsewhere"),
        (("--package-path={}/trainer", "--job-dir={}/output/a"), "elsewhere"),
    ],
)
def test_a_relative_job_dir_of_local_train_is_in_the_folder_of_the_package(
    vtrain: Any, project: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], below: str
) -> None:
    (project / "elsewhere").mkdir()
    monkeypatch.chdir(project / below)
    (project / "output" / "a").mkdir(parents=True)
    line = [word.format(project) for word in words]
    ended = vtrain("ai-platform", "local", "train", "--module-name=trainer.task", *line)
    assert ended.code == 0, ended.err
    assert (project / "output" / "a" / "model.txt").read_text() == "trained"


def test_a_bucket_as_the_job_dir_of_local_train_stays_one(vtrain: Any, project: Path) -> None:
    (project / "trainer" / "task.py").write_text("import sys\nprint(sys.argv[1:])\n")
    argv = ("ai-platform", "local", "train", "--module-name=trainer.task", "--job-dir=gs://b/output")
    assert vtrain(*argv).out == "['--job-dir', 'gs://b/output']\n"


def test_what_is_explained_is_a_file_that_trains(
    vtrain: Any, vtrain_home: Path, project: Path, tmp_path: Path
) -> None:
    explained = vtrain(*GUIDE, "--explain", "--", "--train-steps=5")
    assert explained.code == 0, explained.err
    assert not (vtrain_home / "jobs").exists()
    command, _, _ = explained.out.partition("\n")
    (tmp_path / "census_1.yaml").write_text(explained.out)
    words = command.removeprefix("# vtrain ").split()
    words = [word for word in words if not word.startswith("--staging-bucket")]
    again = vtrain(*words, "--backend=process", "--aip-dirs=gs", "--dry-run")
    assert again.code == 0, again.err
    assert "pythonModule: trainer.task" in again.out


def test_hyperparameters_in_the_file_are_tuned(vtrain: Any, project: Path) -> None:
    parameter = {"parameterName": "lr", "type": "DISCRETE", "discreteValues": [0.1, 0.2]}
    tuning = {
        "goal": "MINIMIZE",
        "hyperparameterMetricTag": "loss",
        "maxTrials": 2,
        "algorithm": "GRID_SEARCH",
    }
    job = {"trainingInput": {"hyperparameters": tuning | {"params": [parameter]}}}
    (project / "job.json").write_text(json.dumps(job))
    ended = vtrain(*GUIDE, "--config=job.json", "--backend=process", "--wait", "--format=json")
    assert ended.code == 0, ended.err
    trials = json.loads(ended.out)["trials"]
    assert sorted(trial["finalMeasurement"]["metrics"][0]["value"] for trial in trials) == [0.1, 0.2]


def test_a_package_that_is_built_already(vtrain: Any, project: Path) -> None:
    built = vtrain(
        *("package", "sdist", "--local-package-path=.", "--python-module=trainer.task", "--format=json")
    )
    assert built.code == 0, built.err
    (package,) = json.loads(built.out)
    ended = vtrain(
        *("ai-platform", "jobs", "submit", "training", "job_2", "--module-name=trainer.task"),
        *(f"--packages={package['path']}", "--job-dir=gs://census/job_2"),
        *("--backend=process", "--wait"),
    )
    assert ended.code == 0, ended.err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("models", "create", "m"), 2, "vtrain models upload"),
        (("versions", "create", "v"), 2, "--parent-model"),
        (("local", "predict"), 2, "vtrain models predict"),
        (("jobs", "describe", "none"), 1, "There is no job none."),
        (("jobs", "submit", "training", "1job", "--packages=gs://b/t.tgz"), 1, "not the name of a job"),
        (("jobs", "submit", "training", "job", "--packages=none.whl"), 1, "is not a file"),
        (("jobs", "submit", "training", "job", "--scale-tier=huge"), 2, "there is no 'huge'"),
        (("jobs", "submit", "training", "job", "--staging-bucket=b"), 2, "gs://BUCKET"),
        (("jobs", "submit", "prediction", "job"), 2, "Batch prediction"),
        (("local", "train"), 2, "--module-name"),
    ],
)
def test_other_lines_say_what_to_do(
    vtrain: Any, vtrain_home: Path, project: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    ended = vtrain("ai-platform", *words)
    assert (ended.code, told in ended.err) == (code, True), ended.err
    assert not (vtrain_home / "jobs").exists()
