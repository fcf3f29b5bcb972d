"""A trainer as notebooks write it: it saves its model below /gcs, and reports a metric in a trial."""

import argparse
import json
import os
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--rate", default=0.5, type=float)
parser.add_argument("--epochs", default=1, type=int)
arguments = parser.parse_args()
if metrics := os.environ.get("CLOUD_ML_HP_METRIC_FILE"):  # as cloudml-hypertune writes it
    Path(metrics).parent.mkdir(parents=True, exist_ok=True)
    line = {"timestamp": 1.0, "trial": os.environ["CLOUD_ML_TRIAL_ID"], "accuracy": str(arguments.rate)}
    Path(metrics).write_text(json.dumps({**line, "global_step": str(arguments.epochs)}) + "\n")
for variable in ("AIP_TRAINING_DATA_URI", "AIP_VALIDATION_DATA_URI", "AIP_TEST_DATA_URI"):
    if variable in os.environ:
        folder, _, pattern = os.environ[variable].replace("gs://", "/gcs/").rpartition("/")
        assert any(each.read_text() for each in Path(folder).glob(pattern)), variable
saved = Path(os.environ["AIP_MODEL_DIR"].replace("gs://", "/gcs/"))
saved.mkdir(parents=True, exist_ok=True)
(saved / "model.pkl").write_bytes(b"csklearn\nSum\n(tR.")
