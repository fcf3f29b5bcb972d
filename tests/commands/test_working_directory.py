"""A trainer's working directory on local backends: its files are there, and what it leaves there is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TASK = """
import json, os, sys
from pathlib import Path

print("lr:", Path("config/config.yaml").read_text().strip())
print("from the package:", Path(__file__).with_name("defaults.json").read_text())
print("stale:", os.path.exists("model.pt"))
os.makedirs("data")
Path("data/cache.csv").write_text("1,2")
Path("model.pt").write_text("weights")
Path("config/config.yaml").write_text("lr: 0.5")
first = Path(sys.argv[1])
if not first.exists():
    first.write_text("x")
    os.abort()
"""
SCRIPT = """
import os, sys
import reading

print("lines:", len(reading.lines("notes.txt")))
open("data.csv", "w").write("1,2")
open("notes.txt", "a").write("third")
os.makedirs("runs/1")
open("runs/1/model.pt", "w").write("weights")
"""
FILES = {
    "module": {
        "trainer/__init__.py": "",
        "trainer/task.py": TASK,
        "trainer/defaults.json": "{}",
        "config/config.yaml": "lr: 0.1",
    },
    "script": {
        "train.py": SCRIPT,
        "reading.py": "def lines(path):\n    return open(path).read().split()\n",
        "notes.txt": "first second ",
    },
}
Run = Callable[..., Any]


@pytest.fixture
def trainer(tmp_path: Path) -> Path:
    for kind, files in FILES.items():
        for name, text in files.items():
            path = tmp_path / kind / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return tmp_path


@pytest.fixture(params=["process", pytest.param("docker", marks=pytest.mark.docker)])
def run(request: pytest.FixtureRequest, vtrain: Run, trainer: Path, tmp_path: Path) -> Run:
    """Runs one of the trainers; the user's tree is the same afterwards."""
    where = [f"--backend={request.param}"]
    if request.param == "docker":
        image = request.getfixturevalue("base_image")
        where += [f"--executor-image-uri={image}", "--pull=never"]
        where += [f"--mount=type=bind,source={tmp_path},target={tmp_path}"]

    def run(kind: str, *words: str) -> Any:
        before = _digests(trainer / kind)
        ended = vtrain("custom-jobs", "local-run", f"--local-package-path={trainer / kind}", *where, *words)
        assert _digests(trainer / kind) == before
        return ended

    return run


def _digests(folder: Path) -> dict[Path, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def work_of(home: Path, attempt: str = "") -> Path:
    (replica,) = home.glob("jobs/*/replicas/workerpool0-0")
    return replica / attempt / "work"


def kept(work: Path) -> dict[str, str]:
    return {
        str(path.relative_to(work)): path.read_text("latin-1") for path in work.rglob("*") if path.is_file()
    }


def test_a_module_has_its_files_and_each_attempt_a_fresh_copy(
    run: Run, vtrain_home: Path, tmp_path: Path
) -> None:
    first = tmp_path / "first-attempt"
    ended = run("module", "--python-module=trainer.task", "--staging-bucket=gs://stage", "--", str(first))
    assert ended.code == 0, ended.err
    told = ["lr: lr: 0.1", "from the package: {}", "stale: False"]
    assert [line for line in ended.out.splitlines() if line in told] == [*told, *told]
    left = {"config/config.yaml": "lr: 0.5", "data/cache.csv": "1,2", "model.pt": "weights"}
    for attempt in ("", "restarts/1"):
        assert left.items() <= kept(work_of(vtrain_home, attempt)).items()
        assert f"{work_of(vtrain_home, attempt)} (model.pt, data/cache.csv)" in ended.err


def test_a_script_may_write_beside_itself(run: Run, vtrain: Run, vtrain_home: Path) -> None:
    ended = run("script", "--script=train.py")
    assert (ended.code, ended.out) == (0, "lines: 2\n"), ended.err
    work = work_of(vtrain_home)
    left = {"data.csv": "1,2", "notes.txt": "first second third", "runs/1/model.pt": "weights"}
    assert left.items() <= kept(work).items()
    assert f"{work} (data.csv, runs/1/model.pt)" in ended.err
    (job,) = (vtrain_home / "jobs").iterdir()
    assert vtrain("custom-jobs", "delete", job.name, "--quiet").code == 0
    assert not job.exists()


ASTRAY = """import os, pathlib, sys
if sys.argv[1] == "made":
    pathlib.Path("gs://my-bucket").mkdir(parents=True)
else:
    os.makedirs("gs://my-bucket/results")
    open("gs://my-bucket/results/model.bin", "w").write("m")
"""
LOST = (
    "WARNING: workerpool0-0 wrote to a local folder `gs:`; on Vertex AI that is lost: use /gcs/…, a client "
    "library, or --aip-dirs=local.\n"
)


@pytest.mark.parametrize("how", ["made", "written"])
def test_a_folder_called_as_buckets_are_is_no_bucket(vtrain: Any, tmp_path: Path, how: str) -> None:
    (tmp_path / "train.py").write_text(ASTRAY)
    ended = vtrain("run", str(tmp_path / "train.py"), "--backend=process", "--", how)
    assert ended.code == 0
    assert LOST in ended.err


@pytest.mark.docker
@pytest.mark.parametrize("form", ["package", "container", "image"])
def test_no_more_in_a_container(vtrain: Any, tmp_path: Path, base_image: str, form: str) -> None:
    (tmp_path / "train.py").write_text(ASTRAY)
    image = f"--executor-image-uri={base_image}"
    script = (f"--local-package-path={tmp_path / 'train.py'}", image)
    flags = {"package": script, "container": (image, "--command=python"), "image": (*script, "--bake")}[form]
    program = ("-c", ASTRAY) if form == "container" else ()
    ended = vtrain("custom-jobs", "local-run", "--backend=docker", *flags, "--", *program, "written")
    assert ended.code == 0, ended.err
    assert LOST in ended.err
