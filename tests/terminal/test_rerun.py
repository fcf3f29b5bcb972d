"""`vtrain rerun` on a terminal: from another folder, and after every saved file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from lib.pseudo_terminal import CTRL_C
from terminal.conftest import Start

pytestmark = pytest.mark.end_to_end


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


KEY = "vtrain-idempotency-key"


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("-", "", ["--idempotency-key=k"]),
        ("ci.yaml", "--idempotency-key: k\n--reuse-failed:\n", ["--flags-file=ci.yaml"]),
        ("ci.yaml", f"--labels: {{{KEY}: k}}\n", ["--flags-file", "ci.yaml"]),
        ("job.yaml", f"labels: {{{KEY}: k}}\n", ["--config=job.yaml"]),
        ("pyproject.toml", f'[tool.vtrain.job]\nscript = "train.sh"\nlabels = {{{KEY} = "k"}}\n', []),
    ],
)
def test_a_job_with_a_key_runs_again_wherever_the_key_stands(
    start: Start, place: Path, file: str, text: str, words: list[str]
) -> None:
    (place / file).write_text(text)
    named = [] if file == "pyproject.toml" else ["train.sh"]
    line = ("submit", *named, "--backend=process", "--wait", f"--env=RUNS={place / 'runs'}", *words)
    (place / "train.sh").write_text('echo ran >> "$RUNS"\n')
    for _ in range(2):  # the second answers with the first one's job
        assert start(*line).end() == 0
    assert (place / "runs").read_text() == "ran\n"
    for times in (2, 3):  # a rerun, and the rerun of a rerun
        assert start("rerun", "@last").end() == 0
        assert (place / "runs").read_text() == "ran\n" * times


def test_run_always_runs(start: Start, place: Path) -> None:
    """The project's key is for steps that are repeated, and `run` is none."""
    (place / "pyproject.toml").write_text(f'[tool.vtrain.job]\nscript = "t.sh"\nlabels = {{{KEY} = "k"}}\n')
    (place / "t.sh").write_text("exit 0\n")
    assert [start("run").end() for _ in range(2)] == [0, 0]


@pytest.mark.parametrize(
    ("words", "file"),
    [
        ("--config -", "--config"),
        ("--config=/dev/stdin", "--config"),
        ("--flags-file=/dev/fd/0", "--flags-file"),
        ("--flags-file=ci.yaml", "--config"),
    ],
)
def test_what_came_from_standard_input_is_not_read_again(
    start: Start, place: Path, words: str, file: str
) -> None:
    (place / "t.sh").write_text("exit 0\n")
    (place / "ci.yaml").write_text("--config: '-'\n")
    given = "{}" if "flags-file=/" not in words else "--labels: {a: b}"
    line = f"{sys.executable} -m vtrain submit t.sh --backend=process --wait {words}"
    assert start(program=("sh", "-c", f"echo '{given}' | {line}")).end() == 0
    again = start("rerun", "@last")
    assert again.end() == 1
    assert f"The job's {file} came from standard input or a pipe" in again.transcript
