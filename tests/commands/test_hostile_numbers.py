"""Numbers that Python cannot take, wherever somebody may write one: a sentence, and no traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

LONG, LONGEST = "1" * 310, "1" * 5000
STUDY = """
displayName: hp
maxTrialCount: 2
parallelTrialCount: 1
studySpec:
  metrics: [{metricId: a, goal: MAXIMIZE}]
  parameters: [{parameterId: x, doubleValueSpec: {minValue: 0, maxValue: %s}}]
trialJobSpec:
  workerPoolSpecs: [{replicaCount: 1, pythonPackageSpec: {pythonModule: m, packageUris: [gs://b/p.tar.gz]}}]
"""
TUNE = ("hp-tuning-jobs", "create", "--display-name=x", "--config=job.yaml", "--dry-run")
HERE = ("--script=t.py", "--local-package-path=.")
PLAN = ("custom-jobs", "create", "--display-name=x", "--dry-run", *HERE)


@pytest.fixture(autouse=True)
def script(cwd: Path) -> None:
    (cwd / "t.py").touch()


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        (LONG, "maxValue: expected a finite number, found 111"),
        ("1e400", "maxValue: expected a finite number, found inf"),
        (f"'{LONG}'", "maxValue: expected a finite number, found '111"),
        (LONGEST, "job.yaml:7: not a YAML document: "),
        (f'!!int "0x{"f" * 4500}"', "job.yaml:7: not a YAML document: an integer has more than 1000 digits."),
    ],
)
def test_a_bound_of_a_study(vtrain: Any, cwd: Path, bound: str, said: str) -> None:
    (cwd / "job.yaml").write_text(STUDY % bound)
    ended = vtrain(*TUNE)
    assert (ended.code, ended.out) == (1, "")
    assert said in ended.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([*PLAN, f"--set=workerPoolSpecs[{LONGEST}].replicaCount=1"], 1, "the next index is 1."),
        ([*PLAN, f"--set=scheduling.strategy={LONGEST}", "--backend=process"], 0, ""),
        (["custom-jobs", "environment", *HERE, f"--trial={LONGEST}"], 2, "expected a number from 1 on"),
        (["emulator", "start", f"--port={LONGEST}"], 2, "is not a number from 0 to 65535"),
        (["ps", f"--limit={LONGEST}"], 2, "--limit: expected a whole number"),
        (["ps", f"--sort-by=name[{LONGEST}]"], 0, "Listed 0 items"),
        (
            ["ps", f"--format=value(name.map({LONGEST}))"],
            1,
            "depth of map() must be a whole number up to 9999",
        ),
        (["ps", f"--format=value(name.float({LONGEST}))"], 1, "precision of float() must be a whole number"),
        (["ps", f"--format=table(name:width={LONGEST})"], 1, "width must be a whole number up to 9999"),
        (["ps", f"--format=table[pad={LONGEST}](name)"], 1, "pad of table must be a whole number up to 9999"),
    ],
)
def test_a_number_in_a_flag(vtrain: Any, words: list[str], code: int, said: str) -> None:
    ended = vtrain(*words)
    assert ended.code == code, ended.err
    assert said in ended.err
    assert "unexpectedly" not in ended.err


def test_the_word_of_a_completion(vtrain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_VTRAIN_COMPLETE", "zsh")
    monkeypatch.setenv("COMP_WORDS", "vtrain\ncust")
    for number in (LONGEST, "²", "x"):
        monkeypatch.setenv("COMP_CWORD", number)
        assert "Traceback" not in vtrain().err
