"""The example of digits, from training to predictions: its model is registered, and asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRAINER = (
    f"--local-package-path={ROOT / 'examples' / 'digits'}",
    "--python-module=trainer.task",
    "--executor-image-uri=us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest",
)
IMAGE = "us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-6:latest"
ASK = """
import json
from sklearn.datasets import load_digits
pixels, digits = (part[::170][:10] for part in load_digits(return_X_y=True))
print(json.dumps({"instances": (pixels / 16).tolist(), "digits": digits.tolist()}))
"""

pytestmark = [pytest.mark.pages, pytest.mark.network]


@pytest.fixture
def scans(vtrain: Any, tmp_path: Path) -> dict[str, Any]:
    """Ten scans from the whole of the example's data, and the digits that they show."""
    (tmp_path / "scans").mkdir()
    (tmp_path / "scans" / "scans.py").write_text(ASK)
    script = (f"--local-package-path={tmp_path / 'scans'}", "--script=scans.py")
    ended = vtrain(
        "custom-jobs", "local-run", "--backend=process", *script, "--requirements=scikit-learn==1.6.*"
    )
    assert ended.code == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


def right(vtrain: Any, scans: dict[str, Any], name: str) -> int:
    """How many of the scans the model of that name reads as the digits that they show."""
    request = json.dumps({"instances": scans["instances"]})
    line = ("models", "predict", name, "--json-request=-", "--backend=process", "--format=json")
    ended = vtrain(*line, stdin=request)
    assert ended.code == 0 and "WARNING" not in ended.err, ended.err
    predictions = json.loads(ended.out)["predictions"]
    assert len(predictions) == 10
    return sum(found == shown for found, shown in zip(predictions, scans["digits"], strict=True))


def test_an_uploaded_model_reads_nine_of_ten_digits(vtrain: Any, scans: dict[str, Any]) -> None:
    output = "--base-output-dir=gs://models/digits"
    trained = vtrain("custom-jobs", "local-run", "--backend=process", *TRAINER, output, "--", "--epochs=10")
    assert trained.code == 0, trained.err
    flags = ("--display-name=digits", "--model-id=digits", f"--container-image-uri={IMAGE}")
    assert vtrain("models", "upload", *flags, "--artifact-uri=gs://models/digits/model").code == 0
    assert right(vtrain, scans, "digits") >= 9


def test_the_model_of_a_pipeline_reads_nine_of_ten_digits(vtrain: Any, scans: dict[str, Any]) -> None:
    model = ("--model-display-name=digits", "--model-id=digits", f"--serving-container-image-uri={IMAGE}")
    line = ("training-pipelines", "create", "--backend=process", "--display-name=digits", "--wait")
    made = vtrain(*line, *TRAINER, *model, "--", "--epochs=10")
    assert made.code == 0, made.err
    assert right(vtrain, scans, "digits@1") >= 9
