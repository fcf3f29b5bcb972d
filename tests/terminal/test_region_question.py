"""The questions of a submit: the region, where none is configured, and the image that is proposed."""

from __future__ import annotations

from pathlib import Path

import pytest
from terminal.conftest import Golden, Start, Trainer

LINE = ("submit", "--backend=vertex", "--project=demo-1", "--dry-run", "--display-name=x")
POOL = "--worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/p/i"


def test_enter_takes_the_proposed_region(start: Start, golden: Golden, columns: int) -> None:
    typed, region = {80: ("\n", "us-central1"), 120: ("2\n", "asia-east1")}[columns]
    terminal = start(*LINE, POOL, lines=24)
    terminal.wait_for("In which region? Enter takes us-central1, ? lists all.\nNumber or name: ")
    terminal.press(typed)
    terminal.wait_for(f"gcloud config set ai/region {region}")
    assert terminal.end() == 0
    golden("region", terminal)


def test_a_plan_for_the_service_names_its_machines(
    start: Start, trainer: Trainer, golden: Golden, columns: int
) -> None:
    trainer("print(1)\n")
    line = (*LINE, "train.py", "--region=us-central1", "--staging-bucket=gs://my-bucket", "--yes")
    terminal = start(*line, "--gpus=T4", "--replicas=3", "--flex-start", lines=60)
    assert terminal.end() == 0
    golden("vertex-dry", terminal, colours=columns == 120)


def test_the_regions_are_listed_where_that_is_asked(start: Start, place: Path) -> None:
    terminal = start(*LINE, POOL, lines=60)
    terminal.wait_for("Number or name: ")
    terminal.press("?\n")
    terminal.wait_for(" [38] us-west4\n [39] none: cancel\nNumber or name: ")
    terminal.press("39\n")
    assert terminal.end() == 1


@pytest.mark.parametrize(("typed", "code"), [("\n", 0), ("n\n", 1)], ids=["taken", "refused"])
def test_the_proposed_image_is_asked_for(
    start: Start, trainer: Trainer, golden: Golden, columns: int, typed: str, code: int
) -> None:
    trainer("import torch\n")
    line = (*LINE, "train.py", "--region=us-central1", "--staging-bucket=gs://my-bucket")
    terminal = start(*line, "--machine-type=n1-standard-4", lines=60)
    terminal.wait_for("Take it? [Y/n]: ")
    terminal.press(typed)
    assert terminal.end() == code
    golden("image-refused" if code else "image-taken", terminal)
