"""Answers predictions with one model, as the pre-built containers of four frameworks do.

A program of its own: it runs in the environment of the model with the standard library, NumPy and the
framework, on any Python that has them. Its arguments are the family of the container and the descriptor of a
socket that listens already. It ends with the process that holds the other end of its standard input.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import re
import socket
import sys
import threading
import traceback
import warnings
import zipfile
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

FILES = {
    "sklearn": ("model.joblib", "model.pkl"),
    "xgboost": ("model.bst", "model.joblib", "model.pkl"),
    "tf": ("saved_model.pb",),
    "pytorch": ("model.mar",),
}
"""The names of files that the containers of a family accept, in the order in which they look for them."""

_WITHOUT_OWN = "Save a model that has only classes of its framework, or serve it from an image of your own."


class BadRequest(Exception):
    """A request that no model could answer."""


class HandlerFailed(Exception):
    """A handler of PyTorch raised something: TorchServe takes none of it for a fault of the request."""


def load(folder: str, family: str) -> Any:
    """The model in the first file that there is."""
    path = next(path for path in (Path(folder, name) for name in FILES[family]) if path.exists())
    warnings.showwarning = _tell(warnings.showwarning)
    try:
        return _read(path)
    except ModuleNotFoundError as error:
        sys.exit(
            f"{path.name} needs the module {error.name}, which is not in this stand-in for the pre-built "
            f"container of {family}. {_WITHOUT_OWN}"
        )
    except Exception as error:  # whatever a framework raises for a damaged file, or one of another version
        if isinstance(error, AttributeError) and "__main__" in str(error):  # as pickle puts it
            sys.exit(f"{path.name} needs a class of the trainer's script ({error}). {_WITHOUT_OWN}")
        traceback.print_exc()
        sys.exit(f"{path.name} cannot be loaded: {type(error).__name__}: {error}")


def _tell(show: Any) -> Any:
    """Show warnings, those about a model of another version of scikit-learn as one plain line."""
    shown = set()

    def tell(message: Any, *place: Any) -> None:
        found = re.search(r"from version (\S+) when using version (\S+?)\.?\s", f"{message} ")
        if found is None:
            show(message, *place)
        elif found.groups() not in shown:
            shown.add(found.groups())
            print(
                f"The model was saved with scikit-learn {found[1]}, and {found[2]} serves it.",
                file=sys.stderr,
            )

    return tell


def _read(path: Path) -> Any:
    if path.suffix == ".bst":
        import xgboost

        return xgboost.Booster(model_file=str(path))
    if path.suffix == ".pb":
        return SavedModel(path.parent)
    if path.suffix == ".mar":
        return ModelArchive(path)
    if path.suffix == ".joblib":
        import joblib

        return joblib.load(path)
    with path.open("rb") as file:
        return pickle.load(file)


def predict(model: Any, request: Any) -> Any:
    """The predictions for the instances of a request."""
    if not isinstance(request, dict) or not isinstance(request.get("instances"), list):
        raise BadRequest('The request has no list "instances".')
    if isinstance(model, (SavedModel, ModelArchive)):
        return model.predict(request["instances"])
    import numpy

    try:
        instances = numpy.asarray(request["instances"])
    except ValueError as error:
        raise BadRequest(f"The instances differ in their shapes: {error}") from error
    if type(model).__module__.partition(".")[0] == "xgboost" and type(model).__name__ == "Booster":
        import xgboost

        instances = xgboost.DMatrix(instances)
    return numpy.asarray(model.predict(instances)).tolist()


class SavedModel:
    """A model of TensorFlow, asked by its signature as TensorFlow Serving does for rows of JSON.

    Source: tensorflow.org/tfx/serving/api_rest, "Specifying input tensors in row format".
    """

    def __init__(self, folder: Path) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # else it writes about the processor
        import tensorflow

        self._tensorflow = tensorflow
        self._loaded = tensorflow.saved_model.load(str(folder))  # the signature lives as long as it does
        signatures = self._loaded.signatures
        if "serving_default" not in signatures:
            names = ", ".join(sorted(signatures)) or "none"
            sys.exit(f"The model has no signature serving_default. Its signatures: {names}.")
        self._signature = signatures["serving_default"]
        self._inputs = self._signature.structured_input_signature[1]

    def predict(self, instances: list[Any]) -> list[Any]:
        """The outputs for each instance: one value, or an object of several by their names."""
        tensorflow = self._tensorflow
        try:
            inputs = {
                name: tensorflow.constant(values, dtype=self._inputs[name].dtype)
                for name, values in self._columns(_with_bytes(instances)).items()
            }
            outputs = self._signature(**inputs)
        except tensorflow.errors.OpError as error:
            raise BadRequest(error.message) from error
        columns = {name: _with_text(tensor.numpy().tolist()) for name, tensor in outputs.items()}
        if not all(isinstance(rows, list) for rows in columns.values()):
            raise BadRequest("The model answers with one value for all instances.")
        if len(columns) == 1:
            (rows,) = columns.values()
            return list(rows)
        length = min(map(len, columns.values()))
        return [{name: rows[place] for name, rows in columns.items()} for place in range(length)]

    def _columns(self, instances: list[Any]) -> dict[str, list[Any]]:
        """The values of each input. With one input, an instance is its value."""
        names = set(self._inputs)
        if all(isinstance(row, dict) and set(row) == names for row in instances):
            return {name: [row[name] for row in instances] for name in names}
        if len(names) == 1:
            return dict.fromkeys(names, instances)
        raise BadRequest(f"Each instance has to be an object with {', '.join(sorted(names))}.")


class ModelArchive:
    """A model of PyTorch with its handler, which TorchServe's own code loads; its server in Java is not run.

    The container gives it instances by TorchServe's JSON envelope. Source: TorchServe 0.12 (model_loader.py,
    service.py, request_envelope/json.py).
    """

    def __init__(self, path: Path) -> None:
        import ts
        from ts.context import RequestProcessor
        from ts.metrics.metric_cache_yaml_impl import MetricsCacheYamlImpl
        from ts.model_loader import TsModelLoader

        folder = Path("archive").absolute()
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
        described = json.loads((folder / "MAR-INF" / "MANIFEST.json").read_text())["model"]
        os.chdir(folder)  # as TorchServe's workers do
        sys.path.insert(0, str(folder))
        handler = Path(described["handler"].partition(":")[0]).stem
        if (folder / f"{handler}.py").exists():
            import_module(handler)  # where that fails, TorchServe would miss a handler of its own
        metrics = MetricsCacheYamlImpl(str(Path(ts.__file__).parent / "configs" / "metrics.yaml"))
        metrics.initialize_cache()
        service = TsModelLoader().load(
            described["modelName"], str(folder), described["handler"], None, 1, "json", metrics_cache=metrics
        )
        self._context = service.context
        self._context.request_ids = {0: "0"}
        self._context.request_processor = [RequestProcessor({"content-type": "application/json"})]
        self._handle = service._entry_point
        self._one_at_a_time = threading.Lock()
        """As a worker of TorchServe is asked."""

    def predict(self, instances: list[Any]) -> list[Any]:
        """The predictions of the handler."""
        try:
            with self._one_at_a_time:
                (answer,) = self._handle([{"body": {"instances": instances}}], self._context)
            return list(json.loads(answer)["predictions"])
        except Exception as error:
            traceback.print_exc()
            raise HandlerFailed(f"{type(error).__name__}: {error}") from error


def _with_bytes(value: Any) -> Any:
    """The value with bytes for each {"b64": TEXT}."""
    if isinstance(value, dict):
        if set(value) == {"b64"}:
            return base64.b64decode(value["b64"], validate=True)
        return {name: _with_bytes(item) for name, item in value.items()}
    return [_with_bytes(item) for item in value] if isinstance(value, list) else value


def _with_text(value: Any) -> Any:
    """The value with text for bytes; with {"b64": TEXT} where they are none."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode()}
    return [_with_text(item) for item in value] if isinstance(value, list) else value


