"""What a trainer reaches besides Cloud Storage: credentials, and the emulator that took its job."""

from __future__ import annotations

import json
import os
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lib.storage_service import Http
from lib.waiting import wait_until

from vtrain.backends import BackendSettings
from vtrain.backends.registry import open_backend
from vtrain.emulator.running import Running
from vtrain.emulator.server import EmulatorOrder, serving
from vtrain.emulator.storage.guard import Admission, new_token
from vtrain.messages import states
from vtrain.messages.codec import from_document
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogQuery

PARENT = "projects/demo/locations/us-central1"
REFUSED = "No emulator runs for this job, or it does not emulate "

BARE = """
import json, os, sys, time, urllib.error, urllib.request

def told(*words):
    print(*words, flush=True)

def ask(url, **headers):
    try:
        request = urllib.request.Request(url, headers=headers)
        return urllib.request.urlopen(request, timeout=60).read().decode()
    except urllib.error.HTTPError as error:
        return f"{error.code} " + error.read().decode()

def metadata(path):
    place = os.environ["GCE_METADATA_HOST"]
    return ask(f"http://{place}/computeMetadata/v1/{path}", **{"Metadata-Flavor": "Google"})

def rest():
    token = json.loads(metadata("instance/service-accounts/default/token"))["access_token"]
    url = "https://us-central1-aiplatform.googleapis.com/v1/projects/demo/locations/us-central1/customJobs"
    return ask(url, Authorization=f"Bearer {token}")

def wait_for(number):
    while not os.path.exists(os.path.join(sys.argv[1], number)):
        time.sleep(0.05)
"""
LOGGING = f"""{BARE}
def post(path, **fields):
    try:
        body, place = json.dumps(fields).encode(), f"https://logging.googleapis.com/v2/entries:{{path}}"
        return urllib.request.urlopen(urllib.request.Request(place, body), timeout=60).read().decode()
    except urllib.error.HTTPError as error:
        return f"{{error.code}} " + error.read().decode()

def write(*entries, **fields):
    return post("write", entries=entries, logName="projects/demo/logs/python", **fields)

text = {{"textPayload": "by the library 1", "severity": "WARNING"}}
payload = {{"message": "by the library 2", "step": 10**30}}
told("answer", write(text, {{"jsonPayload": payload, "severity": 500}}))
told("dry", write({{"textPayload": "never"}}, dryRun=True))
severities = ({{"severity": wrong}} for wrong in (900, -100, []))
for entry in (1, {{"textPayload": 1}}, {{"jsonPayload": "x"}}, *severities):
    told("wrong", write(entry))
told("other", post("tail"))
own = f'resource.labels.job_id="{{os.environ["CLOUD_ML_JOB_ID"]}}" AND severity=ERROR'
told("listed", post("list?alt=json", filter=own))
told("refused", post("list", filter="no=field"))
told("done", os.environ["GOOGLE_CLOUD_DISABLE_GRPC"])
"""
WITHOUT_LIBRARIES = f"""{BARE}
told("project", metadata("project/project-id"))
path = "/computeMetadata/v1/instance/service-accounts/default/token"
for name in ("us-central1-aiplatform", "logging"):
    told("token", ask(f"https://{{name}}.googleapis.com{{path}}", **{{"Metadata-Flavor": "Google"}}))
told("jobs", rest()[:250])
told("elsewhere", ask("https://bigquery.googleapis.com/v2/x"))
told("environment", dict(os.environ))
"""
WITH_LIBRARIES = f"""{BARE}
import google.auth, grpc
from google.auth.transport import grpc as authorized
from google.auth.transport.requests import AuthorizedSession, Request

credentials, project = google.auth.default()
told("project", project)
channel, logging = (
    authorized.secure_authorized_channel(credentials, Request(), f"{{name}}.googleapis.com:443")
    for name in ("us-central1-aiplatform", "logging")
)
parent = b"projects/demo/locations/us-central1"
question = b"\\n" + bytes([len(parent)]) + parent

def called(channel, method):
    try:
        return b"named" in channel.unary_unary(method)(question, timeout=60)
    except grpc.RpcError as error:
        return error.code().name + " " + error.details()

def list_jobs():
    return called(channel, "/google.cloud.aiplatform.v1.JobService/ListCustomJobs")

def each():
    session = AuthorizedSession(credentials)
    answer = session.get(f"https://us-central1-aiplatform.googleapis.com/v1/{{parent.decode()}}/customJobs")
    told("rest", answer.status_code, answer.text[:250])
    said = list_jobs()
    while str(said).startswith("UNAVAILABLE"):  # as long as the connection to the emulator ends
        time.sleep(0.1)
        said = list_jobs()
    told("grpc", said)
    told("logging", called(logging, "/google.logging.v2.LoggingServiceV2/ListLogEntries"))

for number in "123":
    wait_for(number)
    began = time.monotonic()
    each()
    told("took", time.monotonic() - began < 30)
"""


