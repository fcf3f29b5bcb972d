"""The metrics of jobs that ran: from their files and from lines on their stdout, the same for all who ask."""

from __future__ import annotations

import json
from contextlib import closing
from math import isfinite
from pathlib import Path
from typing import Any

import pytest

from vtrain.emulator.dashboard.job_view import metric_facts
from vtrain.messages.custom_job import CustomJob
from vtrain.rooted import Root
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.output_numbers import LARGEST_FILE, job_numbers, read_numbers
from vtrain.runtime.store import Store

TRAINER = """
import json, sys, time
for step in range(3):
    print(json.dumps({"accuracy": step / 10, "step": step, "pid": 7}), flush=True)
    print(json.dumps({"noise": 1}), file=sys.stderr, flush=True)
print("{not json}")
with open("metrics.jsonl", "w") as file:
    file.write('{"auc": 0.5}\\n')
"""

HYPERTUNE = """
import json, os
def report(name, value):
    path = os.environ.get("CLOUD_ML_HP_METRIC_FILE", "/tmp/hypertune/output.metrics")
    assert os.path.isdir(os.path.dirname(path)) and "CLOUD_ML_TRIAL_ID" not in os.environ
    with open(path, "w") as file:
        file.write(json.dumps({"global_step": "3", "timestamp": 1.5, "trial": "0", name: str(value)}) + "\\n")
"""
"""cloudml-hypertune in short."""
HAND_WRITTEN = """
import os
if "CLOUD_ML_HP_METRIC_FILE" in os.environ:  # as cloudml-hypertune writes it
    raise SystemExit("this is a trial")
"""


@pytest.mark.child
def test_what_a_plain_job_reports_by_hypertune_is_its_metric(
    vtrain: Any, vtrain_home: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "trainer"
    folder.mkdir()
    (folder / "hypertune.py").write_text(HYPERTUNE)
    (folder / "train.py").write_text("import sys, hypertune\nhypertune.report('auc', float(sys.argv[1]))\n")
    (folder / "plain.py").write_text(HAND_WRITTEN)
    for auc in ("0.25", "0.5"):
        ended = vtrain("run", str(folder / "train.py"), "--", auc)
        assert ended.code == 0, ended.err
    listed = json.loads(vtrain("ps", "--metrics", "--format=json").out)
    assert [one["metrics"] for one in listed] == [{"auc": 0.5}, {"auc": 0.25}]
    folder_of_newest = vtrain_home / "jobs" / listed[0]["name"].rpartition("/")[2]
    lines = (f'{{"global_step": "{step}", "auc": "{step}"}}\n' for step in range(LARGEST_FILE // 30))
    JobFolder(folder_of_newest).metric_file.write_text("".join(lines))
    listed = json.loads(vtrain("ps", "--metrics", "--format=json").out)
    assert listed[0]["metrics"] == {"auc": LARGEST_FILE // 30 - 1}, "the last lines of a large file"
    (folder / "train.py").unlink()
    (folder / "hypertune.py").unlink()
    ended = vtrain("run", str(folder / "plain.py"))
    assert ended.code == 0, ended.err


@pytest.mark.child
def test_a_jobs_metrics_are_those_of_stdout_and_of_its_working_directory(vtrain: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINER)
    (tmp_path / "metrics.json").write_text('{"of-an-earlier-run": 1}')
    for rate in (1, 2):
        ended = vtrain("run", str(tmp_path / "train.py"), "--", f"--rate={rate}")
        assert ended.code == 0, ended.err
    listed = json.loads(vtrain("ps", "--metrics", "--format=json").out)
    assert [one["metrics"] for one in listed] == [{"accuracy": 0.2, "auc": 0.5}] * 2
    sides = json.loads(vtrain("compare", "--format=json").out)["jobs"]
    assert [one["metrics"] for one in sides] == [{"accuracy": 0.2, "auc": 0.5}] * 2


@pytest.mark.child
def test_a_field_of_log_records_is_a_metric_where_a_study_names_it(
    vtrain: Any, vtrain_home: Path, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("""print('{"time": 0.25, "loss": 0.5}')""")
    assert vtrain("run", str(tmp_path / "train.py")).code == 0
    with closing(Store.open(vtrain_home)) as store:
        (record,) = store.created_since("2000-01-01T00:00:00Z")
    job = CustomJob(name=record.name)
    assert job_numbers(job, vtrain_home).last == {"loss": 0.5}
    assert job_numbers(job, vtrain_home, wanted=("time",)).last == {"loss": 0.5, "time": 0.25}


@pytest.mark.child
def test_metrics_are_found_before_a_long_rest_of_stdout_and_beside_much_stderr(
    vtrain: Any, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(
        """import sys
print('{"loss": 0.5}', flush=True)
print("text " * 20_000)
for _ in range(500):
    print("a warning", file=sys.stderr, flush=True)
"""
    )
    assert vtrain("run", str(tmp_path / "train.py")).code == 0
    (listed,) = json.loads(vtrain("ps", "--metrics", "--format=json").out)
    assert listed["metrics"] == {"loss": 0.5}


def test_of_a_large_file_of_lines_the_last_count(tmp_path: Path) -> None:
    line = '{"loss": 0.5, "step": %d}\n'
    count = LARGEST_FILE // len(line) + 1000
    (tmp_path / "metrics.jsonl").write_text("".join(line % step for step in range(count)))
    (scalars,) = read_numbers(Root(tmp_path)).files
    assert scalars.series["loss"][-1] == (count - 1, 0.5)
    assert len(scalars.series["loss"]) < count


def test_a_name_of_a_metric_is_on_one_line(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text(json.dumps({"a\nb\x1b": 1}))
    assert read_numbers(Root(tmp_path)).last == {"a\\nb\\x1b": 1}


@pytest.mark.parametrize(
    ("name", "text", "last"),
    [
        ("metrics.jsonl", '{"loss": 0.5}\n{"loss": NaN}\n{"auc": 1}', {"loss": "NaN", "auc": 1}),
        ("metrics.json", '{"loss": [0.5, -Infinity], "auc": [NaN, 1]}', {"loss": "-Infinity", "auc": 1}),
        ("metrics.json", '{"loss": Infinity}', {"loss": "Infinity"}),
        ("metrics.json", '{"loss": 0.5', {"metrics.json": "no JSON"}),
        ("metrics.json", "", {}),
        ("metrics.json", "null", {}),
        ("metrics.json", json.dumps({"loss": 0.5, "all": dict.fromkeys(map(str, range(200_000)), 1)}), {}),
    ],
)
def test_what_is_no_number_in_the_end_is_shown(
    name: str, text: str, last: dict[str, object], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    numbers = read_numbers(Root(tmp_path))
    assert numbers.last == last
    shown = dict(metric_facts(numbers))
    assert [value.partition(" (best")[0] for value in shown.values()] == [*map(str, last.values())]
    assert all(isfinite(y) for one in numbers.files for line in one.series.values() for _, y in line)
