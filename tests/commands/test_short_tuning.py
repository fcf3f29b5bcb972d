"""Tuning jobs in the short commands, where custom jobs are taken too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lib.stored_jobs import add_job, local_name
from lib.tuning_jobs import TRIALS, tuning_document
from lib.vertex_service import VertexService

from vtrain.commands.offered_names import newest_jobs, replicas_of
from vtrain.core.references import find_reference
from vtrain.messages.names import (
    ANY_JOB,
    CUSTOM_JOB,
    CUSTOM_JOBS,
    HYPERPARAMETER_TUNING_JOBS,
    TRAINING_PIPELINES,
    TRIAL_LABEL,
    TUNING_JOB,
    ResourceKind,
)

PARENT = "projects/demo/locations/us-central1"
NAME = f"{PARENT}/hyperparameterTuningJobs/2001"


def found(word: str, kind: ResourceKind) -> list[str]:
    return [job.name for job in find_reference(word, kind, region="").jobs or ()]


def test_a_word_means_a_job_of_either_kind_but_no_trial_by_chance(vtrain_home: Path) -> None:
    add_job(vtrain_home, "1000", "digits")
    tuning = add_job(vtrain_home, "2000", "tune", collection=HYPERPARAMETER_TUNING_JOBS)
    trial = add_job(vtrain_home, "3000", "tune-trial-1", fields={"labels": {TRIAL_LABEL: "2000"}})
    assert found("@last", ANY_JOB) == found("@last", TUNING_JOB) == [tuning]
    assert found("@last", CUSTOM_JOB) == [local_name("1000")]
    assert found("tune", ANY_JOB) == [tuning] and found("tune", CUSTOM_JOB) == []
    assert found("tune-trial-1", ANY_JOB) == found("30", CUSTOM_JOB) == [trial]
    assert found("20", ANY_JOB) == [tuning] and found("20", CUSTOM_JOB) == []


@pytest.mark.parametrize("word", ["t3", "2000"])
@pytest.mark.parametrize(
    ("collection", "message"),
    [
        (
            HYPERPARAMETER_TUNING_JOBS,
            "{} is a tuning job: its trials are jobs of their own.\n"
            "  Name one by its number, or the best as {}@best:\n  $ vtrain trials {}\n",
        ),
        (
            TRAINING_PIPELINES,
            "{} is a training pipeline: its task is a job of its own.\n  See which:\n  $ vtrain show {}\n",
        ),
    ],
)
def test_a_command_about_one_job_says_what_is_made_of_jobs(
    vtrain: Any,
    vtrain_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    collection: str,
    message: str,
    word: str,
) -> None:
    add_job(vtrain_home, "2000", "t3", collection=collection)
    for line in (("cp", f"{word}:model", "x"), ("exec", word, "--", "ls"), ("shell", word), ("top", word)):
        refused = vtrain(*line)
        assert (refused.code, refused.out) == (1, "")
        assert f"ERROR: {message.format(*[word] * 3)}" in refused.err
    monkeypatch.setenv("CLOUDSDK_CORE_PROJECT", "demo")
    assert f"ERROR: {message.format(*['t3'] * 3)}" in vtrain("shell", "t3").err
    job = add_job(vtrain_home, "3000", "t3")
    assert vtrain("custom-jobs", "describe", "t3", "--format=value(name)").out == f"{job}\n"


@pytest.mark.parametrize("word", ["hog", "1000"])
def test_a_command_about_tuning_jobs_says_that_a_plain_job_is_none(
    vtrain: Any, vtrain_home: Path, word: str
) -> None:
    add_job(vtrain_home, "1000", "hog")
    for line in (("best", word), ("report", word), ("trials", word), ("hp-tuning-jobs", "describe", word)):
        refused = vtrain(*line)
        assert (refused.code, refused.out) == (1, "")
        assert f"ERROR: {word} is no tuning job.\n  See what it is:\n  $ vtrain show {word}\n" in refused.err
    assert "There is no tuning job on this machine yet." in vtrain("best").err


def test_no_tuning_job_stands_for_a_custom_job_of_long_ago(vtrain: Any, vtrain_home: Path) -> None:
    add_job(vtrain_home, "1000", "digits")
    add_job(vtrain_home, "2000", "tune", collection=HYPERPARAMETER_TUNING_JOBS)
    assert "ERROR: There are not so many jobs: @last-1." in vtrain("exec", "@last-1", "--", "ls").err


def test_ps_lists_jobs_of_both_kinds_without_trials(vtrain: Any, vertex: VertexService) -> None:
    custom: list[dict[str, Any]] = [
        {"displayName": "b", "createTime": "2026-11-01T12:00:00Z"},
        {"displayName": "t", "createTime": "2026-11-01T11:30:00Z", "labels": {TRIAL_LABEL: "2001"}},
        {"displayName": "a", "createTime": "2026-11-01T10:00:00Z"},
    ]
    listed = [{"name": f"{PARENT}/customJobs/{number}", **job} for number, job in enumerate(custom)]
    vertex.answer(json.dumps({"customJobs": listed}).encode(), path="/customJobs", times=2)
    vertex.put(NAME, displayName="tune", createTime="2026-11-01T11:00:00Z")
    ended = vtrain("ps", "--format=value(displayName)")
    assert (ended.code, ended.out) == (0, "b\ntune\na\n"), ended.err
    assert vtrain("custom-jobs", "list", "--format=value(displayName)").out == "b\nt\na\n"


def test_short_commands_take_the_name_of_a_tuning_job(vtrain: Any, vertex: VertexService) -> None:
    vertex.resources[NAME] = tuning_document(NAME, state="JOB_STATE_RUNNING")
    assert json.loads(vtrain("show", NAME, "--format=json").out)["displayName"] == "tune"
    stopped = vtrain("stop", NAME)
    assert stopped.code == 0 and f"cancel HyperparameterTuningJob [{NAME}]" in stopped.err
    removed = vtrain("rm", NAME)
    assert removed.code == 0 and f"Deleted HyperparameterTuningJob [{NAME}]." in removed.err
    assert vertex.resources == {}


def test_shells_offer_tuning_jobs_and_the_replicas_of_their_trials(
    vtrain_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VTRAIN_BACKEND", "process")
    fields = tuning_document("", trials=TRIALS[:2])
    pools = [{"replicaCount": "1"}, {"replicaCount": "2"}]
    fields |= {"name": local_name("2000", collection=HYPERPARAMETER_TUNING_JOBS)}
    fields["trialJobSpec"] = {
        "workerPoolSpecs": [pool | {"containerSpec": {"imageUri": "i"}} for pool in pools],
    }
    add_job(vtrain_home, "1000", "digits", created="2026-11-01T10:00:00Z")
    add_job(vtrain_home, "2000", "tune", collection=HYPERPARAMETER_TUNING_JOBS, fields=fields)
    both = (CUSTOM_JOBS, HYPERPARAMETER_TUNING_JOBS)
    assert sorted(name for name, _ in newest_jobs(both, "show", {})) == ["1000", "2000", "digits", "tune"]
    assert [name for name, _ in newest_jobs(both[1:], "show", {})] == ["2000", "tune"]
    assert replicas_of("tune", {}) == [
        f"trial-{trial}/{replica}"
        for trial in (1, 2)
        for replica in ("workerpool0-0", "workerpool1-0", "workerpool1-1")
    ]
    assert replicas_of("digits", {}) == []
