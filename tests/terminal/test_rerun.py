"""`vtrain rerun` on a terminal: from another folder, and after every saved file."""

from __future__ import annotations

from pathlib import Path

from terminal.conftest import Start
from terminal.pseudo_terminal import CTRL_C


def test_a_job_runs_again_from_anywhere_and_after_every_save(start: Start, place: Path) -> None:
    script = place / "train.sh"
    script.write_text('echo "first with $1"\n')
    assert start("run", "train.sh", "--", "an argument").end() == 0
    watching = start("rerun", "@last", "--watch", cwd=place.parent)
    watching.wait_for("$ vtrain run train.sh -- 'an argument'")
    watching.wait_for("first with an argument")
    script.write_text('echo "second with $1"; exec sleep 60\n')
    watching.wait_for("train.sh has changed: running again.")
    watching.wait_for("second with an argument")
    watching.press(CTRL_C)
    assert watching.end() == 130
    assert "Stopped watching." in watching.transcript
    script.write_text("exit 7\n")
    assert start("rerun", "@last", cwd=place.parent).end() == 7
