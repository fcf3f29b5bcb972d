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
from pathlib import Path
from typing import Any

import pytest
from lib.vertex_service import VertexService

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
    assert str(caught[0]) == f"{job.name} ended in the state CANCELLED."
    assert library.get("slow").state == "CANCELLED"


def test_a_job_that_ran_into_its_timeout_says_so(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "scheduling: {timeout: 1s}\nworkerPoolSpecs: [{replicaCount: 1, pythonPackageSpec: {}}]\n"
    )
    job = library.submit(script(tmp_path, "import time\ntime.sleep(600)\n"), config=tmp_path / "job.yaml")
    with pytest.raises(JobCancelledError) as caught:
        job.wait()
    words = f"{job.name} ended in the state {job.state}: the job ran longer than its timeout of 1s."
    assert str(caught.value) == words


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


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"args": "--steps=3"}, 'args is one text: give a list of texts, such as args=["TEXT"].'),
        ({"requirements": "numpy"}, "requirements is one text: give a list of texts"),
        ({"args": {"--steps": "3"}}, "args is of type dict: give a list of texts"),
        ({"args": ["a", 3]}, "args[1] is of type int: give text."),
        ({"args": ["a\udcffb"]}, "args[0] is not UTF-8: give text that UTF-8 can encode."),
        ({"args": ["a\0b"]}, "args[0] holds a NUL character: give text without it."),
        ({"env": {"TOKEN": "hush\0"}}, "env['TOKEN'] holds a NUL character"),
        ({"env": {"A\0": "b"}}, r"The name 'A\x00' in env holds a NUL character"),
        ({"env": {1: "a"}}, "The name 1 in env is of type int: give text."),
        ({"env": {"A": 1}}, "env['A'] is of type int: give text."),
        ({"env": "A=1"}, 'env is of type str: give a dictionary of texts, such as env={"NAME": "TEXT"}.'),
        ({"labels": 3}, "labels is of type int: give a dictionary of texts"),
        ({"trainer": 3}, "trainer is of type int: give a path, as text or as a Path."),
        ({"trainer": b"train.py"}, "trainer is of type bytes: give a path"),
        ({"trainer": "tr\udcff.py"}, "trainer is not UTF-8"),
        ({"config": "a\0", "trainer": None}, "config holds a NUL character"),
        ({"replica_count": "2"}, "replica_count is of type str: give a whole number from 1 on."),
        ({"replica_count": True}, "replica_count is of type bool: give a whole number from 1 on."),
        ({"replica_count": 0}, "replica_count is 0: give a whole number from 1 on."),
        ({"accelerator_count": -1}, "accelerator_count is -1: give a whole number from 0 on."),
        ({"gpus": "T5"}, "gpus: there is no accelerator 'T5'."),
        ({"gpus": "T4", "accelerator_type": "NVIDIA_L4"}, "gpus and accelerator_type exclude each other."),
        ({"gpus": "T4", "accelerator_count": 2}, "accelerator_count: gpus says the number, such as T4:2."),
        ({"spot": "no"}, "spot is of type str: give True or False."),
        ({"flex_start": 1}, "flex_start is of type int: give True or False."),
        ({"spot": True, "flex_start": True}, "spot and flex_start exclude each other."),
        ({"name": "a\udcff"}, "name is not UTF-8"),
        ({"machine_type": 4}, "machine_type is of type int: give text."),
        ({"backend": 3}, "backend is of type int: give text."),
        ({"project": 3}, "project is of type int: give text."),
        ({"region": 3}, "region is of type int: give text."),
        ({"staging_bucket": 3}, "staging_bucket is of type int: give text."),
    ],
)
def test_an_argument_of_the_wrong_type_is_named_with_what_to_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vtrain_home: Path, given: dict[str, Any], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    script(tmp_path, "")
    with pytest.raises(ConfigError, match=re.escape(words)) as caught:
        library.submit(**{"trainer": "train.py"} | given)
    assert "hush" not in str(caught.value)
    assert not vtrain_home.exists()


class Word(str):
    """A text of another library, such as numpy's."""


def test_none_is_not_given_and_a_kind_of_text_is_text(tmp_path: Path) -> None:
    trainer = script(tmp_path, "import os, sys\nprint(os.environ['A'], *sys.argv[1:])\n")
    nothing: Any = None
    words: Any = (Word(word) for word in "ab")
    job = library.submit(trainer, args=words, env={Word("A"): Word("1")}, name=Word("x"), region=nothing)
    assert "1 a b" in [str(entry) for entry in job.logs()] and job.display_name == "x"
    assert library.submit(trainer, args=nothing, requirements=nothing, name=nothing).display_name == "train"


def test_what_a_job_is_asked_for_is_checked_too(tmp_path: Path) -> None:
    job = library.submit(script(tmp_path, ""), replica_count=4)
    wrong: Any = 3
    for call, words in (
        (lambda: library.get(wrong), "name is of type int: give text."),
        (lambda: library.get("a\udcff"), "name is not UTF-8"),
        (lambda: library.get("1", region=wrong), "region is of type int"),
        (lambda: list(library.follow(wrong)), "job is of type int"),
        (lambda: job.logs(replica=wrong), "replica is of type int"),
        (lambda: job.wait("3"), "timeout is of type str: give a number of seconds."),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigError, match=words):
            call()


def test_a_replica_that_the_job_does_not_have_is_an_error(tmp_path: Path) -> None:
    met = tmp_path / "met"  # the first replica's end ends the job, so it waits for the others
    trainer = f"""
import time
print("here", flush=True)
with open({str(met)!r}, "a") as file:
    file.write("x")
while len(open({str(met)!r}).read()) < 4:
    time.sleep(0.01)
"""
    job = library.submit(script(tmp_path, trainer), replica_count=4)
    for follow in (True, False):
        with pytest.raises(NotFoundError) as caught:
            job.logs(replica="nope", follow=follow)
    assert str(caught.value) == (
        f"{job.name} has no replica 'nope': give workerpool0-0, workerpool1-0 to workerpool1-2, "
        "or service for the lines about the job itself."
    )
    assert [str(entry) for entry in job.logs(replica="workerpool1-2")] == ["here"]
    assert {entry.task_name for entry in job.logs(replica="service")} == {"service"}
    assert list(job.logs(replica="cloud-logging")) == []  # its trainer has sent nothing there


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


def test_machines_by_the_words_of_flags(vertex: VertexService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VTRAIN_BACKEND")
    library.submit(image="gcr.io/demo/trainer", gpus="T4:2", boot_disk_size=200, spot=True)
    sent = next(request.body for request in vertex.requests if request.method == "POST")["jobSpec"]
    (pool,) = sent["workerPoolSpecs"]
    assert pool["machineSpec"]["machineType"] == "n1-standard-4"
    assert pool["machineSpec"]["acceleratorCount"] == 2
    assert pool["diskSpec"]["bootDiskSizeGb"] == 200
    assert sent["scheduling"] == {"strategy": "SPOT"}


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
    assert typed == vars(library)["_HOMES"]
    assert all(getattr(library, name) is not None for name in vars(library)["__all__"])


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
