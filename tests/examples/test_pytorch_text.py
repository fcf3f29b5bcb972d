"""The PyTorch example: its accuracy, its reports to a tuning job, and predictions of its model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from vtrain.messages.yaml_reader import load_yaml

TORCH_IMAGE = "vtrain-test/torch:3.11"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pytorch_text"
PACKAGE = EXAMPLE / "python_package"

pytestmark = [
    pytest.mark.torch,
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_spec("torch") is None, reason="no PyTorch beside vtrain: run nox -s torch"),
]


def python(folder: Path, *words: str, **variables: str) -> str:
    """What a module of the trainer prints, run without vtrain."""
    environ = os.environ | {"PYTHONPATH": str(PACKAGE), "AIP_MODEL_DIR": str(folder / "model")} | variables
    argv = [sys.executable, "-W", "ignore", "-m", *words]
    ended = subprocess.run(argv, env=environ, cwd=folder, check=True, capture_output=True, text=True)
    return ended.stdout


def test_it_learns_and_predicts(tmp_path: Path) -> None:
    python(tmp_path, "trainer.task")
    assert json.loads((tmp_path / "model" / "metrics.json").read_text())["accuracy"] >= 0.8
    sentences = ("I loved this lovely garden", "The museum was boring in every way")
    printed = python(tmp_path, "trainer.predict", str(tmp_path / "model"), *sentences)
    assert [line.split()[0] for line in printed.splitlines()] == ["positive", "negative"]


def test_predictions_of_nothing_are_refused(tmp_path: Path) -> None:
    for words in ([], [""], [" "]):
        with pytest.raises(subprocess.CalledProcessError) as refused:
            python(tmp_path, "trainer.predict", str(tmp_path / "model"), *words)
        assert "usage: " in refused.value.stderr


def test_it_reports_after_each_epoch(tmp_path: Path) -> None:
    pytest.importorskip("hypertune", reason="needs cloudml-hypertune")
    reports = tmp_path / "reports" / "output.metrics"
    python(tmp_path, "trainer.task", "--hp-tune=y", "--num-epochs=3", CLOUD_ML_HP_METRIC_FILE=str(reports))
    lines = [json.loads(line) for line in reports.read_text().splitlines()]
    assert [line["global_step"] for line in lines] == ["1", "2", "3"]
    assert all(0 < float(line["accuracy"]) <= 1 for line in lines)


def test_it_saves_the_model_of_its_best_report(tmp_path: Path) -> None:
    """The study ranks a trial by its best measurement, so that is the model to find in its folder."""
    pytest.importorskip("hypertune", reason="needs cloudml-hypertune")
    reports = tmp_path / "reports" / "output.metrics"
    words = ("--hp-tune=y", "--num-epochs=6", "--learning-rate=0.0028705")
    python(tmp_path, "trainer.task", *words, CLOUD_ML_HP_METRIC_FILE=str(reports))
    accuracies = [float(json.loads(line)["accuracy"]) for line in reports.read_text().splitlines()]
    saved = json.loads((tmp_path / "model" / "metrics.json").read_text())["accuracy"]
    assert saved == pytest.approx(max(accuracies))


@pytest.fixture
def container_image(docker_engine: Any) -> Iterator[str]:
    """The image that the example's Dockerfile makes on top of the image with PyTorch."""
    from vtrain.containers.images import find_image

    if find_image(docker_engine, TORCH_IMAGE) is None:
        pytest.skip(f"the engine has no image {TORCH_IMAGE}: run .ci/make-torch-image")
    name = f"vtrain-test/sentiment-{os.getpid()}"
    words = ["build", "--quiet", "--build-arg", f"BASE={TORCH_IMAGE}", "--tag", name]
    words += ["--file", str(EXAMPLE / "custom_container" / "Dockerfile"), str(EXAMPLE)]
    subprocess.run(
        ["docker", *words], check=True, capture_output=True, env=os.environ | {"DOCKER_BUILDKIT": "0"}
    )
    yield name
    subprocess.run(["docker", "rmi", "--force", name], check=True, capture_output=True)


@pytest.mark.docker
def test_the_custom_container_trains_and_is_tuned(container_image: str, tmp_path: Path) -> None:
    output = f"file://{tmp_path}/run"
    ran = vtrain(
        *("custom-jobs", "local-run", "--backend=docker", f"--executor-image-uri={container_image}"),
        *(f"--base-output-dir={output}", "--", "--num-epochs=2"),
    )
    assert "epoch 2/2" in ran.stdout
    assert (tmp_path / "run" / "model" / "metrics.json").exists()
    study = load_yaml((EXAMPLE / "tuning.yaml").read_text(), "tuning.yaml")
    container = {"imageUri": container_image, "args": ["--hp-tune=y", "--num-epochs=2"]}
    job = {"workerPoolSpecs": [{"replicaCount": 1, "containerSpec": container}]}
    config = tmp_path / "tuning.json"
    config.write_text(json.dumps(study | {"trialJobSpec": job, "maxTrialCount": 2}))
    tuned = vtrain(
        *("hp-tuning-jobs", "create", "--backend=docker", "--display-name=sentiment", f"--config={config}"),
        *("--algorithm=random-search", "--wait", "--format=json"),
    )
    trials = json.loads(tuned.stdout)["trials"]
    assert [trial["state"] for trial in trials] == ["SUCCEEDED", "SUCCEEDED"]
    assert all(0 < trial["finalMeasurement"]["metrics"][0]["value"] <= 1 for trial in trials)


def vtrain(*words: str) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [sys.executable, "-m", "vtrain", *words], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended
