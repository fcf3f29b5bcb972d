"""`vtrain tune`, and what is asked about its trials: from a script to the best model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from lib.supervisors import living_supervisor
from lib.tuning_jobs import tuning_document
from lib.vertex_service import VertexService
from lib.waiting import wait_until

from vtrain.commands.tuning_trials import run_line
from vtrain.core.references import job_id
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.tuning.trial_record import readable_records

pytestmark = pytest.mark.end_to_end

TRAINER = """
import argparse, json, os, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float)
parser.add_argument("--how")
args = parser.parse_args()
model = pathlib.Path(os.environ["AIP_MODEL_DIR"])
model.mkdir(parents=True, exist_ok=True)
(model / "rate").write_text(str(args.rate))
points = [{"loss": (args.rate - 2) ** 2 + 1 / step, "step": step} for step in (1, 2)]
if args.how == "stdout":
    print("loss", points[0]["loss"])
    for point in points:
        print(json.dumps(point))
if args.how == "metrics.json":
    (model.parent / args.how).write_text(json.dumps(points[1]))
if args.how == "metrics.jsonl":
    (model.parent / args.how).write_text("".join(json.dumps(point) + "\\n" for point in points))
if args.how == "another":
    print(json.dumps({"lost": 1}))
"""
REQUEST = '--json-request={"instances": [1]}'
SPACE = ("--param=rate=1,2,3", "--metric=loss:min", "--algorithm=grid-search")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vtrain: Any) -> Iterator[Path]:
    """The current folder with a trainer. Every job has ended afterwards."""
    (tmp_path / "train.py").write_text(TRAINER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VTRAIN_BACKEND", "process")
    yield tmp_path
    with suppress(AssertionError):
        for name in vtrain("hp-tuning-jobs", "list", "--format=value(name)").out.split():
            vtrain("stop", name)
            vtrain("hp-tuning-jobs", "wait", name)


@pytest.mark.parametrize(("how", "step"), [("stdout", "2"), ("metrics.json", None), ("metrics.jsonl", "2")])
def test_a_metric_is_found_where_the_trainer_wrote_it(
    vtrain: Any, folder: Path, how: str, step: str | None
) -> None:
    ended = vtrain("tune", "train.py", *SPACE, "-j", "3", "--format=json", "--", f"--how={how}")
    assert ended.code == 0, ended.err
    job = json.loads(ended.out)
    assert (job["displayName"], job["maxTrialCount"], job["parallelTrialCount"]) == ("train", 3, 3)
    (best,) = json.loads(vtrain("trials", "train", "--best", "--format=json").out)
    assert best["parameters"] == [{"parameterId": "rate", "value": 2.0}]
    assert best["finalMeasurement"]["metrics"] == [{"metricId": "loss", "value": 0.5}]
    assert best["finalMeasurement"].get("stepCount") == step


def test_the_best_trial_is_run_again_and_its_model_copied(vtrain: Any, folder: Path) -> None:
    line = ("tune", "train.py", *SPACE, "-n", "2", "--display-name", "demo", "--", "--how=stdout")
    assert vtrain(*line).code == 0
    printed = vtrain("best", "demo").out.splitlines()
    assert printed == [
        "trial   2: loss=0.5",
        "args    --rate=2",
        "run     $ vtrain run train.py -- --how=stdout --rate=2",
        f"model   $ vtrain cp {printed[3].split()[4]} .",
    ]
    assert printed[3].endswith("@best:model .")
    assert vtrain("best", "demo", "--format=value(args,id)").out == "--rate=2\t2\n"
    assert vtrain("cp", "demo@best:model", "copied").code == 0
    assert (folder / "copied" / "rate").read_text() == "2.0"
    assert "A trial is a job: vtrain logs demo@2\n" in vtrain("trials", "demo").err
    assert vtrain("cp", "demo@1:model/rate").code == 0 and (folder / "rate").read_text() == "1.0"
    assert vtrain("logs", "@last@2").out == vtrain("logs", "demo@best").out
    assert vtrain("show", "@last@1", "--format=value(args.rate)").out == "1\n"
    assert "demo has no trial 3.\n  $ vtrain trials " in vtrain("show", "demo@3").err
    assert "The job has written no model that can be served" in vtrain("predict", "demo@1", REQUEST).err
    rerun = subprocess.run(
        [sys.executable, "-m", "vtrain", "rerun", "demo@2", "--", "--rate=5"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "$ vtrain run train.py -- --how=stdout --rate=5\n" in rerun.stderr
    assert vtrain("run", "train.py", "--display-name=demo@1", "--", "--how=stdout", "--rate=7").code == 0
    assert vtrain("show", "demo@1", "--format=value(displayName)").out == "demo@1\n"  # it goes by that name
    assert "has the name '@1'" in vtrain("rm", "@1").err


def test_the_line_of_a_trial_names_what_it_runs_or_there_is_none() -> None:
    create = ["hp-tuning-jobs", "create", "--config=study.yaml", "--local-package-path=."]
    assert run_line(create) is None
    assert run_line([*create, "--python-module=t"])[1:] == [
        "--local-package-path=.",
        "--python-module=t",
        "--",
    ]
    assert run_line(["custom-jobs", "local-run"]) is None


def test_a_study_that_measures_nothing_stops_after_its_first_trials(vtrain: Any, folder: Path) -> None:
    ended = vtrain("tune", "train.py", *SPACE, "--", "--how=another")
    assert ended.code == 10
    assert "The study stopped before the other 1." in ended.err
    assert "The trainer did not report loss; lines on stdout have lost." in ended.err
    assert "Did you mean --metric=lost:min?\nReport it with hypertune" in ended.err
    assert 'report_hyperparameter_tuning_metric("loss", value, step)' in ended.err
    assert ended.err.count("INFEASIBLE after") == 2
    assert vtrain("best", "train").code == vtrain("cp", "train@best:model", "x").code == 1


@pytest.mark.parametrize(
    ("text", "said"), [('{"loss": NaN}', "has loss=NaN"), ('{"loss": ', "is no JSON")], ids=["NaN", "damaged"]
)
def test_a_study_says_what_stands_in_place_of_its_metric(
    vtrain: Any, folder: Path, text: str, said: str
) -> None:
    (folder / "train.py").write_text(f"open('metrics.json', 'w').write({text!r})\n")
    ended = vtrain("tune", "train.py", *SPACE, "-n1")
    assert f"The trainer did not report loss; metrics.json (working directory) {said}." in ended.err
    assert "Did you mean" not in ended.err


def test_a_dry_run_is_a_file_for_the_long_command(vtrain: Any, folder: Path) -> None:
    planned = vtrain("tune", "train.py", *SPACE, "-j2", "--dry-run")
    assert planned.code == 0, planned.err
    (folder / "study.yaml").write_text(planned.out)
    trainer = ("--local-package-path=.", "--script=train.py", "--display-name=b", "--config=study.yaml")
    ended = vtrain("hp-tuning-jobs", "create", *trainer, "--wait", "--format=json", "--", "--how=stdout")
    assert ended.code == 0, ended.err
    job = json.loads(ended.out)
    assert (job["maxTrialCount"], job["parallelTrialCount"]) == (3, 2)
    assert len(job["trials"]) == 3


def test_a_study_goes_on_when_the_command_returns(vtrain: Any, folder: Path) -> None:
    created = vtrain("tune", "train.py", *SPACE, "--detach", "--format=json", "--", "--how=stdout")
    assert created.code == 0 and json.loads(created.out)["state"] == "JOB_STATE_PENDING"
    assert vtrain("hp-tuning-jobs", "wait", "train").code == 0
    refused = vtrain("tune", "train.py", *SPACE, "--detach", "--wait")
    assert refused.code == 2 and "--detach goes without --wait" in refused.err


def test_a_line_that_cannot_be_run_is_refused(vtrain: Any, folder: Path) -> None:
    for words, message in (
        (("train.py",), "--param=NAME=VALUES and --metric=NAME:max|min must be given."),
        (("train.py", "--metric=a:max"), "ERROR: --param=NAME=VALUES must be given."),
        (("train.py", "--param=rate", "--metric=a:max"), "--param: expected NAME=VALUES, found 'rate'."),
        (("train.py", *SPACE, "-n0"), "-n: expected 1 or more, found 0."),
        (("trian.py", *SPACE), "There is no file or folder trian.py."),
    ):
        refused = vtrain("tune", *words)
        assert refused.code in (1, 2) and message in refused.err and refused.out == ""


@pytest.mark.parametrize(
    ("study", "problem"),
    [
        (
            "parameters: [{parameterId: x, categoricalValueSpec: {values: [32]}}]",
            "expected a string, found 32",
        ),
        ("parameters: [{parameterId: x, integerValueSpec: {minValue: 0.1}}]", "expected a whole number"),
        ("algorithm: 5", "studySpec.algorithm: expected one of"),
        ("medianAutomatedStoppingSpec: {useElapsedDuration: maybe}", "expected true or false"),
    ],
)
def test_a_wrong_value_of_a_file_has_its_line(vtrain: Any, folder: Path, study: str, problem: str) -> None:
    file = folder / "study.yaml"
    file.write_text(f"studySpec:\n  {study}\n")
    ended = vtrain("tune", "train.py", f"--config={file}")
    assert ended.code == 1
    assert f"ERROR: {file}:2: studySpec." in ended.err and problem in ended.err


def test_a_count_of_nought_is_told_where_gcloud_takes_it_for_none(vtrain: Any, folder: Path) -> None:
    (folder / "study.yaml").write_text(vtrain("tune", "train.py", *SPACE, "--dry-run").out)
    trainer = ("--local-package-path=.", "--script=train.py", "--display-name=b", "--config=study.yaml")
    planned = vtrain("hp-tuning-jobs", "create", *trainer, "--max-trial-count=0", "--dry-run")
    assert "WARNING: --max-trial-count=0 counts as not given, as in gcloud." in planned.err


def test_a_trainer_that_does_not_seem_to_report_is_warned_of(vtrain: Any, folder: Path) -> None:
    (folder / "train.py").write_text("print('loss 0.5')\n")
    warning = "WARNING: No file of the trainer seems to report loss.\n"
    assert warning in vtrain("tune", "train.py", *SPACE, "--dry-run").err
    for way in ("import hypertune", "import json", "print('{\"loss\": 1}')", "# CLOUD_ML_HP_METRIC_FILE"):
        (folder / "train.py").write_text(f"{way}\n")
        assert warning not in vtrain("tune", "train.py", *SPACE, "--dry-run").err


def test_on_vertex_only_hypertune_counts(
    vtrain: Any, folder: Path, vertex: VertexService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VTRAIN_BACKEND", "vertex")
    image = "us-docker.pkg.dev/vertex-ai/training/pytorch-xla.2-4.py310:latest"
    line = ("tune", "train.py", *SPACE, f"--executor-image-uri={image}", "--dry-run")
    line += (
        "--staging-bucket=gs://my-bucket",
        "--set=workerPoolSpecs[0].machineSpec.machineType=n1-standard-4",
    )
    warning = (
        "On Vertex AI only what hypertune reports counts, and no file of the trainer seems to report loss."
    )
    planned = vtrain(*line)
    assert planned.code == 0 and warning in planned.err
    note = "Note: Vertex AI may hand on --rate=1.0: read it as a float, or write 'rate=1|2|3' to have it"
    assert note in planned.err
    others = ("--param=rate=0.5,1", "--metric=loss:min", "--algorithm=random-search")
    assert "may hand on" not in vtrain("tune", "train.py", *others, *line[5:]).err
    (folder / "train.py").write_text("import hypertune\n")
    assert warning not in vtrain(*line).err


def test_whole_numbers_arrive_as_argparse_reads_them(vtrain: Any, folder: Path) -> None:
    (folder / "train.py").write_text(
        "import argparse, json\np = argparse.ArgumentParser()\np.add_argument('--rate', type=int)\n"
        "print(json.dumps({'loss': p.parse_args().rate}))\n"
    )
    done = vtrain("tune", "train.py", *SPACE, "-n1")
    assert done.code == 0 and "may hand on" not in done.err


def test_a_report_stays_out_of_the_next_package(vtrain: Any, folder: Path) -> None:
    for module in ("optuna", "plotly", "jinja2"):
        pytest.importorskip(module, reason="needs the extra tuning")
    line = ("tune", "train.py", *SPACE, "-n1", f"--base-output-dir=file://{folder / 'out'}")
    assert vtrain(*line, "--", "--how=stdout").code == 0
    written = vtrain("report", "train")
    assert written.code == 0 and f"Wrote {folder / 'out' / 'report.html'}." in written.err
    assert not (folder / "report.html").exists()


NAME = "projects/demo/locations/us-central1/hyperparameterTuningJobs/2001"


def test_the_best_trial_of_a_service(vtrain: Any, vertex: VertexService) -> None:
    vertex.resources[NAME] = tuning_document(NAME)
    printed = vtrain("best", NAME).out.splitlines()
    assert printed[:2] == [
        "trial   2: accuracy=0.91235",
        "args    --rate=0.0123 --units=8 --optimizer=sgd --momentum=0.9",
    ]
    copied = vtrain("cp", f"{NAME}@best:model", "x")
    assert copied.code == 1
    assert "$ gcloud storage cp --recursive gs://bucket/study/2/model x" in copied.err


SLOW = """
import json, time
for step in range(1, 7):
    print(json.dumps({"loss": 1 / step, "step": step}), flush=True)
    time.sleep(0.5)
