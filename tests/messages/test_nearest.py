from __future__ import annotations

import pytest

from vtrain.messages.nearest import did_you_mean, nearest
from vtrain.messages.rules import ACCELERATORS


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("NVIDIA_T4", "NVIDIA_TESLA_T4"),
        ("T4", "NVIDIA_TESLA_T4"),
        ("NVIDIA_TESLA_T5", "NVIDIA_TESLA_T4"),
        ("NVIDIA_V100", "NVIDIA_TESLA_V100"),
        ("NVIDIA_H100", "NVIDIA_H100_80GB"),
        ("abacus", ""),
        ("", ""),
    ],
)
def test_parts_of_a_name_count_more_than_its_looks(word: str, expected: str) -> None:
    assert nearest(word, ACCELERATORS) == expected


def test_a_hint_without_a_near_name() -> None:
    assert did_you_mean("jsn", ("yaml", "json"), otherwise="There are two.") == "Did you mean json?"
    assert did_you_mean("abacus", ("yaml", "json"), otherwise="There are two.") == "There are two."