class Handler(BaseHTTPRequestHandler):
    """The two routes of the contract."""

    model: Any = None

    def do_GET(self) -> None:
        """Answer a health check: the model is loaded by the time that anything is answered."""
        found = self.path == os.environ["AIP_HEALTH_ROUTE"]
        self._answer(HTTPStatus.OK if found else HTTPStatus.NOT_FOUND, {})

    def do_POST(self) -> None:
        """Answer a prediction."""
        if self.path != os.environ["AIP_PREDICT_ROUTE"]:
            self._answer(HTTPStatus.NOT_FOUND, {"error": f"There is no {self.path}."})
            return
        try:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer(HTTPStatus.OK, {"predictions": predict(self.model, request)})
        except (BadRequest, ValueError, TypeError) as error:  # what frameworks raise for a wrong shape
            self._answer(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        except Exception as error:
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": f"{type(error).__name__}: {error}"})

    def _answer(self, status: HTTPStatus, document: dict[str, Any]) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_args: object) -> None:
        """Say nothing of requests."""


class Server(ThreadingHTTPServer):
    """Says nothing of a client that goes away, as a health check does that has waited long enough."""

    def handle_error(self, *request: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(*request)


def end_with_the_caller() -> None:
    """End as soon as standard input does: the caller is gone, however it ended."""
    while os.read(0, 1):
        pass
    os._exit(0)


def main() -> None:
    """Load the model, then answer until the caller ends."""
    family, descriptor = sys.argv[1], int(sys.argv[2])
    threading.Thread(target=end_with_the_caller, daemon=True).start()
    Handler.model = load(os.environ["AIP_STORAGE_URI"], family)
    server = Server(("127.0.0.1", 0), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = socket.socket(fileno=descriptor)
    server.serve_forever()


if __name__ == "__main__":
    main()
