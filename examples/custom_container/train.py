"""Fits a line through points by least squares, and leaves it as model.json."""

import argparse
import json
import os
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--slope", type=float, default=3.0, help="of the points that it makes")
args = parser.parse_args()

points = [(x / 10, args.slope * x / 10 - 1) for x in range(100)]
mean_x, mean_y = (sum(column) / len(points) for column in zip(*points, strict=True))
slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
print(f"slope {slope:.3f}")

# On Vertex AI the bucket gs://NAME is also the folder /gcs/NAME.
folder = Path(os.environ.get("AIP_MODEL_DIR", "model").replace("gs://", "/gcs/", 1))
folder.mkdir(parents=True, exist_ok=True)
(folder / "model.json").write_text(json.dumps({"slope": slope}))
