"""Endpoints: a prediction over the answer of the model's own server, and the memory of ten models."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import measure
from emulator import ask, each, serve
from measure import VTRAIN, arguments, judge, scene, until

OVER_THE_SERVER_MS = 10.0
MODELS, MEMORY_MB = 10, 1536.0
REQUESTS = 100
REGION = "/v1/projects/demo/locations/us-central1"
CONTAINER = {
    "imageUri": "us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-6:latest",
    "predictRoute": "/predict",
}
BODY = json.dumps({"instances": [[5.1, 3.5, 1.4, 0.2]] * 10})
TRAINER = """\
import os
from pathlib import Path
import joblib
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
folder = Path(os.environ["AIP_MODEL_DIR"])
folder.mkdir(parents=True, exist_ok=True)
joblib.dump(RandomForestClassifier(n_estimators=20).fit(*load_iris(return_X_y=True)), folder / "model.joblib")
"""


def main() -> int:
    """Deploy the same trained model ten times, and ask the first by its endpoint and by its socket."""
    options = arguments(__doc__, runs=5)
    with scene() as folder:
        model = trained(folder)
        home, scratch = folder / "emulated", folder / "scratch"
        scratch.mkdir()
        os.environ["TMPDIR"] = str(scratch)  # where the servers' sockets are
        url, stop = serve(home)
        try:
            endpoints = [deployed(url, model, number) for number in range(MODELS)]
            for endpoint in endpoints:
                until(lambda name=endpoint: predicts(url, name))  # type: ignore[misc]
            sockets = sorted(scratch.rglob("socket"))
            predict = f"/v1/{endpoints[0]}:predict"
            sides: dict[str, Callable[[], float]] = {
                "by the endpoint": lambda: each(lambda _: ask(url, "POST", predict, BODY), REQUESTS),
                "by the server": lambda: each(lambda _: ask_socket(sockets[0]), REQUESTS),
            }
            taken = measure.alternate(sides, options.runs)
            over = 1000 * (taken["by the endpoint"] - taken["by the server"])
            judge("a prediction over the server's own answer", over, OVER_THE_SERVER_MS, " ms")
            judge(f"memory of {len(sockets)} deployed models", memory(scratch), MEMORY_MB, " MB")
            judge("servers that run", len(sockets), MODELS, least=True)
        finally:
            stop()
    return min(measure.failures, 1)


def trained(folder: Path) -> Path:
    """The folder with a model of scikit-learn, which a job trained."""
    (folder / "train.py").write_text(TRAINER)
    words = ["run", "train.py", "--backend=process", f"--base-output-dir={(folder / 'output').as_uri()}"]
    image = "--executor-image-uri=us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest"
    subprocess.run([*VTRAIN, *words, image], cwd=folder, check=True, capture_output=True)
    return next((folder / "output").rglob("model.joblib")).parent


def deployed(url: str, model: Path, number: int) -> str:
    """The name of an endpoint with the model."""
    name = f"iris-{number}"
    document = {"displayName": name, "artifactUri": model.as_uri(), "containerSpec": CONTAINER}
    uploaded = finished(url, ask(url, "POST", f"{REGION}/models:upload", json.dumps({"model": document})))
    made = finished(url, ask(url, "POST", f"{REGION}/endpoints", json.dumps({"displayName": name})))
    endpoint = str(made["name"])
    machine = {"machineSpec": {"machineType": "n1-standard-2"}, "minReplicaCount": 1}
    body = {
        "deployedModel": {"model": uploaded["model"], "dedicatedResources": machine},
        "trafficSplit": {"0": 100},
    }
    finished(url, ask(url, "POST", f"/v1/{endpoint}:deployModel", json.dumps(body)))
    return endpoint


def finished(url: str, operation: dict[str, Any]) -> dict[str, Any]:
    """The response of an operation, once it is there."""
    while not operation.get("done"):
        time.sleep(measure.PAUSE_SECONDS)
        operation = ask(url, "GET", f"/v1/{operation['name']}")
    response: dict[str, Any] = operation["response"]
    return response


def predicts(url: str, endpoint: str) -> bool:
    """Whether the endpoint answers."""
    return len(ask(url, "POST", f"/v1/{endpoint}:predict", BODY)["predictions"]) == 10


def ask_socket(address: Path) -> None:
    """One prediction by the model's server itself, on a connection of its own."""
    connection = HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(os.fspath(address))
    try:
        connection.request("POST", "/predict", BODY, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status == 200, content
    finally:
        connection.close()


def memory(scratch: Path) -> float:
    """What the servers hold together, in MB: a page that several share counts once."""
    total = 0
    for cwd in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):  # it has ended
            if cwd.resolve().is_relative_to(scratch):
                lines = cwd.with_name("smaps_rollup").read_text().splitlines()
                total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


if __name__ == "__main__":
    raise SystemExit(main())
