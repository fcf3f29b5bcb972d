"""Several processes at the same job, or all creating: nothing breaks, and the end is the same for all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from lib.local_jobs import PRIMARY, ended, folder_of, lines, snippet_job, submit

import vtrain
from vtrain.backends import Query
from vtrain.backends.local import LocalBackend
from vtrain.messages import states
from vtrain.messages.codec import to_document
from vtrain.runtime.store import Store

pytestmark = pytest.mark.end_to_end

ROOT = str(Path(vtrain.__file__).parent.parent)
PREFACE = """
import json, random, sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from vtrain.backends import BackendSettings, Query
from vtrain.backends.registry import open_backend
from vtrain.errors import ConflictError, NotFoundError
from vtrain.messages.codec import read_message
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogQuery

settings = BackendSettings(home=Path(sys.argv[1]), project="local", region="us-central1")
"""
CROWD = (
    PREFACE
    + """
name, seed = sys.argv[2], int(sys.argv[3])
backend, choice = open_backend("process", settings), random.Random(seed)
verbs = [
    lambda: backend.get(name),
    lambda: backend.list(Query()),
    lambda: backend.logs(LogQuery(name=name)),
    lambda: backend.cancel(name),
    lambda: backend.kill(name),
    lambda: backend.delete(name),
]
deadline = time.monotonic() + 100
while time.monotonic() < deadline:
    try:
        choice.choice(verbs)()
    except ConflictError:
        time.sleep(0.01)
    except NotFoundError:
        if not backend.list(Query()).jobs:
            break
else:
    sys.exit("the job is still there")
"""
)
CREATES = (
    PREFACE
    + """
job = read_message(CustomJob, json.loads(sys.argv[2]))


def create(_number):
    backend = open_backend("process", settings)
    return backend.submit(backend.plan(job)).name


with ThreadPoolExecutor(5) as crew:
    print(json.dumps(list(crew.map(create, range(5)))))
"""
)


def start(program: str, *argv: object) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", program, *map(str, argv)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def finish(crew: list[subprocess.Popen[str]]) -> list[str]:
    """What each has printed; none may have failed."""
    ends = [(one, *one.communicate(timeout=150)) for one in crew]
    assert [(one.returncode, err) for one, _, err in ends] == [(0, "")] * len(crew)
    return [out for _, out, _ in ends]


def test_a_crowd_reads_cancels_and_deletes_the_same_job(
    process_backend: LocalBackend, home: Path, tmp_path: Path
) -> None:
    code = "import time\nfor i in range(6000): print(i, flush=True); time.sleep(0.01)\n"
    name = submit(process_backend, snippet_job(tmp_path / "code", code))
    finish([start(CROWD, home, name, seed) for seed in range(5)])
    assert process_backend.list(Query()).jobs == ()
    assert list((home / "jobs").iterdir()) == []
    store = Store.open(home)
    for table in ("resources", "requests", "leases"):
        assert store.execute(f"SELECT * FROM {table}") == [], table


def test_many_are_created_at_once(process_backend: LocalBackend, home: Path, tmp_path: Path) -> None:
    job = snippet_job(tmp_path / "code", "print('trained')\n")
    document = json.dumps(to_document(job))
    printed = finish([start(CREATES, home, document) for _ in range(4)])
    names = [name for text in printed for name in json.loads(text)]
    assert len(set(names)) == 20
    assert {ended(process_backend, name).state for name in names} == {states.SUCCEEDED}
    listed = process_backend.list(Query()).jobs
    assert {one.name for one in listed} == set(names)
    for one in listed:
        assert process_backend.get(one.name) == one
        assert lines(process_backend, one.name, PRIMARY) == ["trained"]
        assert folder_of(home, one.name).path.is_dir()
