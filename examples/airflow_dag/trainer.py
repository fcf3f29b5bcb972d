"""Fits a random forest to Fisher's irises, and leaves it where Vertex AI looks for a model."""

import argparse
import os
from pathlib import Path

import joblib
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--trees", type=int, default=100)
args = parser.parse_args()

inputs, kinds = load_iris(return_X_y=True)
train_inputs, test_inputs, train_kinds, test_kinds = train_test_split(inputs, kinds, random_state=0)
forest = RandomForestClassifier(args.trees, random_state=0).fit(train_inputs, train_kinds)
print(f"accuracy {forest.score(test_inputs, test_kinds):.3f} with {args.trees} trees")

# On Vertex AI the bucket gs://NAME is also the folder /gcs/NAME.
folder = Path(os.environ.get("AIP_MODEL_DIR", "model").replace("gs://", "/gcs/"))
folder.mkdir(parents=True, exist_ok=True)
joblib.dump(forest, folder / "model.joblib")
