"""The PyTorch example: its accuracy, its reports to a tuning job, and predictions of its model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

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
