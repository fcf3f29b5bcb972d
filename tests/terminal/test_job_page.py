"""`vtrain show` on a terminal: a page about a job; and `vtrain ps` by state, and watched."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from lib.stored_jobs import add_job
from terminal.conftest import Golden, Shows, Start, Trainer

from vtrain.messages import states
from vtrain.messages.names import TRAINING_PIPELINES
from vtrain.times import from_epoch

pytestmark = pytest.mark.end_to_end

GOOD = """
import json
model = os.environ["AIP_MODEL_DIR"].replace("gs://", "/gcs/")
os.makedirs(model, exist_ok=True)
open(f"{model}/model.json", "w").write("{}")
output = os.path.dirname(model.rstrip("/"))
open(f"{output}/metrics.json", "w").write(json.dumps({"accuracy": 0.91, "loss": 0.5}))
"""
BAD = "def divide(x):\n    return 1 / x\ndivide(0)\n"


def test_a_job_that_succeeded_one_that_failed_and_one_that_runs(
    start: Start, trainer: Trainer, shows: Shows
) -> None:
    arguments = ("--", "--lr=0.1", "--data=a path with blanks", *(f"--option-{n}={n}" for n in range(8)))
    assert start("run", trainer(GOOD, "good.py"), *arguments).end() == 0
    assert start("run", trainer(BAD, "bad.py")).end() == 1
    shows("show-good", "show", "good")
    shows("show-bad", "show", "bad")
    assert start("submit", trainer("hold()\n", "slow.py"), "--env=API_TOKEN=hunter2hunter2").end() == 0
    running = start("logs", "-f")
    running.wait_for("RUNNING")
    shows("show-running", "show")
    trainer.release()
    assert running.end() == 0
    yaml = start("show", "good", "--format=yaml")
    assert yaml.end() == 0 and "\njobSpec:\n" in yaml.transcript


def test_jobs_of_other_kinds(start: Start, place: Path, shows: Shows) -> None:
    home, then = place.parent / ".vtrain", from_epoch(time.time() - 3 * 3600)
    pools = [
        {
            "machineSpec": {"machineType": "n1-standard-8", "acceleratorType": "NVIDIA_TESLA_T4"},
            "replicaCount": 1,
        },
        {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 3},
    ]
    for pool in pools:
        pool["pythonPackageSpec"] = {
            "executorImageUri": "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-17.py310"
        }
    add_job(
        home,
        "1000002000000000000",
        "cluster",
        created=then,
        ended=then,
        fields={"jobSpec": {"workerPoolSpecs": pools}},
    )
    model = {"modelToUpload": {"name": "projects/local/locations/us-central1/models/7", "displayName": "m"}}
    add_job(
        home,
        "2000002000000000000",
        "pipe",
        state="PIPELINE_STATE_SUCCEEDED",
        collection=TRAINING_PIPELINES,
        created=then,
        ended=then,
        fields=model,
    )
    shows("show-cluster", "show", "cluster")
    shows("show-pipeline", "show", "pipe")


def test_a_list_by_state_and_one_that_is_watched(
    start: Start, place: Path, golden: Golden, shows: Shows
) -> None:
    home, then = place.parent / ".vtrain", from_epoch(time.time() - 3 * 3600)
    add_job(home, "1000002000000000000", "mnist")
    add_job(home, "2000002000000000000", "digits", state=states.FAILED, created=then, ended=then)
    shows("ps-state", "ps", "--state=failed")
    watched = start("ps", "--watch", "--state=failed")
    watched.wait_for("Ctrl-C leaves.")
    long = "a new one with a very long name that does not fit"
    add_job(home, "3000002000000000000", long, state=states.FAILED, created=then, ended=then)
    watched.wait_for("a new one")
    watched.press("\x03")
    assert watched.end() == 0
    golden("ps-watch", watched)


def test_all_are_stopped_after_a_question(start: Start, trainer: Trainer, golden: Golden) -> None:
    for name in ("one", "two"):
        assert start("submit", trainer("hold()\n", f"{name}.py")).end() == 0
    for answer, code in (("n", 1), ("y", 0)):
        terminal = start("stop", "--all")
        terminal.wait_for("[y/N]:")
        terminal.press(f"{answer}\n")
        assert terminal.end() == code, terminal.transcript
        golden(f"stop-all-{answer}", terminal, colours=True)


def test_a_command_rings_at_its_end(start: Start, place: Path) -> None:
    add_job(place.parent / ".vtrain", "1000002000000000000", "mnist")
    terminal = start("wait", "mnist", "--notify")
    assert terminal.end() == 0
    assert b"\x1b]9;vtrain wait mnist --notify succeeded after " in terminal.raw
    assert terminal.raw.endswith(b"\x07\x07")
    assert "]9;" not in terminal.transcript
