"""`vtrain ps` on a terminal."""

from __future__ import annotations

import json
import time
from pathlib import Path

from lib.experiment_files import add_run
from lib.stored_jobs import add_job
from terminal.conftest import Golden, Start

from vtrain.messages import states
from vtrain.times import from_epoch

LONG = "a name that is too long for eighty columns of a terminal"
JOBS = (
    ("1000002000000000000", "mnist", states.SUCCEEDED, 0, 5, "process"),
    ("1000003000000000000", LONG, states.FAILED, 1, 4, "docker"),
    ("2000000000000000000", "digits", states.CANCELLED, 143, 3, "process"),
)


def test_jobs_with_age_duration_state_and_exit_code(
    start: Start, place: Path, golden: Golden, columns: int
) -> None:
    now = time.time()
    for job_id, display_name, state, code, hours, backend in JOBS:
        began = now - hours * 3600 - 60
        add_job(
            place.parent / ".vtrain",
            job_id,
            display_name,
            state=state,
            created=from_epoch(began),
            ended=from_epoch(began + 7500),
            backend=backend,
            fields={"replicas": [{"name": "workerpool0-0", "attempts": [{"attempt": 0, "exitCode": code}]}]},
        )
    terminal = start("ps")
    assert terminal.end() == 0
    golden("ps", terminal, colours=columns == 120)


def test_jobs_and_runs_with_arguments_and_metrics(
    start: Start, place: Path, golden: Golden, columns: int
) -> None:
    home, now = place.parent / ".vtrain", time.time()
    for number, rate in enumerate((0.1, 0.01)):
        output = home / "buckets" / "local-runs" / f"job-{number}"
        output.mkdir(parents=True)
        history = [{"step": step, "loss": rate / step, "val_accuracy": 0.9 + rate} for step in (1, 2, 3)]
        (output / "metrics.json").write_text(json.dumps(history))
        args = [f"--learning-rate={rate}", "--units", "64", "--activation=relu", "--augment"]
        pool = {"replicaCount": 1, "pythonPackageSpec": {"args": args}}
        where = {"outputUriPrefix": f"gs://local-runs/job-{number}"}
        add_job(
            home,
            f"{number + 1}00000200000000000{number}",
            "a name that is long",
            created=from_epoch(now - (5 - number) * 3600 - 60),
            fields={"jobSpec": {"workerPoolSpecs": [pool], "baseOutputDirectory": where}},
        )
    add_run(
        home,
        "digits",
        "first",
        created=from_epoch(now - 2 * 3600 - 60),
        _params={"learning-rate": 0.2, "optimizer": "adam"},
        _metrics={"val_accuracy": 0.875},
        _state="COMPLETE",
    )
    terminal = start("ps", "--metrics", "--sort=~args.units")
    assert terminal.end() == 0
    golden("ps-metrics", terminal, colours=columns == 120)
    watched = start("ps", "--watch", "--columns=learning-rate,units,nothing", "--sort=units")
    watched.wait_for("Ctrl-C leaves.")
    watched.read_for(1.5)  # it is drawn again, and warns no more
    watched.press("\x03")
    assert watched.end() == 0
    golden("ps-watch-metrics", watched, colours=columns == 120)
    terminal = start("compare", "@last", "@last-1")
    assert terminal.end() == 0
    golden("compare", terminal, colours=columns == 120)
