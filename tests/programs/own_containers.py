"""A notebook whose trainer and server are containers of its own; its argument is the image of both."""

import sys

from google.cloud import aiplatform, storage

TRAIN = """
import os, pathlib
folder = pathlib.Path(os.environ["AIP_MODEL_DIR"].replace("gs://", "/gcs/"))
folder.mkdir(parents=True, exist_ok=True)
(folder / "factor.txt").write_text("3")
"""
SERVE = """
import json, os, urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def answer(self, document):
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer({})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer({"predictions": [3 * each for each in body["instances"]]})

assert self_path == os.environ["AIP_PREDICT_ROUTE"]
HTTPServer(("", int(os.environ["AIP_HTTP_PORT"])), Handler).serve_forever()
""".replace("self_path", repr("/predict"))

image = sys.argv[1]
storage.Client(project="demo").create_bucket("stage")
aiplatform.init(project="demo", location="us-central1", staging_bucket="gs://stage")
job = aiplatform.CustomContainerTrainingJob(
    display_name="containers",
    container_uri=image,
    command=["python3", "-c", TRAIN],
    model_serving_container_image_uri=image,
    model_serving_container_command=["python3", "-c", SERVE],
    model_serving_container_predict_route="/predict",
    model_serving_container_health_route="/health",
    model_serving_container_ports=[8080],
)
model = job.run(
    model_display_name="containers", machine_type="n1-standard-4", base_output_dir="gs://stage/containers"
)
assert model.uri == "gs://stage/containers/model", model.uri
endpoint = model.deploy(machine_type="n1-standard-4")
assert list(endpoint.predict(instances=[1, 2]).predictions) == [3, 6]
endpoint.delete(force=True)
model.delete()
job.delete()
print("done")
