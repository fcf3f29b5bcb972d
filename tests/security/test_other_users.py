"""Servers of one user, and what another user of the machine gets from them: nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lib.privileges import python_as_nobody

import vtrain

pytest.importorskip("uvicorn")
pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]
ROOT = Path(vtrain.__file__).parent.parent
SECRET = re.compile(r"token-[\w-]{32}")
ASK = """
JOB = json.dumps({"displayName": "x", "jobSpec": {"workerPoolSpecs": [{
    "machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1,
    "pythonPackageSpec": {"executorImageUri": "x", "pythonModule": "this"}}]}})
PLACE = "/v1/projects/p/locations/us-central1/"
JOBS = PLACE + "customJobs"
REQUESTS = [
    ("GET", "/", ""), ("GET", JOBS, ""), ("POST", JOBS, JOB),
    ("GET", "/jobs/local/us-central1/customJobs/1", ""),
    ("GET", "/storage/v1/b", ""), ("POST", "/storage/v1/b", '{"name": "stolen"}'),
    ("POST", "/upload/storage/v1/b/b/o?uploadType=media&name=x", "x"), ("POST", "/batch/storage/v1", ""),
    *(("POST", PLACE + path, "{}") for path in (
        "endpoints", "endpoints/1:predict", "endpoints/1:rawPredict", "endpoints/1:deployModel",
        "models:upload", "batchPredictionJobs", "datasets", "datasets/1:import", "tensorboards",
        "metadataStores", "metadataStores/default/contexts")),
    ("POST", "/v2/entries:list", "{}"), ("GET", "/computeMetadata/v1/project/project-id", ""),
    ("CONNECT", "us-central1-aiplatform.googleapis.com:443", ""),
]
told = {}
for port in sys.argv[1:]:
    for method, path, body in REQUESTS:
        with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as client:
            head = f"{method} {path} HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\nMetadata-Flavor: Google\\r\\n"
            client.sendall(f"{head}Content-Length: {len(body)}\\r\\n\\r\\n{body}".encode())
            told[f"{port} {method} {path}"] = client.recv(1000).decode("latin-1")
print(json.dumps(told))
"""
LOOK = """
def files(place):
    yield place
    if os.path.isdir(place):
        yield from (os.path.join(at, name) for at, _, names in os.walk(place) for name in names)

for number in filter(str.isdecimal, os.listdir("/proc")):
    for name in ("cmdline", "environ"):
        try:
            print(pathlib.Path("/proc", number, name).read_text("utf-8", "replace"))
        except OSError:
            pass
for place in sys.argv[1:]:
    for name in files(place):
        try:
            print(name, pathlib.Path(name).read_text("utf-8", "replace"))
        except OSError:
            pass
"""


def listening(process: int) -> list[int]:
    """The TCP ports that a process listens on."""
    links = []
    for each in Path(f"/proc/{process}/fd").iterdir():
        try:
            links.append(str(each.readlink()))
        except OSError:  # closed meanwhile
            continue
    rows = [line.split() for line in Path(f"/proc/{process}/net/tcp").read_text().splitlines()[1:]]
    return [
        int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in links
    ]


def read(ended: subprocess.CompletedProcess[str]) -> str:
    """What a script has printed that ended well."""
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@contextmanager
def started(home: Path, *words: str) -> Iterator[tuple[int, str]]:
    """A command of vtrain's that serves: its process, and the first line of its stdout."""
    argv = [sys.executable, "-m", "vtrain", *words]
    environment = os.environ | {"VTRAIN_HOME": str(home), "PYTHONPATH": str(ROOT)}
    environment["TMPDIR"] = str(home.parent)
    with subprocess.Popen(
        argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as one:
        assert one.stdout is not None
        try:
            yield one.pid, one.stdout.readline().strip()
        finally:
            one.send_signal(signal.SIGTERM)
            one.wait(timeout=60)


SERVERS = {
    "exec": ("emulator", "exec", "--", "sh", "-c", "env | tr '\\n' ' '; echo; exec sleep 600"),
    "start": ("emulator", "start", "--port=0", "--verbosity=debug"),
    "start --grpc": ("emulator", "start", "--port=0", "--grpc"),
    "storage": ("emulator", "storage"),
    "dashboard": ("dashboard", "--no-browser"),
}


@pytest.mark.parametrize("name", SERVERS)
def test_another_user_is_not_answered(tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    (home / "buckets" / "b").mkdir(parents=True)
    with started(home, *SERVERS[name]) as (process, line):
        (secret,) = set(SECRET.findall(line))
        ports = listening(process)
        assert ports
        told = read(python_as_nobody(ASK, *map(str, ports)))
        seen = read(python_as_nobody(LOOK, str(tmp_path)))
    codes = {request: answer.split(" ")[1] for request, answer in json.loads(told).items()}
    assert set(codes.values()) <= {"400", "401", "403", "407"}, codes
    assert secret not in seen
    assert not (home / "buckets" / "stolen").exists() and not list((home / "buckets" / "b").iterdir())
