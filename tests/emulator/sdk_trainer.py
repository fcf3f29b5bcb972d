"""A trainer that writes its model with the library of Cloud Storage, and reports a metric in a trial."""

import argparse
import json
import os
from pathlib import Path

from google.cloud import storage

parser = argparse.ArgumentParser()
parser.add_argument("--rate", default=1.0, type=float)
rate = parser.parse_args().rate
print("rate", rate)
metrics = os.environ.get("CLOUD_ML_HP_METRIC_FILE")
if metrics:
    line = {
        "accuracy": str(rate),
        "global_step": "1",
        "timestamp": 1.0,
        "trial": os.environ["CLOUD_ML_TRIAL_ID"],
    }
    Path(metrics).parent.mkdir(parents=True, exist_ok=True)
    Path(metrics).write_text(json.dumps(line) + "\n")
bucket, _, name = os.environ["AIP_MODEL_DIR"].removeprefix("gs://").partition("/")
storage.Client(project="x").bucket(bucket).blob(f"{name}model.joblib").upload_from_string(b"model")
