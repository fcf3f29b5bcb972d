"""The metrics of jobs that ran: from their files and from lines on their stdout, the same for all who ask."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TRAINER = """
import json, sys, time
for step in range(3):
    print(json.dumps({"accuracy": step / 10, "step": step, "pid": 7}), flush=True)
    print(json.dumps({"noise": 1}), file=sys.stderr, flush=True)
print("{not json}")
with open("metrics.jsonl", "w") as file:
    file.write('{"auc": 0.5}\\n')
"""


def test_a_jobs_metrics_are_those_of_stdout_and_of_its_working_directory(
    vtrain: Any, vtrain_home: Path, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(TRAINER)
    (tmp_path / "metrics.json").write_text('{"of-an-earlier-run": 1}')
    for rate in (1, 2):
        ended = vtrain("run", str(tmp_path / "train.py"), "--", f"--rate={rate}")
        assert ended.code == 0, ended.err
    listed = json.loads(vtrain("ps", "--metrics", "--format=json").out)
    assert [one["metrics"] for one in listed] == [{"accuracy": 0.2, "auc": 0.5}] * 2
    sides = json.loads(vtrain("compare", "--format=json").out)["jobs"]
    assert [one["metrics"] for one in sides] == [{"accuracy": 0.2, "auc": 0.5}] * 2
