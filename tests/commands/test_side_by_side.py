"""`vtrain compare`: arguments, packages, metrics and files of jobs side by side."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from lib.stored_jobs import add_job

pytestmark = pytest.mark.end_to_end

TRAINER = """
import json, os, pathlib
folder = pathlib.Path(os.environ["AIP_MODEL_DIR"])
folder.mkdir(parents=True, exist_ok=True)
(folder / "metrics.json").write_text(json.dumps({{"accuracy": {accuracy}}}))
"""


@pytest.fixture
def two(vtrain: Any, cwd: Path) -> Path:
    """Two jobs of one script, which was changed between them."""
    (cwd / "t.py").unlink()
    for name, accuracy, words in (("one", 0.5, ["--lr=0.1", "--same=1"]), ("two", 0.75, ["--same=1"])):
        (cwd / "train.py").write_text(TRAINER.format(accuracy=accuracy))
        ended = vtrain("run", "train.py", f"--display-name={name}", f"--env=MODE={name}", "--", *words)
        assert ended.code == 0, ended.err
    return cwd


def rows_of(text: str) -> dict[str, list[str]]:
    lines = text.partition("\n\n")[0].splitlines()
    return {cells[0]: cells[1:] for cells in (re.split(r"  +", line) for line in lines)}


def test_what_differs_between_the_two_newest_jobs(vtrain: Any, two: Path) -> None:
    ended = vtrain("compare")
    assert ended.code == 0, ended.err
    rows = rows_of(ended.out)
    assert rows[""] == ["one", "two"]
    assert rows["args.lr"] == ["0.1", "–"]
    assert rows["metrics.accuracy"] == ["0.5", "0.75"]
    assert rows["env.MODE"] == ["one", "two"]
    assert rows["package"][0] != rows["package"][1]
    assert "args.same" not in rows and "The same: args.same=1" in ended.err
    diff = ended.out.partition("\n\n")[2].splitlines()
    assert diff[:2] == ["--- one/train.py", "+++ two/train.py"]
    assert [line[0] for line in diff[2:] if "accuracy" in line] == ["-", "+"]
    again = vtrain("compare", "@last-1", "@last").out
    assert re.sub(r"\d+ s ago *", "", again) == re.sub(r"\d+ s ago *", "", ended.out)
    assert vtrain("compare", "one", "two", "--quiet").err == ""
    found = json.loads(vtrain("compare", "one", "two", "--format=json").out)
    assert found["differences"]["args.lr"] == [0.1, None]
    assert [job["metrics"] for job in found["jobs"]] == [{"accuracy": 0.5}, {"accuracy": 0.75}]
    assert found["files"][0]["diff"][0] == "--- one/train.py"
    assert vtrain("compare", "one", "two", "--format=value(differences.env.MODE)").code == 0
    assert vtrain("run", "train.py", "--display-name=two", "--", "--lr=1").code == 0
    found = json.loads(vtrain("compare", "one", "@last-1", "@last", "--format=json").out)
    assert len(found["files"]) == 1, "the two packages are one"
    assert "two-" in found["files"][0]["after"], "two jobs are called so"


def test_two_scripts_of_one_folder_are_told_apart(vtrain: Any, two: Path) -> None:
    for folder in ("a", "b"):
        (two / folder).mkdir()
        (two / folder / "it's.py").touch()
    for folder in ("a", "b"):
        assert vtrain("run", f"{folder}/it's.py").code == 0
    assert rows_of(vtrain("compare").out)["script"] == ["a/it's.py", "b/it's.py"]


def test_the_script_of_a_study_is_that_of_its_trials(vtrain: Any, two: Path) -> None:
    more = ["--param=lr=1..2", "--metric=accuracy:max", "-n", "1", "--algorithm=random-search"]
    assert vtrain("tune", "train.py", "--backend=process", *more).code == 0
    ended = vtrain("compare", "two", "@last")
    assert rows_of(ended.out)["trials"] == ["–", "1"]
    assert "script" not in rows_of(ended.out) and "script=train.py" in ended.err


def test_a_job_without_a_package_is_compared_too(vtrain: Any, vtrain_home: Path) -> None:
    for number, image in (("1001", "a"), ("1002", "b")):
        pool = {"containerSpec": {"imageUri": image, "args": ["--password=hush-hush-1"]}, "replicaCount": 1}
        add_job(vtrain_home, number, "job", fields={"jobSpec": {"workerPoolSpecs": [pool]}})
    ended = vtrain("compare", "1001", "1002")
    assert rows_of(ended.out)["image"] == ["a", "b"]
    assert "hush" not in ended.out + ended.err


def test_the_backend_of_all_jobs_is_named_once(vtrain: Any, vertex: Any) -> None:
    names = [f"projects/demo/locations/{region}/customJobs/1" for region in ("us-central1", "europe-west4")]
    for name in names:
        vertex.put(name, displayName="job", createTime="2026-11-01T10:00:00Z")
    ended = vtrain("compare", *names)
    assert ended.code == 0 and ended.err.count("Backend: ") == 1, ended.err


def test_what_cannot_be_compared(vtrain: Any, vtrain_home: Path) -> None:
    ended = vtrain("compare")
    assert (ended.code, ended.out) == (1, "")
    assert "ERROR: compare needs two jobs, and there is none on this machine.\n" in ended.err
    assert "@last" not in ended.err
    add_job(vtrain_home, "1001", "job")
    for words, sentence in (
        (("1001",), "compare needs two jobs or more."),
        (("1001", "@last-7"), "There are not so many jobs: @last-7."),
        ((), "ERROR: compare needs two jobs, and there is one on this machine.\n"),
        (("1001", "nothing"), "No job on this machine has the name 'nothing'."),
    ):
        ended = vtrain("compare", *words)
        assert ended.code != 0 and sentence in ended.err
