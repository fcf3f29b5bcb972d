"""`vtrain models predict`: from a request to predictions, on process and on docker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from lib.emulator_service import emulator_service
from lib.environment_packages import wheel
from lib.framework_index import FRAMEWORK, SKLEARN, SUM, framework_index
from lib.storage_service import Http, storage_service
from lib.vertex_service import VertexService
from lib.waiting import wait_until

from vtrain.containers.engine import HOME_LABEL, SERVING_LABEL, Engine
from vtrain.messages.codec import from_document
from vtrain.messages.model import Model, ModelTarget
from vtrain.privacy import home_label
from vtrain.runtime.model_registry import ModelRegistry

XGBOOST = "us-docker.pkg.dev/vertex-ai/prediction/xgboost-cpu.2-1:latest"
REQUEST = '{"instances": [[1, 2], [3, 4]]}'
Predict = Callable[..., Any]


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that bear the names of what the image of scikit-learn has."""
    wheels = framework_index(tmp_path / "wheels")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return wheels


@pytest.fixture
def upload(vtrain: Any, tmp_path: Path) -> Callable[..., None]:
    """Registers the files as the model `m`, with more flags."""

    def run(files: dict[str, bytes], *flags: str, image: str = SKLEARN) -> None:
        folder = tmp_path / "model"
        for name, content in files.items():
            folder.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)
        artifacts = [f"--artifact-uri={folder}"] * bool(files)
        line = ("--display-name=Model", "--model-id=m", f"--container-image-uri={image}", *artifacts)
        ended = vtrain("models", "upload", *line, *flags)
        assert ended.code == 0, ended.err

    return run


@pytest.fixture
def predict(vtrain: Any) -> Predict:
    def run(request: str = REQUEST, *flags: str, name: str = "m") -> Any:
        return vtrain("models", "predict", name, "--json-request=-", *flags, stdin=request)

    return run


PROCESS = "--backend=process"


def test_predictions_are_printed_as_gcloud_does(
    index: Path, upload: Any, predict: Predict, vtrain_home: Path
) -> None:
    """The environment is made once, and nothing is left running."""
    upload({"model.pkl": SUM})
    ended = predict(REQUEST, PROCESS, "--verbosity=info")
    assert (ended.code, ended.out) == (0, "[3, 7]\n"), ended.err
    assert "scikit-learn==1.6.1" in ended.err
    whole = predict(REQUEST, PROCESS, "--format=json")
    assert "Making an environment" not in whole.err
    assert len(list((vtrain_home / "environments" / "packages").glob("*/complete"))) == 1
    assert json.loads(whole.out) == {
        "predictions": [3, 7],
        "model": "projects/local/locations/us-central1/models/m",
        "modelDisplayName": "Model",
        "modelVersionId": "1",
    }
    assert list(Path(os.environ["TMPDIR"]).glob("vtrain-*")) == []
    wrong = predict('{"instances": [[1, 2, 3]]}', PROCESS)
    assert (wrong.code, wrong.out) == (1, "")
    assert "expected 2 features" in wrong.err, "in the model's words"


