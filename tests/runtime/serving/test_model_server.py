"""The program that stands in for the pre-built containers, asked over HTTP."""

from __future__ import annotations

import http.client
import json
import os
import pickle
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from vtrain.retry import wait_until
from vtrain.runtime.serving.payload import model_server

HEALTH, PREDICT = "/health", "/predict"
CODE = """
class Doubler:
    def predict(self, instances):
        if instances.ndim != 2 or instances.shape[1] != 2:
            raise ValueError(f"expected 2 features, found {instances.shape}")
        return instances.sum(axis=1) * 2


class Broken:
    def predict(self, instances):
        raise RuntimeError("a fault of the model")
"""


TENSORFLOW = """
class errors:
    class OpError(Exception):
        message = "the graph failed"

class Tensor(list):
    numpy = lambda self: self
    tolist = lambda self: list(self)

class Spec:
    def __init__(self, dtype):
        self.dtype = dtype

def constant(values, dtype):
    if any(type(value) not in dtype for value in values):
        raise TypeError(f"expected {dtype[0].__name__}")
    return Tensor(values)

class Signature:
    def __init__(self, **inputs):
        self.structured_input_signature = ((), {name: Spec(dtype) for name, dtype in inputs.items()})

    def __call__(self, number, text=None):
        if 13 in number:
            raise errors.OpError()
        found = {"double": Tensor(2 * each for each in number)}
        return found if text is None else {**found, "text": text}

class Loaded:
    def __init__(self, folder):
        content = open(folder + "/saved_model.pb").read()
        inputs = {"number": (int, float)} | ({"text": (bytes,)} if content == "both" else {})
        self.signatures = {"other" if content == "other" else "serving_default": Signature(**inputs)}

class saved_model:
    load = Loaded
"""
"""As much of TensorFlow as the program asks, with a model that doubles numbers."""


