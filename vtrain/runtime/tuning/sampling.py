"""Points that need no model: at random, spread over the space, or close to the best trial."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from vtrain.messages.hyperparameter_tuning_job import ParameterSpec, StudySpec
from vtrain.runtime.tuning.scale import double_at, share_of, value_at
from vtrain.runtime.tuning.study import (
    Parameters,
    ParameterValue,
    StudyTrial,
    assignment,
    fits,
    results,
)


def random_point(spec: StudySpec, rng: Random) -> Parameters:
    """A point at random, evenly on each parameter's scale."""
    return assignment(spec, lambda parameter, _: value_at(parameter, rng.random()))


def spread_point(spec: StudySpec, seed: int, number: int, count: int) -> Parameters:
    """Point `number` of `count` that share out the scale of each parameter: a Latin hypercube."""

    def pick(parameter: ParameterSpec, place: str) -> ParameterValue:
        parts = list(range(count))
        Random(f"{seed}/{place}").shuffle(parts)
        within = Random(f"{seed}/{place}/{number}").random()
        return value_at(parameter, (parts[number - 1] + within) / count)

    return assignment(spec, pick)


def near_best(spec: StudySpec, trials: Sequence[StudyTrial], rng: Random, fewest: int) -> Parameters | None:
    """The best trial's point with its doubles moved a little, by less the more is known.

    None for several metrics, with fewer than `fewest` results, and where nothing can be moved.
    """
    found = [pair for pair in results(spec, trials) if fits(spec, pair[0].parameters)]
    if len(spec.metrics) != 1 or len(found) < fewest:
        return None
    best = min(found, key=lambda pair: (pair[1], pair[0].id))[0].parameters

    def moved(parameter: ParameterSpec, _place: str) -> ParameterValue:
        value = best[parameter.parameter_id]
        if parameter.double_value_spec is None or isinstance(value, str):
            return value
        share = abs(share_of(parameter, value) + rng.gauss(0, 1 / len(found)))
        return double_at(parameter, 2 - share if share > 1 else share)  # both ends throw it back

    point = assignment(spec, moved)
    return point if point != best else None