def test_a_job_is_asked_in_the_versions_that_it_was_trained_with(
    index: Path, vtrain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(
        index, "scikit_learn", "1.9.0", module="sklearn", code=FRAMEWORK.replace("sum(each)", "sum(each) + 9")
    )
    (tmp_path / "trainer").mkdir()
    monkeypatch.chdir(tmp_path / "trainer")
    Path("train.py").write_text(
        "# /// script\n# dependencies = ['scikit-learn==1.9.0', 'numpy']\n# ///\nimport os, pathlib\n"
        "folder = pathlib.Path(os.environ['AIP_MODEL_DIR'])\nfolder.mkdir(parents=True, exist_ok=True)\n"
        f"(folder / 'model.pkl').write_bytes({SUM!r})\n"
    )
    line = ("predict", "train", f"--json-request={REQUEST}")
    assert vtrain("run").code == 0
    ended = vtrain(*line)
    assert (ended.code, ended.out) == (0, "[12, 16]\n"), ended.err
    assert "environment" not in ended.err
    assert vtrain("run", "train.py", "--display-name=none", "--", "x").code == 0
    next(Path.home().rglob("none-*/model/model.pkl")).unlink()
    ended = vtrain("predict", "none", f"--json-request={REQUEST}")
    assert ended.code == 1 and "The job has written no model that can be served: model.bst, " in ended.err
    assert "  A trainer saves its model in the folder that AIP_MODEL_DIR names: here " in ended.err
    ended = vtrain("predict", "none")
    assert ended.code == 2 and '  For example: --json-request=\'{"instances": [[1.0, 2.0]' in ended.err


def test_warnings_of_the_framework_are_told(index: Path, upload: Any, predict: Predict) -> None:
    upload({"model.pkl": b"csklearn\nOld\n(tR."})
    ended = predict(REQUEST, PROCESS)
    assert (ended.code, ended.out) == (0, "[3, 7]\n")
    assert "WARNING: The model's server wrote:" in ended.err and "of another version" in ended.err


def test_a_model_of_a_newer_framework_is_told_in_one_line(index: Path, upload: Any, predict: Predict) -> None:
    upload({"model.pkl": b"csklearn\nNewer\n(tR."})
    ended = predict(REQUEST, PROCESS)
    assert (ended.code, ended.out) == (0, "[3, 7]\n")
    line = "The model's server wrote: The model was saved with scikit-learn 1.9.0, and 1.6.1 serves it."
    assert ended.err.splitlines()[-1] == f"WARNING: {line}"
    assert "pandas, pandas" not in ended.err


def test_no_other_user_reaches_the_server(index: Path, upload: Any, predict: Predict) -> None:
    """One on a port of 127.0.0.1 could be asked, or kept busy, by everybody on the machine."""
    upload({"model.pkl": b"csklearn\nWhere\n(tR."})
    answer = json.loads(predict(REQUEST, PROCESS, "--format=json").out)
    assert answer["predictions"] == ["AF_UNIX", "0o700"]


@pytest.mark.parametrize(
    ("request_text", "said"),
    [
        ('{"instances": [', "is no JSON"),
        ("", "is no JSON"),
        ("[[1, 2]]", 'no JSON object with "instances"'),
        ('{"inputs": []}', 'no JSON object with "instances"'),
        ('{"instances": {"a": 1}}', "is no list"),
        ('{"instances": []}', "is empty"),
        ("[" * 100_000, "is no JSON"),
    ],
)
def test_what_is_no_request_is_refused_before_anything_starts(
    predict: Predict, vtrain_home: Path, request_text: str, said: str
) -> None:
    ended = predict(request_text, PROCESS)
    assert (ended.code, ended.out) == (1, "")
    assert said in ended.err and '{"instances": [[1.0' in ended.err
    assert not vtrain_home.exists()


def test_files_of_requests(vtrain: Any, tmp_path: Path) -> None:
    assert "cannot read" in vtrain("models", "predict", "m", f"--json-request={tmp_path}/none").err
    assert vtrain("models", "predict", "m").code == 2
    said = vtrain("models", "predict", "m", "--json-request=[[1, 2]]").err
    assert '--json-request: the text is no JSON object with "instances".' in said


def test_a_damaged_model_is_told(index: Path, upload: Any, predict: Predict) -> None:
    upload({"model.pkl": b"no pickle"})
    ended = predict(REQUEST, PROCESS)
    assert ended.code == 1 and "model.pkl cannot be loaded" in ended.err


@pytest.mark.parametrize(
    ("files", "image", "flags", "said"),
    [
        ({}, SKLEARN, (), "without --artifact-uri"),
        ({"model.bst": b""}, SKLEARN, (), "model.joblib, model.pkl"),
        ({"model.txt": b""}, XGBOOST, (), "model.bst, model.joblib, model.pkl"),
        ({"model.pkl": SUM}, "gcr.io/demo/serve", (), "--backend=docker"),
        ({"model.pkl": SUM}, SKLEARN, ("--container-command=serve",), "--backend=docker"),
    ],
)
def test_what_process_does_not_serve_is_told(
    upload: Any, predict: Predict, files: dict[str, bytes], image: str, flags: tuple[str, ...], said: str
) -> None:
    upload(files, *flags, image=image)
    ended = predict(REQUEST, PROCESS)
    assert (ended.code, ended.out) == (1, "")
    assert said in ended.err


def test_files_that_are_gone_are_told(upload: Any, predict: Predict, tmp_path: Path) -> None:
    upload({"model.pkl": SUM})
    (tmp_path / "model" / "model.pkl").unlink()
    assert "has no files" in predict(REQUEST, PROCESS).err
    (tmp_path / "model").rmdir()
    assert "are gone" in predict(REQUEST, PROCESS).err


def test_four_ask_at_once_where_nothing_is_made_yet(index: Path, upload: Any) -> None:
    upload({"model.pkl": SUM})
    asking = [ask_in_a_process(PROCESS, stdout=subprocess.PIPE) for _ in range(4)]
    assert [each.communicate()[0] for each in asking] == [b"[3, 7]\n"] * 4


def servers(folder: Path) -> list[str]:
    """The processes of this machine that run in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").readlink().is_relative_to(folder):
                found.append(process.name)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which processes run where")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_server_ends_with_its_command(index: Path, upload: Any, number: int) -> None:
    """The model takes long to load: its file is a call of `time.sleep`."""
    upload({"model.pkl": b"ctime\nsleep\n(I1000\ntR."})
    scratch = Path(os.environ["TMPDIR"]).resolve()
    asking = ask_in_a_process(PROCESS)
    wait_until(lambda: servers(scratch), pause=0.05)
    asking.send_signal(number)
    asking.wait()
    wait_until(lambda: not servers(scratch), pause=0.05)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder with a model, into which everybody on this machine can write."""
    with tempfile.TemporaryDirectory(prefix="vtrain-test-", dir="/tmp") as name:
        (Path(name) / "model.pkl").write_bytes(SUM)
        Path(name).chmod(0o777)
        yield Path(name)


def test_what_others_could_have_written_is_not_loaded(
    index: Path, upload: Any, predict: Predict, open_folder: Path
) -> None:
    upload({}, f"--artifact-uri={open_folder}")
    refused = predict(REQUEST, PROCESS)
    assert (refused.code, refused.out) == (1, "")
    assert f"Other users can write to {open_folder}" in refused.err and "--trust" in refused.err
    assert "Making an environment" not in refused.err
    assert predict(REQUEST, PROCESS, "--trust").out == "[3, 7]\n"


def test_a_version_is_asked(index: Path, upload: Any, predict: Predict, vtrain: Any, tmp_path: Path) -> None:
    upload({"model.pkl": SUM})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "model.pkl").write_bytes(SUM)
    line = ("--display-name=d", "--parent-model=m", "--version-aliases=best")
    vtrain("models", "upload", *line, f"--container-image-uri={SKLEARN}", f"--artifact-uri={tmp_path}/other")
    answer = json.loads(predict(REQUEST, PROCESS, "--format=json", name="m@best").out)
    assert answer["modelVersionId"] == "2"


