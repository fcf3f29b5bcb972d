from __future__ import annotations

import pytest

from vtrain.errors import ConfigError
from vtrain.messages.names import missing_hint, parse_name, resolve_name

DEMO = "projects/demo/locations/us-east1"
FULL = "projects/demo/locations/europe-west4/customJobs/123"


def resolve(text: str) -> str:
    return str(resolve_name(text, project="local", location="us-central1", collection="customJobs"))


def test_an_id_lives_in_the_project_at_hand_and_a_full_name_wins() -> None:
    assert resolve("123") == "projects/local/locations/us-central1/customJobs/123"
    assert resolve(FULL) == FULL


def test_a_full_name_comes_apart() -> None:
    name = parse_name(FULL)
    assert name is not None
    assert (name.project, name.location, name.collection, name.id) == (
        "demo",
        "europe-west4",
        "customJobs",
        "123",
    )
    assert str(name) == FULL


@pytest.mark.parametrize(
    "text",
    ["", "a/b", "customJobs/123", "locations/us-central1/customJobs/1", "../1", "a b", "1\n2", FULL + "\n4"],
)
def test_neither_id_nor_full_name_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(text)
    assert "projects/PROJECT/locations/REGION/customJobs/ID" in caught.value.hint
    assert "\n" not in caught.value.message


def test_a_name_of_the_wrong_kind_says_which_kind_it_is() -> None:
    with pytest.raises(ConfigError, match="names one of hyperparameterTuningJobs"):
        resolve(FULL.replace("customJobs", "hyperparameterTuningJobs"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"{DEMO}/customJobs/1", "$ vtrain custom-jobs list --project=demo --region=us-east1"),
        (
            "projects/12/locations/us-east1/hyperparameterTuningJobs/1",
            "$ vtrain hp-tuning-jobs list --region=us-east1",
        ),
        (
            "projects/local/locations/us-east1/customJobs/a",
            "$ vtrain custom-jobs list --filter=displayName=a",
        ),
        (
            f"{DEMO}/persistentResources/a",
            "$ vtrain persistent-resources list --project=demo --region=us-east1",
        ),
        (
            f"{DEMO}/trainingPipelines/1",
            "$ vtrain training-pipelines list --project=demo --region=us-east1",
        ),
        (f"{DEMO}/datasets/1", ""),
    ],
)
def test_the_command_that_lists_what_there_is(name: str, expected: str) -> None:
    full = parse_name(name)
    assert full is not None
    assert missing_hint(full).rpartition("\n")[2] == expected
