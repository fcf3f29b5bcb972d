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
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from lib.waiting import wait_until

from vtrain.runtime.serving import model_server

pytestmark = pytest.mark.end_to_end

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
                cwd=folder.parent,
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


def test_a_class_of_the_script_that_saved_the_model_is_named(start: Callable[..., Server]) -> None:
    said = start(model_pkl=b"c__main__\nLinear\n(tR.").last_words()
    (line,) = said.splitlines()
    assert line.startswith("model.pkl needs a class of the trainer's script (") and "Linear" in line
    assert "Traceback" not in said


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
    wait_until(lambda: server.process.poll() is not None)


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


needs_torch = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("torch", "ts", "yaml")), reason="needs PyTorch and TorchServe"
)
FUNCTION = """
import json, os

def handle(data, context):
    if data is None:
        assert os.getcwd() == context.system_properties["model_dir"]
        return None
    if b"fault" in data:
        raise ValueError("a fault of the handler")
    return [row.decode() + json.load(open("names.json"))[0] for row in data]
"""
CLASS = """
import torch
from ts.torch_handler.base_handler import BaseHandler

class Sum(BaseHandler):
    def postprocess(self, data):
        return [{"sum": row} for row in super().postprocess(data)]
"""
MODEL = """
import torch
from torch import nn

class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2))

    def forward(self, rows):
        return rows.float() @ self.weight
"""


def archive(handler: str, **files: str | bytes) -> bytes:
    """A model archive, as torch-model-archiver packs it."""
    described = {
        "modelName": "model",
        "handler": handler,
        "modelFile": "model.py",
        "serializedFile": "model.pt",
    }
    with zipfile.ZipFile(content := BytesIO(), "w") as packed:
        packed.writestr("MAR-INF/MANIFEST.json", json.dumps({"runtime": "python", "model": described}))
        for name, text in files.items():
            packed.writestr(".".join(name.rsplit("_", 1)), text)
    return content.getvalue()


def weights() -> bytes:
    """Those that sum up the first number of a row, and twice the second."""
    import torch

    torch.save({"weight": torch.tensor([1.0, 2.0])}, content := BytesIO())
    return content.getvalue()


@pytest.mark.torch
@needs_torch
def test_an_archive_of_pytorch_with_a_function(start: Callable[..., Server]) -> None:
    content = archive("handler.py:handle", handler_py=FUNCTION, names_json='["!"]')
    server = start("pytorch", model_mar=content)
    asked = {"instances": [{"b64": "YWJj"}, {"b64": "ZA=="}]}
    assert server.predict(asked) == (200, {"predictions": ["abc!", "d!"]})
    failed = (500, {"error": "HandlerFailed: ValueError: a fault of the handler"})
    assert server.predict({"instances": [{"b64": "ZmF1bHQ="}]}) == failed
    assert server.predict({"instances": "x"})[0] == 400
    assert server.predict(asked)[0] == 200


@pytest.mark.torch
@needs_torch
@pytest.mark.parametrize("is_own", [False, True])
def test_an_archive_of_pytorch_with_a_class_of_torchserve(start: Callable[..., Server], is_own: bool) -> None:
    files = {"model_py": MODEL, "model_pt": weights()} | ({"handler_py": CLASS} if is_own else {})
    server = start("pytorch", model_mar=archive("handler.py" if is_own else "base_handler", **files))
    found = [{"sum": 5.0}, {"sum": 11.0}] if is_own else [5.0, 11.0]
    assert server.predict({"instances": [[1, 2], [3, 4]]}) == (200, {"predictions": found})


@pytest.mark.torch
@needs_torch
def test_an_archive_of_pytorch_that_needs_more_says_so(start: Callable[..., Server]) -> None:
    said = start("pytorch", model_mar=archive("handler.py", handler_py="import not_there")).last_words()
    assert "model.mar needs the module not_there, which is not in this stand-in for" in said
