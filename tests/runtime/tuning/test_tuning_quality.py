"""The benchmark of suggestions: it runs, and its functions have their best values where it says."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PLACES = {
    "Branin": {"x": math.pi, "y": 2.275},
    "Hartmann6": dict(enumerate((0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573))),
    "noisy, mixed": {
        "learning_rate": 10**-1.5,
        "weight_decay": 1e-4,
        "dropout": 0.3,
        "optimizer": "sgd",
        "momentum": 0.9,
    },
}


def test_the_best_values_are_those_of_the_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from tuning_quality import PROBLEMS  # type: ignore[import-not-found]

    assert {problem.name for problem in PROBLEMS} == PLACES.keys()
    for problem in PROBLEMS:
        assert problem.value(PLACES[problem.name]) == pytest.approx(problem.best, abs=1e-4)


@pytest.mark.child
def test_the_benchmark_prints_its_table() -> None:
    pytest.importorskip("optuna", reason="needs the extra tuning")
    argv = [sys.executable, ROOT / "benchmarks" / "tuning_quality.py", "--quick"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    rows = [line.split("|")[1].strip() for line in ended.stdout.splitlines()]
    assert rows[2:] == list(PLACES)
