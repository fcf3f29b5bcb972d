"""How many of the public training notebooks call only methods that the emulator answers."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")

from notebook_counts import ANSWERED, BEHAVIOURS, CALLED, MISSING, NOTEBOOKS, by_notebooks_won

WHOLE = 193
"""Notebooks whose methods are all answered: measured, and said on the page."""


def test_the_notebooks_whose_methods_are_all_answered() -> None:
    total = len(NOTEBOOKS)
    for method, number in CALLED.most_common():
        print(f"{method:60} {number:4} {100 * number // total:3} % {'yes' if method in ANSWERED else 'no'}")
    for behaviour, number in BEHAVIOURS.most_common():
        print(f"{behaviour:60} {number:4} {100 * number // total:3} %")
    for number, methods in by_notebooks_won():
        print(f"{number:4} more with {', '.join(methods)}")
    assert (sum(not missing for missing in MISSING.values()), total) == (WHOLE, 246)
