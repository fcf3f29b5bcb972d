"""What commands that look after this machine show: they fit the terminal, and name jobs as people do."""

from __future__ import annotations

import os
import time
from pathlib import Path

from terminal.conftest import Golden, Start, Trainer


def test_all_is_removed_after_a_question(start: Start, trainer: Trainer, golden: Golden, place: Path) -> None:
    trainer('open(os.environ["AIP_MODEL_DIR"].replace("gs://", "/gcs/") + "/model", "w").close()\n')
    assert start("run", "train.py").end() == 0
    for used in place.parent.glob(".vtrain/packages/**/*"):
        os.utime(used, (time.time() + 600,) * 2)  # however slow the machine is
    terminal = start("gc", "--all")
    terminal.wait_for("[y/N]:")
    terminal.press("y\n")
    assert terminal.end() == 0
    golden("gc-all", terminal)


def test_output_is_listed_and_a_deleted_job_says_where_its_own_stays(
    start: Start, trainer: Trainer, golden: Golden
) -> None:
    script = trainer("open(os.environ['AIP_MODEL_DIR'] + '/model.bin', 'w').write('heavy')\n")
    words = ("--backend=process", "--display-name=digits", f"--local-package-path={script}", "--wait", "-q")
    assert start("custom-jobs", "create", *words).end() == 0
    listing = start("gc", "--kind=output", "--older-than=0s", "--dry-run")
    assert listing.end() == 0
    golden("gc-output", listing)
    deletion = start("custom-jobs", "delete", "digits", columns=120)
    assert deletion.end() == 0
    assert (
        "Its output stays. To remove that too:\n$ rm -r ~/.vtrain/buckets/local-runs/digits-"
        in deletion.transcript
    )


def test_a_check_fits_the_terminal(start: Start) -> None:
    terminal = start("doctor", "--backend=docker", env={"DOCKER_HOST": "tcp://127.0.0.1:1"})
    assert terminal.end() == 1
    (engine,) = (line for line in terminal.transcript.splitlines() if " engine  " in line)
    assert engine == "  ✗ engine                The Docker engine at tcp://127.0.0.1:1 (from"
    assert "\x1b[1;31m✗\x1b[0m engine" in terminal.raw.decode()