class Server:
    """The program, started as a backend starts it."""

    def __init__(self, folder: Path, family: str, modules: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
            routes = {"AIP_HEALTH_ROUTE": HEALTH, "AIP_PREDICT_ROUTE": PREDICT}
            self.process = subprocess.Popen(
                [sys.executable, model_server.__file__, family, str(listener.fileno())],
                env=os.environ | routes | {"AIP_STORAGE_URI": str(folder), "PYTHONPATH": str(modules)},
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=[listener.fileno()],
            )

    def ask(self, method: str, path: str, body: str = "") -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body=body or None)
        answer = connection.getresponse()
        content = json.loads(answer.read())
        connection.close()
        return answer.status, content

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def last_words(self) -> str:
        """What it wrote to stderr, once it has ended by itself."""
        assert self.process.stderr is not None
        said = self.process.stderr.read()
        self.process.wait()
        return said

    def predict(self, request: Any) -> tuple[int, Any]:
        return self.ask("POST", PREDICT, json.dumps(request))


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """A folder with the module that the models are of."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "tiny.py").write_text(CODE)
    (folder / "tensorflow.py").write_text(TENSORFLOW)
    return folder


@pytest.fixture
def start(tmp_path: Path, modules: Path) -> Iterator[Callable[..., Server]]:
    with ExitStack() as stack:

        def begin(family: str = "sklearn", **files: bytes) -> Server:
            folder = tmp_path / "model"
            folder.mkdir()
            for name, content in files.items():
                (folder / ".".join(name.rsplit("_", 1))).write_bytes(content)
            server = Server(folder, family, modules)
            stack.enter_context(server.process)
            stack.callback(server.process.kill)
            return server

        yield begin


def pickled(name: str) -> bytes:
    """A model of the module `tiny`, as pickle writes it."""
    return f"ctiny\n{name}\n(tR.".encode()


def test_instances_in_predictions_out(start: Callable[..., Server]) -> None:
    server = start(model_pkl=pickled("Doubler"))
    assert server.ask("GET", HEALTH) == (200, {})
    assert server.predict({"instances": [[1, 2], [3, 4]]}) == (200, {"predictions": [6, 14]})
    assert server.predict({"instances": [[0.5, 0.5]], "parameters": {}}) == (200, {"predictions": [2.0]})


@pytest.mark.parametrize(
    ("request_document", "said"),
    [
        ({}, "instances"),
        ([], "instances"),
        ({"instances": {}}, "instances"),
        ({"instances": [[1, 2, 3]]}, "expected 2 features, found (1, 3)"),
        ({"instances": [[1, 2], [3]]}, "differ in their shapes"),
    ],
)
def test_what_the_model_does_not_take_is_refused(
    start: Callable[..., Server], request_document: Any, said: str
) -> None:
    status, content = start(model_pkl=pickled("Doubler")).predict(request_document)
    assert status == 400
    assert said in content["error"]


def test_text_that_is_no_json_is_refused(start: Callable[..., Server]) -> None:
    server = start(model_pkl=pickled("Doubler"))
    assert server.ask("POST", PREDICT, "{")[0] == 400
    assert server.ask("GET", "/")[0] == 404
    assert server.ask("POST", "/other", "{}")[0] == 404


def test_a_fault_of_the_model_is_told(start: Callable[..., Server]) -> None:
    answer = start(model_pkl=pickled("Broken")).predict({"instances": [[1, 2]]})
    assert answer == (500, {"error": "RuntimeError: a fault of the model"})


def test_a_module_that_the_container_lacks_is_named(start: Callable[..., Server]) -> None:
    server = start(model_pkl=b"cno_such_module\nModel\n(tR.")
    said = server.last_words()
    assert server.process.returncode == 1
    assert "model.pkl needs the module no_such_module" in said


def test_a_damaged_file_is_named(start: Callable[..., Server]) -> None:
    server = start(model_pkl=pickle.dumps([1, 2, 3])[:-3])
    said = server.last_words()
    assert server.process.returncode == 1
    assert "model.pkl cannot be loaded" in said.splitlines()[-1]


def test_it_ends_with_the_caller(start: Callable[..., Server]) -> None:
    server = start(model_pkl=pickled("Doubler"))
    assert server.ask("GET", HEALTH)[0] == 200
    assert server.process.stdin is not None
    server.process.stdin.close()
    assert wait_until(lambda: server.process.poll() is not None, 60)


def test_a_client_that_goes_away_or_says_nothing_harms_nobody(start: Callable[..., Server]) -> None:
    """A health check that gave up got vtrain's own traceback printed."""
    server = start(model_pkl=pickled("Doubler"))
    gone = server.connect()
    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    gone.sendall(f"GET {HEALTH} HTTP/1.1\r\n\r\n".encode())
    gone.close()  # with a reset, before the model is loaded
    with server.connect():  # which says nothing
        assert server.predict({"instances": [[1, 2]]}) == (200, {"predictions": [6]})
    assert server.process.stdin is not None
    server.process.stdin.close()
    assert server.last_words() == ""


def test_a_model_of_tensorflow_takes_values_of_its_one_input_or_objects(start: Callable[..., Server]) -> None:
    server = start("tf", saved_model_pb=b"one")
    assert server.predict({"instances": [1, 2.5]}) == (200, {"predictions": [2, 5.0]})
    assert server.predict({"instances": [{"number": 4}]}) == (200, {"predictions": [8]})
    assert server.predict({"instances": ["x"]}) == (400, {"error": "expected int"})
    assert server.predict({"instances": [13]}) == (400, {"error": "the graph failed"})


def test_a_model_of_tensorflow_with_several_inputs_and_outputs(start: Callable[..., Server]) -> None:
    server = start("tf", saved_model_pb=b"both")
    rows = [{"number": 1, "text": {"b64": "YWJj"}}, {"number": 2, "text": {"b64": "//4="}}]
    found = [{"double": 2, "text": "abc"}, {"double": 4, "text": {"b64": "//4="}}]
    assert server.predict({"instances": rows}) == (200, {"predictions": found})
    status, content = server.predict({"instances": [{"number": 1}]})
    assert status == 400 and "number, text" in content["error"]
    assert server.predict({"instances": [{"number": 1, "text": {"b64": "*"}}]})[0] == 400


def test_a_model_of_tensorflow_without_the_signature_says_so(start: Callable[..., Server]) -> None:
    assert "Its signatures: other." in start("tf", saved_model_pb=b"other").last_words()
