"""Flags over the file of a hyperparameter tuning job. The rules are gcloud's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from vtrain.core.compose import JobRequest
from vtrain.core.job_layers import EVERY_POOL, Layer, at, named
from vtrain.errors import ConfigError, UsageError, VtrainError
from vtrain.flags.request import key_layers
from vtrain.flags.row import layers_of
from vtrain.flags.tuning_config import check_given, compose_tuning, read_tuning_file
from vtrain.flags.tuning_options import TuningFlags
from vtrain.messages.codec import to_document

POOL = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1}
STUDY = {
    "metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}],
    "parameters": [{"parameterId": "rate", "doubleValueSpec": {"minValue": 0.1, "maxValue": 1}}],
    "algorithm": "RANDOM_SEARCH",
}
NOTHING = JobRequest()
"""Nothing that the command line names to run."""
JOB = {"displayName": "from file", "studySpec": STUDY, "trialJobSpec": {"workerPoolSpecs": [POOL]}}


@pytest.fixture
def composed(tmp_path: Path) -> Any:
    """The document of the job in a file (a document, or text) with flags over it."""

    def compose(content: Any = JOB, trial: JobRequest = NOTHING, **flags: Any) -> dict[str, Any]:
        file = tmp_path / "job.yaml"
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        given = {"display_name": "t", "config": str(file), **flags}
        tuning = TuningFlags(**given)
        check_given(tuning)
        asked = trial.over(*layers_of(tuning), *key_layers(tuning, "demo"))
        asked = msgspec.structs.replace(asked, assignments=tuple(tuning.assignments))
        draft = compose_tuning(read_tuning_file(tuning), asked)
        return to_document(draft.finish("trainer.task", ["file:///package.tar.gz"]))

    return compose


def test_the_file_is_sent_with_the_name_of_the_flag(composed: Any) -> None:
    document = composed()
    assert document["displayName"] == "t"
    assert document["studySpec"]["parameters"][0]["doubleValueSpec"] == {"minValue": 0.1, "maxValue": 1.0}
    assert document["trialJobSpec"]["workerPoolSpecs"][0]["replicaCount"] == "1"


def test_an_empty_name_leaves_it_to_the_file(composed: Any) -> None:
    assert composed(display_name="")["displayName"] == "from file"
    assert "displayName" not in composed("studySpec: {}", display_name="")


@pytest.mark.parametrize(
    ("file", "flag", "count"),
    [
        (None, None, 1),
        (None, "0", 1),
        (0, None, 1),
        (5, None, 5),
        (5, "0", 5),
        (5, "7", 7),
        (None, "-1", -1),
        ("5", None, 5),
    ],
)
@pytest.mark.parametrize("name", ["max_trial_count", "parallel_trial_count"])
def test_a_count_of_nought_is_none(composed: Any, name: str, file: Any, flag: Any, count: int) -> None:
    field = "maxTrialCount" if name == "max_trial_count" else "parallelTrialCount"
    content = JOB if file is None else JOB | {field: file}
    assert composed(content, **{name: flag})[field] == count


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("grid-search", "GRID_SEARCH"),
        ("GRID_SEARCH", "GRID_SEARCH"),
        ("Random_Search", "RANDOM_SEARCH"),
        ("algorithm-unspecified", "ALGORITHM_UNSPECIFIED"),
    ],
)
def test_an_algorithm_has_two_spellings(composed: Any, text: str, name: str) -> None:
    assert composed(algorithm=text)["studySpec"]["algorithm"] == name


def test_an_algorithm_without_a_study_is_ignored(composed: Any) -> None:
    assert "studySpec" not in composed("displayName: x", algorithm="grid-search")
    assert composed("studySpec: {}", algorithm="grid-search")["studySpec"] == {"algorithm": "GRID_SEARCH"}


def test_labels_take_the_place_of_those_of_the_file(composed: Any) -> None:
    content = JOB | {"labels": {"x": "y"}}
    assert composed(content)["labels"] == {"x": "y"}
    assert composed(content, labels=["b=2,a=1"])["labels"] == {"a": "1", "b": "2"}
    assert "labels" not in composed(content, labels=[""])


def test_what_concerns_the_trials_goes_into_their_spec(composed: Any) -> None:
    spec = composed(
        network="projects/1/global/networks/n",
        service_account="s@p.iam.gserviceaccount.com",
        enable_web_access=True,
        enable_dashboard_access=True,
    )["trialJobSpec"]
    del spec["workerPoolSpecs"]
    assert spec == {
        "network": "projects/1/global/networks/n",
        "serviceAccount": "s@p.iam.gserviceaccount.com",
        "enableWebAccess": True,
        "enableDashboardAccess": True,
    }


def test_arguments_after_the_flags_are_those_of_what_the_file_runs(composed: Any) -> None:
    pool = POOL | {"containerSpec": {"imageUri": "i", "args": ["--of-file"]}}
    trial = JobRequest(layers=(Layer(named("--"), at(f"jobSpec.{EVERY_POOL}.args", ("--rate", "1"))),))
    document = composed(JOB | {"trialJobSpec": {"workerPoolSpecs": [pool]}}, trial)
    assert document["trialJobSpec"]["workerPoolSpecs"][0]["containerSpec"]["args"] == ["--rate", "1"]


def test_an_empty_network_leaves_it_to_the_file(composed: Any) -> None:
    assert composed("trialJobSpec: {network: x}", network="")["trialJobSpec"] == {"network": "x"}


def test_a_flag_of_the_trials_needs_their_spec(composed: Any) -> None:
    with pytest.raises(ConfigError, match="no trialJobSpec"):
        composed("studySpec: {}", network="n")
    assert "trialJobSpec" not in composed("studySpec: {}", enable_web_access=False)


def test_the_key_may_be_given_in_parts(composed: Any) -> None:
    document = composed(kms_key="k", kms_keyring="r", kms_location="l")
    name = "projects/demo/locations/l/keyRings/r/cryptoKeys/k"
    assert document["encryptionSpec"] == {"kmsKeyName": name}


def test_set_begins_at_the_job_or_at_the_spec_of_its_trials(composed: Any) -> None:
    document = composed(
        assignments=[
            "maxFailedTrialCount=3",
            "studySpec.metrics[0].goal=MINIMIZE",
            "scheduling.strategy=SPOT",
            "labels.a.b=c",
        ]
    )
    assert document["maxFailedTrialCount"] == 3
    assert document["studySpec"]["metrics"][0]["goal"] == "MINIMIZE"
    assert document["trialJobSpec"]["scheduling"] == {"strategy": "SPOT"}
    assert document["labels"] == {"a.b": "c"}


@pytest.mark.parametrize("path", ["trials[0].id", "state", "nothing"])
def test_set_refuses_what_cannot_be_said(composed: Any, path: str) -> None:
    with pytest.raises(ConfigError, match="--set"):
        composed(assignments=[f"{path}=x"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "found nothing"),
        ("[a]", "expected the fields of a HyperparameterTuningJob"),
        ("a: [", "not a YAML document"),
        ("foo: 1", "foo"),
        ("maxTrialCount: 1\nmax_trial_count: 1", "maxTrialCount: it is given twice"),
        ("workerPoolSpecs: []", "workerPoolSpecs"),
        ("studySpec: a", "studySpec"),
        ("studySpec: {metrics: [{metricId: 5}]}", r"studySpec.metrics\[0\].metricId"),
        ("maxTrialCount: 5.5", "maxTrialCount"),
        ("labels: {a: 1}", "labels.a"),
    ],
)
def test_a_file_is_refused_with_the_path(composed: Any, content: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        composed(content)
    assert "job.yaml" in refusal.value.message


def test_one_value_where_a_list_belongs_is_a_list_of_one(composed: Any) -> None:
    study = composed("studySpec: {metrics: {metricId: a}, parameters: {discreteValueSpec: {values: 3}}}")
    assert study["studySpec"] == {
        "metrics": [{"metricId": "a"}],
        "parameters": [{"discreteValueSpec": {"values": [3.0]}}],
    }


def test_a_number_may_stand_in_quotes(composed: Any) -> None:
    document = composed("studySpec: {parameters: [{doubleValueSpec: {minValue: '1', maxValue: 1e3}}]}")
    values = document["studySpec"]["parameters"][0]["doubleValueSpec"]
    assert values == {"minValue": 1.0, "maxValue": 1000.0}


def test_a_file_that_says_nothing_is_refused(composed: Any) -> None:
    with pytest.raises(ConfigError, match="says nothing"):
        composed("{}")


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ({"display_name": None}, UsageError),
        ({"config": None}, UsageError),
        ({"config": ""}, ConfigError),
        ({"config": "-"}, ConfigError),
        ({"config": "no-such-file.yaml"}, ConfigError),
        ({"parallel_trial_count": "1.5"}, UsageError),
        ({"kms_keyring": "r"}, UsageError),
        ({"kms_key": "k"}, ConfigError),
    ],
)
def test_a_flag_is_refused(composed: Any, flags: dict[str, Any], error: type[VtrainError]) -> None:
    with pytest.raises(VtrainError) as refusal:
        composed(**flags)
    assert type(refusal.value) is error


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"workerPoolSpecs": [POOL]}, "workerPoolSpecs: belongs under trialJobSpec"),
        ({"workerPoolSpecs": [POOL], "scheduling": {}}, "workerPoolSpecs: belongs under trialJobSpec"),
    ],
)
def test_the_file_of_a_custom_job_is_recognised(composed: Any, content: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        composed(content)


def test_only_fields_that_a_request_carries_are_offered(composed: Any) -> None:
    with pytest.raises(ConfigError) as refusal:
        composed("xyzzy: 1")
    assert refusal.value.hint.startswith("It has: displayName, encryptionSpec, labels, maxFailedTrialCount")
    assert "createTime" not in refusal.value.hint and "trials," not in refusal.value.hint
