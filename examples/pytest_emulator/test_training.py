"""Tests of a program for Vertex AI. They know nothing of vtrain: the emulator's variables lead them to it."""

import json
from pathlib import Path

import pytest
from google.cloud import aiplatform, storage

BUCKET = "stage"


def train(slope: float, folder: str) -> aiplatform.CustomJob:
    aiplatform.init(project="demo", location="us-central1", staging_bucket=f"gs://{BUCKET}")
    job = aiplatform.CustomJob.from_local_script(
        display_name="line",
        script_path=str(Path(__file__).with_name("train.py")),
        container_uri="us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest",
        args=[f"--slope={slope}"],
        base_output_dir=f"gs://{BUCKET}/{folder}",
    )
    job.run()
    return job


@pytest.mark.parametrize("slope", [2.0, -0.5])
def test_the_trained_line_has_the_slope_of_its_points(slope: float, tmp_path: Path) -> None:
    job = train(slope, tmp_path.name)
    assert job.state.name == "JOB_STATE_SUCCEEDED"
    model = storage.Client().bucket(BUCKET).blob(f"{tmp_path.name}/model/model.json").download_as_text()
    assert json.loads(model)["slope"] == pytest.approx(slope)


def test_a_wrong_argument_fails_the_job(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="failed"):
        train("steep", tmp_path.name)