"""


def test_a_supervisor_that_is_killed_loses_no_measurement(
    vtrain: Any, folder: Path, vtrain_home: Path
) -> None:
    (folder / "train.py").write_text(SLOW)
    assert vtrain("tune", "train.py", *SPACE, "-n1", "--detach").code == 0
    study = (
        vtrain_home / "jobs" / job_id(vtrain("hp-tuning-jobs", "list", "--format=value(name)").out.strip())
    )

    def measured() -> list[int]:
        return [
            int(one.step_count) for each in readable_records(JobFolder(study)) for one in each.measurements
        ]

    wait_until(measured)
    os.kill(living_supervisor(JobFolder(study)), signal.SIGKILL)
    ended = vtrain("hp-tuning-jobs", "wait", "train", "--format=value(state)")
    assert (ended.code, ended.out) == (0, "JOB_STATE_SUCCEEDED\n")
    assert measured() == [1, 2, 3, 4, 5, 6]


def test_a_study_that_fails_early_began_with_its_first_trial(vtrain: Any, folder: Path) -> None:
    (folder / "train.py").write_text("import sys\nsys.exit('no data')\n")
    ended = vtrain("tune", "train.py", *SPACE, "--format=json")
    job = json.loads(ended.out)
    assert ended.code == 10 and job["startTime"] <= job["trials"][0]["startTime"] < job["endTime"]