@pytest.fixture
def registered_there(vertex: VertexService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A model of Vertex AI, by its name, with its file in Cloud Storage."""
    name = "projects/demo/locations/us-central1/models/there"
    spec = {"imageUri": SKLEARN}
    model = from_document(
        Model, {"displayName": "There", "containerSpec": spec, "artifactUri": "gs://demo-models/there"}
    )
    ModelRegistry(vertex.home, "us-central1").upload(model, ModelTarget(model_id="there"))
    with storage_service(tmp_path / "service") as storage:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", storage.url)
        folder = storage.buckets / "demo-models" / "there"
        folder.mkdir(parents=True)
        (folder / "model.pkl").write_bytes(SUM)
        yield name


def test_a_model_of_vertex_ai_is_run_where_it_is_trusted(
    index: Path, registered_there: str, predict: Predict
) -> None:
    refused = predict(REQUEST, PROCESS, name=registered_there)
    assert (refused.code, refused.out) == (1, "")
    assert "gs://demo-models/there" in refused.err and "--trust" in refused.err
    ended = predict(REQUEST, PROCESS, "--trust", "--format=json", name=registered_there)
    assert ended.code == 0, ended.err
    answer = json.loads(ended.out)
    assert (answer["predictions"], answer["model"]) == ([3, 7], registered_there)
    assert "Backend: vertex" in ended.err
    assert list(Path(os.environ["TMPDIR"]).glob("vtrain-*")) == []


@pytest.mark.pages
@pytest.mark.network
def test_a_real_model_of_xgboost(vtrain: Any, upload: Any, predict: Predict, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(
        "import os, numpy, xgboost\n"
        "x = numpy.arange(20.0).reshape(10, 2)\n"
        "model = xgboost.train({'objective': 'reg:squarederror'}, xgboost.DMatrix(x, x.sum(axis=1)), 50)\n"
        "os.makedirs(os.environ['AIP_MODEL_DIR'], exist_ok=True)\n"
        "model.save_model(os.environ['AIP_MODEL_DIR'] + '/model.bst')\n"
    )
    line = (
        f"--local-package-path={tmp_path / 'code'}",
        "--script=train.py",
        "--base-output-dir=gs://trees/x",
    )
    trained = vtrain("custom-jobs", "local-run", PROCESS, *line, "--requirements=xgboost==2.1.*")
    assert trained.code == 0, trained.err
    upload({}, "--artifact-uri=gs://trees/x/model", image=XGBOOST)
    ended = predict('{"instances": [[0, 1], [18, 19]]}', PROCESS, "--format=json")
    assert ended.code == 0, ended.err
    low, high = json.loads(ended.out)["predictions"]
    assert abs(low - 1) < 1 and abs(high - 37) < 1


SERVER = """
import base64, json, os, urllib.parse, urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

def read(name):
    uri = os.environ["AIP_STORAGE_URI"]
    if not uri.startswith("gs://"):
        return open(uri + "/" + name).read()
    bucket, _, folder = uri[5:].partition("/")
    storage = urllib.parse.urlsplit(os.environ["STORAGE_EMULATOR_HOST"])
    place = urllib.parse.quote(folder + "/" + name, safe="")
    request = urllib.request.Request(
        f"http://{storage.hostname}:{storage.port}/storage/v1/b/{bucket}/o/{place}?alt=media")
    pair = f"{storage.username}:{storage.password}".encode()
    request.add_header("Authorization", "Basic " + base64.b64encode(pair).decode())
    return urllib.request.urlopen(request).read().decode()

factor = int(read("factor.txt"))

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == os.environ["AIP_HEALTH_ROUTE"] else 404)
        self.end_headers()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200 if self.path == os.environ["AIP_PREDICT_ROUTE"] else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"predictions": [factor * sum(i) for i in body["instances"]]}).encode())

