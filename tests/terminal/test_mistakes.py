"""What a mistake is answered with: one clear sentence, and what to type next."""

from __future__ import annotations

import os
import time
from pathlib import Path

from lib.stored_jobs import add_job
from terminal.conftest import Golden, Start, Trainer

from vtrain.times import from_epoch

CONFIG = """\
workerPoolSpecs:
- machineSpec:
    machineTyp: n1-standard-4
  replicaCount: 1
  containerSpec:
    imageUri: python:3.11
"""
MISTAKES = {
    "unknown-command": ("run-it", 2),
    "flag-without-dashes": ("run train.py --epochs=3", 2),
    "machine-without-its-flag": ("run train.py --replica-count=2", 2),
    "script-without-flag": ("custom-jobs local-run train.py", 2),
    "no-such-script": ("run trian.py", 1),
    "config": ("submit --config=job.yaml --display-name=digits", 1),
    "no-such-job": ("logs 42", 1),
    "two-jobs": ("rm twin", 1),
    "state": ("ps --state=faild", 2),
    "other-program": ("ls", 2),
    "other-flag": ("submit train.py --name=x", 2),
}


def test_mistakes(start: Start, place: Path, trainer: Trainer, golden: Golden) -> None:
    trainer("print(1)\n")
    (place / "job.yaml").write_text(CONFIG)
    for hours, job_id in ((2, "1000000000000000000"), (3, "2000000000000000000")):
        began = time.time() - hours * 3600 - 60
        home = place.parent / ".vtrain"
        add_job(home, job_id, "twin", created=from_epoch(began), ended=from_epoch(began + 60))
    terminals = {
        name: start(*line.split()) for name, (line, _) in MISTAKES.items()
    }  # at once: that is faster
    for name, terminal in terminals.items():
        assert terminal.end() == MISTAKES[name][1], terminal.transcript
        golden(f"mistake-{name}", terminal, colours=True)


def test_sentences_break_between_words_and_commands_do_not(start: Start) -> None:
    terminal = start("show", "a-job-name-that-nobody-has", columns=40)
    assert terminal.end() == 1
    assert terminal.transcript.splitlines()[-4:] == [
        "ERROR: No job on this machine has the",
        "name 'a-job-name-that-nobody-has'.",
        "  See what there is:",
        "  $ vtrain ps",
    ]
    add_job(Path(os.environ["VTRAIN_HOME"]), "6167751115219977808", "same", state="JOB_STATE_QUEUED")
    terminal = start("exec", "same", "--", "ls", columns=24)
    assert terminal.end() == 1
    assert terminal.transcript.splitlines()[-1] == "  Try again in a moment."