@contextmanager
def emulator(home: Path, backend: str = "process", *, grpc: bool = False) -> Iterator[Running]:
    """One that runs for the home."""
    order = EmulatorOrder(
        home=home,
        backend=backend,
        project="demo",
        host="127.0.0.1",
        port=0,
        admission=Admission(token=new_token()),
        grpc=grpc,
    )
    with serving(order, lambda _: None) as (running, _):
        yield running


def pool_of(task: dict[str, Any]) -> dict[str, Any]:
    """A job of one replica."""
    pool = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "1", **task}
    return {"displayName": "named", "jobSpec": {"workerPoolSpecs": [pool]}}


def package_of(folder: Path, code: str) -> dict[str, Any]:
    """A task that runs the program with the packages of this Python; the folder is its argument."""
    (folder / "asking.py").write_text(code)
    path = os.pathsep.join([str(folder), sysconfig.get_path("purelib")])
    package = {
        "executorImageUri": "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest",
        "pythonModule": "asking",
        "args": [str(folder)],
        "env": [{"name": "PYTHONPATH", "value": path}],
    }
    return {"pythonPackageSpec": package}


def settings_at(home: Path) -> BackendSettings:
    """Those of `vtrain run --aip-dirs=gs`."""
    return BackendSettings(home=home, project="local", region="us-central1", aip_dirs="gs")


class Submitted:
    """A job, looked at by the backend that runs it."""

    def __init__(self, home: Path, backend: str, name: str) -> None:
        self.backend = open_backend(backend, settings_at(home))
        self.name = name.replace("projects/demo/", "projects/local/")

    def told(self, word: str, count: int = 1) -> str:
        """What the trainer has printed after a word, once it has done so that many times."""
        found: list[str] = []

        def has_come() -> bool:
            entries = self.backend.logs(LogQuery(name=self.name, limit=1 << 20)).entries
            lines = [line for entry in entries for line in entry.message.split("\n")]
            found[:] = [line for line in lines if line.startswith(f"{word} ")]
            assert len(found) >= count or not states.has_ended(self.state()), lines
            return len(found) >= count

        wait_until(has_come)
        return found[count - 1].partition(" ")[2]

    def state(self) -> str:
        return self.backend.get(self.name).state


def submitted(running: Running, home: Path, task: dict[str, Any]) -> Submitted:
    """A job that was sent to the emulator."""
    http = Http(running.url)
    made = http("POST", f"/v1/{PARENT}/customJobs", pool_of(task))
    http.connection.close()
    assert made.status == 200, made.document
    return Submitted(home, running.backend, made.document["name"])


def refused(answer: str) -> bool:
    """Whether REST has heard that nothing answers."""
    return answer.startswith("405 ") and f"{REFUSED}GET https://us-central1-aiplatform" in answer


