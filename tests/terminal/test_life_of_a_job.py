"""One job from `submit` to `rm`, and one that waits for its place in the queue."""

from __future__ import annotations

import pytest
from terminal.conftest import Golden, Shows, Start, Trainer

pytestmark = pytest.mark.end_to_end

STEPS = "print('step 1', flush=True)\nhold()\nprint('saved')\n"


def test_a_job_is_submitted_followed_stopped_and_deleted(
    start: Start, trainer: Trainer, golden: Golden, shows: Shows
) -> None:
    def on_one(name: str, *words: str) -> None:
        terminal = start(*words)
        assert terminal.end() == 0, terminal.transcript
        golden(name, terminal, colours=True)

    on_one("submit", "submit", trainer(STEPS), "--display-name=digits")
    follower = start("logs", "digits", "-f")
    follower.wait_for("step 1")
    shows("logs-of-running", "logs", "@last")
    shows("rm-running", "rm", "digits", code=1)
    on_one("stop", "stop", "digits")
    assert follower.end() == 11
    golden("logs-until-stopped", follower, colours=True)
    shows("wait-stopped", "custom-jobs", "wait", "digits", code=11)
    on_one("stop-ended", "stop", "digits")
    on_one("rm", "rm", "digits", "-q")
    shows("ps-empty", "ps")
    shows("show-nobody", "show", "nobody", code=1)


def test_a_job_waits_for_its_place_and_succeeds(
    start: Start, trainer: Trainer, golden: Golden, shows: Shows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VTRAIN_MEMORY", "16g")
    words = ("submit", trainer(STEPS), "--memory=10g")
    first = start(*words, "--display-name=first", "--stream-logs")
    first.wait_for("step 1")
    terminal = start(*words, "--display-name=second", "--wait")
    terminal.wait_for("VTRAIN_MEMORY=none")
    trainer.release()
    assert first.end() == terminal.end() == 0
    golden("submit-queued", terminal, colours=True)
    shows("logs-of-queued", "logs", "second")
