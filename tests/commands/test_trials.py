"""`vtrain hp-tuning-jobs trials`, from the message of a job alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from lib.tuning_jobs import OUTPUT, STUDY, TRIALS, trial, tuning_document
from lib.vertex_service import VertexService

NAME = "projects/demo/locations/us-central1/hyperparameterTuningJobs/2001"
TABLE = """\
TRIAL  STATE       accuracy  rate    units  optimizer  momentum  STEP  TOOK
2 *    SUCCEEDED   0.91235   0.0123  8      sgd        0.9       19    12 s
4      SUCCEEDED   0.75      0.02    16     sgd        0         19    12 s
1      SUCCEEDED   0.5       0.001   80     adam                 19    12 s
3      INFEASIBLE            0.1     1      adam                       12 s
"""


@pytest.fixture
def trials(vtrain: Any, vertex: VertexService) -> Any:
    """Runs `trials` about a job with these fields."""

    def run(*flags: str, **fields: Any) -> Any:
        vertex.resources[NAME] = tuning_document(NAME, **fields)
        return vtrain("hp-tuning-jobs", "trials", "2001", *flags)

    return run


def test_the_best_trial_is_first_and_one_without_a_result_last(trials: Any) -> None:
    ended = trials()
    assert (ended.code, ended.out) == (0, TABLE), ended.err
    study = STUDY | {"metrics": [{"metricId": "accuracy", "goal": "MINIMIZE"}]}
    assert trials("--format=value(id)", studySpec=study).out == "1\n4\n2\n3\n"
    printed = json.loads(trials("--format=json").out)
    assert printed[0] == TRIALS[1] | {"modelDir": f"{OUTPUT}/2/model"}
    assert [each["id"] for each in printed] == ["2", "4", "1", "3"]


def test_the_best_trial_alone(trials: Any) -> None:
    ended = trials("--best", "--format=value(id, modelDir)")
    assert (ended.code, ended.out) == (0, f"2\t{OUTPUT}/2/model\n"), ended.err
    assert "modelDir: gs://bucket/study/2/model" in trials("--best").out
    ended = trials("--best", trials=[TRIALS[2]])
    assert (ended.code, ended.out) == (1, ""), "it has no result"
    assert "No trial of" in ended.err and "vtrain hp-tuning-jobs trials" in ended.err


def test_the_flags_of_lists_count(trials: Any) -> None:
    assert trials("--limit=2", "--format=value(id)").out == "2\n4\n"
    assert trials("--filter=state=INFEASIBLE", "--format=value(id)").out == "3\n"
    assert trials("--sort-by=id", "--format=value(id)").out == "1\n2\n3\n4\n"
    assert trials("--filter=state=ACTIVE").out == ""
    assert trials("--limit=1").out.splitlines()[1].startswith("2 *")
    ended = trials(trials=[])
    assert (ended.code, ended.out) == (0, "")
    assert "Listed 0 items." in ended.err


def test_every_trial_that_no_other_one_beats_is_the_best(trials: Any) -> None:
    study = STUDY | {"metrics": [{"metricId": "accuracy"}, {"metricId": "seconds", "goal": "MINIMIZE"}]}
    found = []
    for number, (accuracy, seconds) in enumerate([(0.9, 9.0), (0.8, 3.0), (0.7, 5.0)], start=1):
        document = trial(number, accuracy, rate=0.01)
        document["finalMeasurement"]["metrics"].append({"metricId": "seconds", "value": seconds})
        found.append(document)
    lines = trials(studySpec=study, trials=found).out.splitlines()
    assert lines[0].split() == ["TRIAL", "STATE", "accuracy", "seconds", "rate", "STEP", "TOOK"]
    assert {line.split("  ")[0] for line in lines[1:3]} == {"1 *", "2 *"}
    assert lines[3].startswith("3 ")
    best = trials("--best", "--format=value(id)", studySpec=study, trials=found)
    assert sorted(best.out.split()) == ["1", "2"]


def test_odd_ids_and_control_characters(trials: Any) -> None:
    lines = trials(trials=[trial(1, 0.5, optimizer="a\x1b[2Jb\nc")]).out.splitlines()
    assert len(lines) == 2 and "\x1b" not in lines[1]
    odd = [TRIALS[0] | {"id": "x"}, TRIALS[1] | {"id": "99999999999999999999"}]
    assert trials("--format=value(id)", trials=odd).out == "99999999999999999999\nx\n"