@pytest.mark.parametrize("backend", ["process", pytest.param("docker", marks=pytest.mark.docker)])
def test_a_trainer_finds_credentials_and_the_api(
    vtrain_home: Path, tmp_path: Path, backend: str, request: pytest.FixtureRequest
) -> None:
    task = package_of(tmp_path, WITHOUT_LIBRARIES)
    if backend == "docker":
        image = request.getfixturevalue("base_image")
        command = ["python3", "-c", WITHOUT_LIBRARIES, "none"]
        task = {"containerSpec": {"imageUri": image, "command": command}}
    with emulator(vtrain_home, backend) as running:
        job = submitted(running, vtrain_home, task)
        assert job.told("project") == "demo"
        assert '"displayName":"named"' in job.told("jobs")
        assert "The emulator does not emulate GET https://bigquery" in job.told("elsewhere")
        # It has the token of its job's own proxy, which leads nowhere once the job has ended.
        environment = job.told("environment")
        assert "GCE_METADATA_HOST" in environment and running.token not in environment
        assert all(job.told("token", count).startswith("404 ") for count in (1, 2))


def test_lines_for_cloud_logging_are_in_the_jobs_log(vtrain_home: Path, tmp_path: Path) -> None:
    backend = open_backend("process", settings_at(vtrain_home))
    document = pool_of(package_of(tmp_path, LOGGING))
    made = backend.submit(backend.plan(from_document(CustomJob, document)))
    job = Submitted(vtrain_home, "process", made.name)
    assert (job.told("answer"), job.told("dry"), job.told("done")) == ("{}", "{}", "true")
    assert all(job.told("wrong", number).startswith("400 ") for number in (1, 2, 3, 4, 5, 6))
    assert f"{REFUSED}POST https://logging.googleapis.com/v2/entries:tail" in job.told("other")
    assert f"{REFUSED}POST https://logging.googleapis.com/v2/entries:list" in job.told("listed")
    entries = backend.logs(LogQuery(name=made.name, task_name="cloud-logging")).entries
    assert [(one.severity, (one.json_payload or {})["message"]) for one in entries] == [
        ("WARNING", "by the library 1"),
        ("ERROR", "by the library 2"),
    ]
    assert (entries[1].json_payload or {})["step"] == 10**30


def test_a_trainer_asks_the_emulator_for_the_jobs_log(vtrain_home: Path, tmp_path: Path) -> None:
    with emulator(vtrain_home) as running:
        job = submitted(running, vtrain_home, package_of(tmp_path, LOGGING))
        assert job.told("answer") == "{}"
        (entry,) = json.loads(job.told("listed"))["entries"]
        assert entry["jsonPayload"]["message"] == "by the library 2"
        assert job.told("refused").startswith("400 ") and "field" in job.told("refused")
        assert "There is no method POST /v2/entries:tail." in job.told("other")


def test_a_trainer_follows_the_emulator(vtrain_home: Path, tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    with emulator(vtrain_home, grpc=True) as first:
        job = submitted(first, vtrain_home, package_of(tmp_path, WITH_LIBRARIES))
        assert job.told("project") == "demo"
        (tmp_path / "1").touch()
        assert job.told("rest").startswith("200 ")
        assert job.told("grpc") == "True"
        refusal = "The emulator does not emulate /google.logging.v2.LoggingServiceV2/ListLogEntries."
        assert job.told("logging") == f"UNIMPLEMENTED {refusal}"
    (tmp_path / "2").touch()
    assert refused(job.told("rest", 2))
    assert job.told("grpc", 2) == f"UNIMPLEMENTED {REFUSED}gRPC."
    with emulator(vtrain_home) as without, emulator(vtrain_home, grpc=True) as second:
        assert first.port not in (without.port, second.port)
        (tmp_path / "3").touch()
        assert job.told("rest", 3).startswith("200 ")
        assert job.told("grpc", 3) == "True"
        assert [job.told("took", number) for number in (1, 2, 3)] == ["True"] * 3


def test_a_job_that_no_emulator_took_reaches_none(vtrain_home: Path, tmp_path: Path) -> None:
    document = pool_of(package_of(tmp_path, WITHOUT_LIBRARIES))
    with emulator(vtrain_home):
        backend = open_backend("process", settings_at(vtrain_home))
        made = backend.submit(backend.plan(from_document(CustomJob, document)))
        job = Submitted(vtrain_home, "process", made.name)
        assert job.told("project") == "local"
        assert refused(job.told("jobs"))
