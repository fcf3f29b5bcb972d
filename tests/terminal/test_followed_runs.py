"""Runs that are followed: a dry one, a first and a second, several replicas, a restart, a progress bar."""

from __future__ import annotations

from pathlib import Path

import pytest
from terminal.conftest import PLAIN, Golden, Shows, Start, Trainer

pytestmark = pytest.mark.end_to_end

MODEL = "open(os.environ['AIP_MODEL_DIR'] + '/model.bin', 'w').write('heavy')\nprint('saved')\n"
CRASHES_ONCE = """
if not os.path.exists({marker!r}):
    open({marker!r}, "w").close()
    print("about to crash", flush=True)
    os.kill(os.getpid(), 11)
print("resumed")
"""
IN_TURN = """
if int(os.environ["RANK"]):
    while not os.path.exists({turn!r}):
        time.sleep(0.02)
print("I am", os.environ["RANK"], flush=True)
if not int(os.environ["RANK"]):
    hold()
    time.sleep(1)
"""
"""The primary ends last: a worker that still ran then would be stopped, with another exit code."""
BAR = """
print("begin", flush=True)
for step in range(3):
    print(f"\\repoch 0: {step}/3 |{'#' * step}", end="", file=sys.stderr, flush=True)
hold()
print("\\repoch 0: 3/3 |###", file=sys.stderr)
"""


def test_a_dry_run_a_first_run_and_a_second(
    trainer: Trainer, shows: Shows, start: Start, golden: Golden
) -> None:
    script = trainer(MODEL, name="digits.py")
    shows("run-dry", "run", script, "--dry-run")
    first = start("run", script)
    assert first.end() == 0
    golden("run-first", first, colours=True)
    shows("run-again", "run", script)


def test_each_line_of_several_replicas_has_a_name(
    start: Start, place: Path, trainer: Trainer, golden: Golden
) -> None:
    turn = place.parent / "turn"
    script = trainer(IN_TURN.format(turn=str(turn)))
    pool = "--worker-pool-spec=replica-count=1,machine-type=n1-standard-4"
    words = ("custom-jobs", "local-run", f"{pool},local-package-path=.,script={script}", pool)
    terminal = start(*words, "--display-name=digits")
    terminal.wait_for("I am 0")
    turn.touch()
    terminal.wait_for("I am 1")
    trainer.release()
    assert terminal.end() == 0
    golden("replicas", terminal, colours=True)


def test_a_restart_is_told_between_the_trainers_lines(
    start: Start, place: Path, trainer: Trainer, golden: Golden
) -> None:
    terminal = start("run", trainer(CRASHES_ONCE.format(marker=str(place.parent / "crashed"))))
    assert terminal.end() == 0
    golden("restart", terminal, colours=True)


def test_a_bar_while_it_runs_and_when_it_has_ended(
    start: Start, trainer: Trainer, golden: Golden, columns: int
) -> None:
    terminal = start("run", trainer(BAR), env=PLAIN if columns == 120 else {})
    terminal.wait_for("2/3 |##")
    golden("bar-runs", terminal, colours=True)
    trainer.release()
    assert terminal.end() == 0
    golden("bar-ended", terminal, colours=True)