HTTPServer(("", int(os.environ["AIP_HTTP_PORT"])), Handler).serve_forever()
"""
ROUTES = ("--container-ports=9000", "--container-health-route=/h", "--container-predict-route=/p")
OWN = (f"--container-command=^@@^python3@@-c@@{SERVER}", *ROUTES)
DOCKER = "--backend=docker"


@pytest.fixture
def containers(docker_engine: Engine, vtrain_home: Path) -> Iterator[Callable[[], int]]:
    """Counts the containers that serve models of this test's home; none is left at the end."""
    filters = {"label": [SERVING_LABEL, f"{HOME_LABEL}={home_label(vtrain_home)}"]}

    def found() -> list[dict[str, Any]]:
        return list(docker_engine.client.containers(all=True, filters=filters))

    yield lambda: len(found())
    for each in found():
        docker_engine.client.remove_container(each["Id"], force=True, v=True)


@pytest.mark.docker
def test_a_container_answers(containers: Any, base_image: str, upload: Any, predict: Predict) -> None:
    upload({"factor.txt": b"10"}, *OWN, image=base_image)
    ended = predict()
    assert (ended.code, ended.out) == (0, "[30, 70]\n"), ended.err
    assert "Backend: docker" in ended.err
    assert containers() == 0


@pytest.mark.docker
def test_a_container_finds_its_files_in_cloud_storage(
    containers: Any, base_image: str, upload: Any, predict: Predict, vtrain_home: Path
) -> None:
    folder = vtrain_home / "buckets" / "models" / "ten"
    folder.mkdir(parents=True)
    (folder / "factor.txt").write_text("10")
    upload({}, *OWN, "--artifact-uri=gs://models/ten", image=base_image)
    ended = predict(REQUEST, DOCKER)
    assert (ended.code, ended.out) == (0, "[30, 70]\n"), ended.err
    assert containers() == 0


