"""Tuning jobs of this machine on a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from terminal.conftest import Golden, Shows, Start

pytestmark = pytest.mark.end_to_end

STUDY = """
maxTrialCount: 2
parallelTrialCount: 1
maxFailedTrialCount: 1
studySpec:
  metrics: [{metricId: loss, goal: MINIMIZE}]
  algorithm: GRID_SEARCH
  parameters:
  - {parameterId: rate, discreteValueSpec: {values: [1, 2]}}
"""
TRAINER = """
import json, os, sys
from pathlib import Path
rate = float(sys.argv[-1].partition("=")[2])
print("rate", rate)
if "fail" in sys.argv:
    raise ValueError("no data")
Path(os.environ["CLOUD_ML_HP_METRIC_FILE"]).write_text(json.dumps({"loss": rate}))
folder = Path(os.environ["AIP_MODEL_DIR"])
folder.mkdir(parents=True, exist_ok=True)
(folder / "model").touch()
"""
CREATE = ("hp-tuning-jobs", "create", "--display-name=tune", "--config=study.yaml", "--backend=process")
RUN = (*CREATE, "--local-package-path=.", "--script=train.py", "--stream-logs")


def test_a_study_from_its_create_to_its_best_trial(
    start: Start, golden: Golden, shows: Shows, place: Path
) -> None:
    (place / "study.yaml").write_text(STUDY)
    (place / "train.py").write_text(TRAINER)
    terminal = start(*RUN)
    assert terminal.end() == 0, terminal.transcript
    golden("study", terminal)
    shows("study-dry", *RUN, "--dry-run", "--algorithm=random-search")


def test_a_study_whose_first_trial_fails(start: Start, golden: Golden, place: Path) -> None:
    (place / "study.yaml").write_text(STUDY)
    (place / "train.py").write_text(TRAINER)
    terminal = start(*RUN, "--", "fail")
    assert terminal.end() == 10, terminal.transcript
    golden("study-fails", terminal)


def test_a_script_is_tuned_by_flags_alone(start: Start, golden: Golden, shows: Shows, place: Path) -> None:
    (place / "train.py").write_text(TRAINER)
    line = ("tune", "train.py", "--param=rate=1,2", "--metric=loss:min", "--algorithm=grid-search")
    line += ("--backend=process",)
    shows("tune-dry", *line, "--dry-run")
    assert start(*line).end() == 0
    shows("tune-best", "best", "train")


def test_a_study_that_measures_nothing_says_how_to_report(start: Start, golden: Golden, place: Path) -> None:
    (place / "train.py").write_text("print('loss 0.5')\n")
    line = ("tune", "train.py", "--param=rate=0.1,0.2,0.3", "--metric=loss:min", "--algorithm=grid-search")
    terminal = start(*line, "--backend=process")
    assert terminal.end() == 10, terminal.transcript
    golden("tune-silent", terminal)
