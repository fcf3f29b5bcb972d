"""A program that trains a model of PyTorch, packs it for TorchServe, and asks an endpoint for predictions."""

import io
import json
import zipfile

import torch
from google.cloud import aiplatform, storage

SERVING = "us-docker.pkg.dev/vertex-ai/prediction/pytorch-cpu.1-12:latest"
MODEL = """
from torch import nn

class Line(nn.Linear):
    def __init__(self):
        super().__init__(2, 1)
"""
HANDLER = """
from ts.torch_handler.base_handler import BaseHandler

class Handler(BaseHandler):
    def postprocess(self, data):
        return [{"sum": row[0]} for row in super().postprocess(data)]
"""
MANIFEST = {
    "runtime": "python",
    "model": {
        "modelName": "line",
        "modelVersion": "1.0",
        "handler": "handler.py",
        "modelFile": "model.py",
        "serializedFile": "model.pt",
    },
}

rows = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 1.0]])
line = torch.nn.Linear(2, 1)
optimizer = torch.optim.LBFGS(line.parameters(), max_iter=100)


def step():
    optimizer.zero_grad()
    loss = ((line(rows).flatten() - rows.sum(1)) ** 2).sum()
    loss.backward()
    return loss


optimizer.step(step)
torch.save(line.state_dict(), weights := io.BytesIO())
with zipfile.ZipFile(packed := io.BytesIO(), "w") as archive:  # as torch-model-archiver does
    archive.writestr("MAR-INF/MANIFEST.json", json.dumps(MANIFEST))
    archive.writestr("model.py", MODEL)
    archive.writestr("handler.py", HANDLER)
    archive.writestr("model.pt", weights.getvalue())
bucket = storage.Client(project="demo").bucket("stage")
bucket.blob("line/model.mar").upload_from_string(packed.getvalue())

aiplatform.init(project="demo", location="us-central1", staging_bucket="gs://stage")
model = aiplatform.Model.upload(
    display_name="line", artifact_uri="gs://stage/line", serving_container_image_uri=SERVING
)
endpoint = model.deploy(machine_type="n1-standard-4")
answer = endpoint.predict(instances=[[1, 2], [3, 4]])
assert [round(each["sum"], 2) for each in answer.predictions] == [3, 7], answer
endpoint.delete(force=True)
model.delete()
print("done")
