"""The sampler that needs PyTorch: it is chosen where it fits, and learns."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from study_specs import LAYERS, LEARNING_RATE, OPTIMIZER, distance, study, suggested

from vtrain.runtime.tuning.suggestion import choose_sampler

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(
        any(find_spec(name) is None for name in ("torch", "scipy", "optuna")),
        reason="needs PyTorch, SciPy and the extra tuning",
    ),
]


def test_it_is_taken_for_a_small_space_without_conditions() -> None:
    assert choose_sampler(study(LEARNING_RATE, LAYERS), "auto").name == "gp"
    assert choose_sampler(study(LEARNING_RATE, OPTIMIZER), "auto").name == "tpe"
    assert choose_sampler(study(LEARNING_RATE), "tpe").name == "tpe"


def test_it_learns_and_repeats_itself() -> None:
    spec = study(LEARNING_RATE)
    found = suggested(spec, "gp", 20)
    assert min(map(distance, found[12:])) < 0.1
    assert suggested(spec, "gp", 13) == found[:13]