@pytest.mark.docker
def test_a_container_answers_for_an_endpoint(
    containers: Any, base_image: str, upload: Any, vtrain_home: Path
) -> None:
    pytest.importorskip("starlette", reason="needs the extra emulator")
    upload({"factor.txt": b"10"}, *OWN, image=base_image)
    parent = "/v1/projects/demo/locations/us-central1"
    with emulator_service(vtrain_home, backend="docker") as url:
        http = Http(url)
        name = http("POST", f"{parent}/endpoints", {"displayName": "e"}).document["response"]["name"]
        model = {"model": f"{parent.removeprefix('/v1/')}/models/m"}
        body = {"deployedModel": model, "trafficSplit": {"0": 100}}
        operation = http("POST", f"/v1/{name}:deployModel", body).document
        while not operation["done"]:
            operation = http("POST", f"/v1/{operation['name']}:wait", {}).document
        assert "response" in operation, operation
        answer = http("POST", f"/v1/{name}:predict", json.loads(REQUEST)).document
        assert answer["predictions"] == [30, 70] and containers() == 1
        http.connection.close()
    assert containers() == 0


@pytest.mark.docker
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("python3,-c,print('my last words'); raise SystemExit(3)", ("my last words", "exit code was 3")),
        ("no-such-program", ("no-such-program",)),
        ("sleep,1000", ("was not healthy after", "AIP_HEALTH_ROUTE")),
    ],
)
def test_a_container_that_does_not_serve_is_told(
    containers: Any, base_image: str, upload: Any, predict: Predict, command: str, said: tuple[str, ...]
) -> None:
    flags = (f"--container-command={command}", "--container-deployment-timeout-seconds=3")
    upload({"factor.txt": b"10"}, *flags, image=base_image)
    ended = predict(REQUEST, DOCKER)
    assert (ended.code, ended.out) == (1, "")
    for words in said:
        assert words in ended.err
    assert containers() == 0


@pytest.mark.docker
def test_process_is_named_where_a_pre_built_image_cannot_be_had(
    containers: Any, upload: Any, predict: Predict
) -> None:
    upload({"model.pkl": SUM}, image=SKLEARN.replace("1-6:latest", "1-6:no-such-tag"))
    ended = predict()
    assert ended.code == 1
    assert "cannot be pulled" in ended.err and "--backend=process" in ended.err


@pytest.mark.docker
def test_a_container_is_removed_after_ctrl_c(containers: Any, base_image: str, upload: Any) -> None:
    upload({"factor.txt": b"10"}, "--container-command=sleep,1000", image=base_image)
    asking = ask_in_a_process(DOCKER)
    wait_until(lambda: containers() == 1, pause=0.002)  # at once: the engine still makes it
    asking.send_signal(signal.SIGINT)
    assert asking.wait() == 130
    assert containers() == 0


@pytest.mark.docker
def test_what_a_killed_command_leaves_goes_at_the_next_gc(
    containers: Any, base_image: str, upload: Any, vtrain: Any, vtrain_home: Path
) -> None:
    folder = vtrain_home / "buckets" / "models"
    folder.mkdir(parents=True)
    (folder / "factor.txt").write_text("10")
    flags = ("--container-command=sleep,1000", "--artifact-uri=gs://models")
    upload({}, *flags, image=base_image)
    asking = ask_in_a_process(DOCKER)
    wait_until(lambda: containers() == 1, pause=0.1)
    assert vtrain("gc", "--kind=container").code == 0
    assert containers() == 1  # somebody waits for it
    asking.kill()
    asking.wait()
    (scratch,) = Path(os.environ["TMPDIR"]).glob("vtrain-*")
    storage = int((scratch / "storage" / "lock").read_text())
    assert vtrain("gc", "--kind=container").code == 0
    assert containers() == 0
    assert not scratch.exists()
    wait_until(lambda: not Path(f"/proc/{storage}").exists(), pause=0.1)


def ask_in_a_process(backend: str, stdout: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """The command as a process of its own, which waits for the model."""
    line = [sys.executable, "-m", "vtrain", "models", "predict", "m", "--json-request=-", backend]
    with tempfile.TemporaryFile() as request:
        request.write(REQUEST.encode())
        request.seek(0)
        return subprocess.Popen(line, stdin=request, stdout=stdout, stderr=subprocess.DEVNULL)
