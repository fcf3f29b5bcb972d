from __future__ import annotations

import pytest

from vtrain.messages.missing import missing_hint
from vtrain.messages.names import parse_name

DEMO = "projects/demo/locations/us-east1"


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
        (f"{DEMO}/trainingPipelines/1", ""),
    ],
)
def test_the_command_that_lists_what_there_is(name: str, expected: str) -> None:
    full = parse_name(name)
    assert full is not None
    assert missing_hint(full).rpartition("\n")[2] == expected
