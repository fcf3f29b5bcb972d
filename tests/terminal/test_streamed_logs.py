"""`create --stream-logs` and `stream-logs` on a terminal."""

from __future__ import annotations

import pytest
from terminal.conftest import Golden, Start, Trainer

CREATE = ("-q", "custom-jobs", "create", "--backend=process", "--display-name=demo", "--stream-logs")
POOL = "--worker-pool-spec=machine-type=n1-standard-4,replica-count=1,local-package-path=.,script="
BAR = """
print("begin")
for step in range(4):
    print(f"\\rstep {step}/3 |###|", end="", file=sys.stderr)
    if step == 2:
        hold()
print(file=sys.stderr)
print("end")
"""


def test_the_frame_of_a_bar_is_in_the_status_line(start: Start, trainer: Trainer) -> None:
    script = trainer(BAR)
    terminal = start(*CREATE[1:], POOL + script)
    terminal.wait_until(lambda: "worker0-0 step 2/3 |###|" in terminal.shown and "RUNNING" in terminal.shown)
    trainer.release()
    assert terminal.end() == 0
    lines = [line.partition(" │ ")[2] for line in terminal.transcript.splitlines() if " │ " in line]
    assert lines == ["begin", "step 3/3 |###|", "end"]
    terminal = start("-q", "custom-jobs", "stream-logs", "@last", "--backend=local")
    assert terminal.end() == 0
    lines = [line.partition(" │ ") for line in terminal.transcript.splitlines() if " │ " in line]
    assert [text for _, _, text in lines] == ["begin", "step 3/3 |###|", "end"]
    assert [prefix for prefix, _, _ in lines] == sorted(prefix for prefix, _, _ in lines)


@pytest.mark.parametrize("colours", [False, True])
def test_a_failure_is_streamed_once(start: Start, trainer: Trainer, golden: Golden, colours: bool) -> None:
    script = trainer("print('begin')\nraise ValueError('no data')\n")
    environment = {} if colours else {"NO_COLOR": "1"}
    terminal = start(*CREATE, POOL + script, env=environment)
    assert terminal.end() == 10
    assert terminal.transcript.count("ValueError: no data") == 2, "in the log, and in the card"
    golden("stream-failure-dark" if colours else "stream-failure", terminal, colours=colours)
