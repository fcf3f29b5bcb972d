"""`import vtrain`: jobs from Python, without a word on stdout or stderr."""

from __future__ import annotations

import ast
import inspect
import logging
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from vertex_service import VertexService, serve_vertex

import vtrain as library
from vtrain.errors import (
    ConfigError,
    JobCancelledError,
    JobFailedError,
    NotFoundError,
    VtrainError,
    WaitTimeoutError,
)

ROOT = Path(__file__).parents[1]
TRAINER = """
import os, pathlib, sys
pathlib.Path(os.environ["AIP_MODEL_DIR"], "weights").write_text(os.environ["SEED"])
print("first", *sys.argv[1:])
print("second")
"""


@pytest.fixture(autouse=True)
def on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VTRAIN_BACKEND", "process")
    monkeypatch.setenv("VTRAIN_GRACE_SECONDS", "0")


def script(folder: Path, code: str) -> Path:
    (folder / "train.py").write_text(code)
    return folder / "train.py"


def test_a_job_from_submit_to_output(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    job = library.submit(script(tmp_path, TRAINER), args=["--a,b"], env={"SEED": "7"}, labels={"team": "a"})
    lines = [str(entry) for entry in job.logs() if entry.task_name == "workerpool0-0"]
    assert lines == ["first --a,b", "second"]
    assert job.wait() is job and (job.state, job.has_ended, job.error) == ("SUCCEEDED", True, "")
    assert Path(job.output, "model", "weights").read_text() == "7"
    assert (job.display_name, job.message.labels) == ("train", {"team": "a"})
    again = library.get("@last")
    assert (again.name, repr(again)) == (job.name, f"<Job {job.id} 'train' SUCCEEDED>")
    assert [str(entry) for entry in again.logs(replica="workerpool0-0", follow=False)] == lines
    again.delete()
    with pytest.raises(NotFoundError):
        again.refresh()
    assert capfd.readouterr() == ("", "")
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]


def test_follow_yields_the_log_and_raises_the_cause(tmp_path: Path) -> None:
    job = library.submit(script(tmp_path, "print('begun')\nraise ValueError('no data')\n"))
    seen: list[str] = []
    with pytest.raises(JobFailedError, match="ValueError: no data"):
        seen.extend(str(entry) for entry in library.follow(job))
    assert "begun" in seen and "ValueError: no data" in seen
    with pytest.raises(JobFailedError):
        list(library.follow(job.id))


def test_a_wait_ends_before_the_job_and_another_thread_goes_on(tmp_path: Path) -> None:
    job = library.submit(script(tmp_path, "import time\ntime.sleep(600)\n"), name="slow")
    with pytest.raises(WaitTimeoutError):
        job.wait(timeout=0.01)
    caught: list[Exception] = []

    def end() -> None:
        try:
            job.cancel()
            job.wait()
        except VtrainError as error:
            caught.append(error)

    thread = threading.Thread(target=end)
    thread.start()
    thread.join(60)
    assert [type(error) for error in caught] == [JobCancelledError]
    assert library.get("slow").state == "CANCELLED"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "What to run is not given."),
        ({"trainer": "nowhere.py"}, "There is no script or folder nowhere.py."),
        ({"module": "trainer.task"}, "need a trainer"),
        ({"trainer": ".", "module": "a", "script": "b"}, "exclude each other"),
        ({"config": "none.yaml"}, "none.yaml"),
        ({"trainer": ".", "module": "a", "config": "c", "machine_type": "m"}, "leave out"),
        ({"trainer": ".", "script": "train.py", "backend": "nothing"}, "'nothing'"),
    ],
)
def test_what_cannot_be_meant_is_one_error_and_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vtrain_home: Path, given: dict[str, Any], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    script(tmp_path, "")
    with pytest.raises(ConfigError, match=words):
        library.submit(**given)
    assert not vtrain_home.exists()


def test_a_file_and_the_projects_own_job_take_what_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script(tmp_path, "import os, sys\nprint(os.environ['A'], os.environ['B'], *sys.argv[1:])\n")
    (tmp_path / "pyproject.toml").write_text(
        '[tool.vtrain.job]\nscript = "train.py"\nargs = ["old"]\nenv = {A = "1", B = "1"}\n'
    )
    job = library.submit(args=["new"], env={"B": "2"})
    assert "1 2 new" in [str(entry) for entry in job.logs()]
    (tmp_path / "job.yaml").write_text(
        "displayName: filed\njobSpec: {workerPoolSpecs: [{pythonPackageSpec: {pythonModule: this}}]}\n"
    )
    filed = library.submit(config="job.yaml", name="")
    assert filed.wait().display_name == "filed"


@pytest.fixture
def vertex(monkeypatch: pytest.MonkeyPatch) -> Iterator[VertexService]:
    pytest.importorskip("google.auth", reason="needs the extra vertex")
    with serve_vertex() as service:
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", service.url)
        monkeypatch.setenv("CLOUDSDK_AUTH_DISABLE_CREDENTIALS", "true")
        monkeypatch.setenv("CLOUDSDK_CORE_PROJECT", "demo")
        monkeypatch.setenv("CLOUDSDK_AI_REGION", "us-central1")
        yield service


def test_a_job_on_vertex_ai(
    vertex: VertexService, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("VTRAIN_BACKEND")
    caplog.set_level(logging.WARNING, "vtrain")
    job = library.submit(
        image="gcr.io/demo/trainer",
        name="big",
        machine_type="a2-highgpu-2g",
        accelerator_type="NVIDIA_TESLA_A100",
        accelerator_count=2,
        replica_count=3,
        env={"API_TOKEN": "hush-hush"},
        output="gs://demo/out",
    )
    sent = next(request.body for request in vertex.requests if request.method == "POST")
    pools = sent["jobSpec"]["workerPoolSpecs"]
    assert [int(pool["replicaCount"]) for pool in pools] == [1, 2]
    assert all(pool["machineSpec"]["acceleratorCount"] == 2 for pool in pools)
    assert (job.output, job.display_name) == ("gs://demo/out", "big")
    assert "API_TOKEN" in caplog.text and "hush-hush" not in caplog.text


def test_the_import_costs_next_to_nothing() -> None:
    lines = ("import sys, __future__", "before = set(sys.modules)", "import vtrain")
    program = "\n".join((*lines, "print(*sorted(set(sys.modules) - before))"))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["vtrain"]


def test_each_public_name_has_its_type() -> None:
    tree = ast.parse((ROOT / "vtrain" / "__init__.pyi").read_text())
    typed = {
        alias.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname is not None
    }
    assert typed == library._HOMES
    assert all(getattr(library, name) is not None for name in library.__all__)


def test_the_page_calls_what_there_is() -> None:
    page = (ROOT / "docs" / "how-to" / "use-as-a-library.md").read_text()
    calls = [
        node
        for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    places = {"vtrain": library, "job": library.Job}
    seen = set()
    for call in calls:
        assert isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name)
        name = call.func.value.id
        if name in places:
            own = ["self"] if name == "job" else []
            given = {keyword.arg or "": "" for keyword in call.keywords}
            inspect.signature(getattr(places[name], call.func.attr)).bind(*own, *call.args, **given)
            seen.add(call.func.attr)
    assert seen >= {"submit", "get", "logs", "wait"}
    for attribute in re.findall(r"`job\.(\w+)", page):
        assert attribute == "message" or hasattr(library.Job, attribute), attribute
