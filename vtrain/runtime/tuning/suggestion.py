"""The parameters of the next trial: from a grid, at random, near the best trial, or by Optuna.

Equal questions get equal answers: every draw follows from the seed of the study and the number of the trial.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from random import Random

import msgspec

from vtrain.errors import UnavailableError
from vtrain.extras import install_command
from vtrain.messages.hyperparameter_tuning_job import ParameterSpec, StudySpec
from vtrain.messages.study_rules import in_condition
from vtrain.runtime.tuning.study import (
    AUTO,
    GP,
    GRID,
    RANDOM,
    TPE,
    Parameters,
    ParameterValue,
    StudyTrial,
    assignment,
    double_at,
    every_parameter,
    fits,
    results,
    share_of,
    value_at,
)

START = 8
"""Trials that are spread over the space before a sampler has results to learn from."""
NEAR_EVERY = 3
"""With TPE every third trial is close to the best one: TPE alone finds the right region and little more."""
GP_MAX_PARAMETERS = 12
"""The most parameters for which `auto` chooses a Gaussian process, as its time grows with them."""


class Sampler(msgspec.Struct, frozen=True):
    """The way parameters are suggested, `grid`, `random`, `tpe` or `gp`, and its reason."""

    name: str
    reason: str


def choose_sampler(spec: StudySpec, wish: str = AUTO) -> Sampler:
    """The sampler of a study. `wish` (`auto`, `tpe`, `gp`) counts where the study names no algorithm.

    Raises UnavailableError where what it needs is not installed.
    """
    if spec.algorithm in ("GRID_SEARCH", "RANDOM_SEARCH"):
        name = GRID if spec.algorithm == "GRID_SEARCH" else RANDOM
        return Sampler(name, f"the study asks for {spec.algorithm}")
    if find_spec("optuna") is None:
        raise UnavailableError(
            "Bayesian optimisation needs Optuna, which the extra `tuning` of vtrain installs.",
            hint=f"Install it with: {install_command('tuning')}\n"
            "Or search without it: --algorithm=random-search or --algorithm=grid-search",
        )
    missing = [name for name in ("torch", "scipy") if find_spec(name) is None]
    if wish == GP and missing:
        raise UnavailableError(
            f"--sampler=gp needs {' and '.join(missing)} beside vtrain, and finds none.",
            hint=f"Install it with: {install_command('gp')}\nOr take --sampler=tpe.",
        )
    if wish != AUTO:
        return Sampler(wish, f"--sampler={wish}")
    if missing:
        return Sampler(TPE, f"a Gaussian process needs {' and '.join(missing)} (extra `gp`)")
    parameters = list(every_parameter(spec))
    if len(parameters) > GP_MAX_PARAMETERS or any(one.conditional_parameter_specs for one in parameters):
        return Sampler(TPE, "the space is large or has conditions")
    return Sampler(GP, "the space is small")


def next_parameters(
    spec: StudySpec, trials: Sequence[StudyTrial], *, sampler: str, seed: int, number: int
) -> Parameters | None:
    """The parameters of trial `number`. None: every point of the grid has been tried, or is being tried.

    `trials` are all others, those that run too: a suggestion keeps away from what is being tried.
    """
    if sampler == GRID:
        # Points differ by their values, as trials of an earlier study may stand anywhere in the grid.
        known = {frozenset(trial.parameters.items()) for trial in trials}
        return next((point for point in grid(spec) if frozenset(point.items()) not in known), None)
    # A supervisor that takes over has to suggest what its predecessor would have suggested.
    own_seed = Random(f"{seed}/{number}").getrandbits(32)
    rng = Random(own_seed)
    if sampler == RANDOM:
        return assignment(spec, lambda parameter, _: value_at(parameter, rng.random()))
    if number <= START:
        return spread_point(spec, seed, number, START)
    if sampler == TPE and number % NEAR_EVERY == 0 and (near := near_best(spec, trials, rng, START)):
        return near
    from vtrain.runtime.tuning.optuna_sampler import suggest

    return suggest(spec, trials, sampler=sampler, seed=own_seed)


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


def grid(spec: StudySpec) -> Iterator[Parameters]:
    """Every point, one after another: the last parameter changes first."""
    return _points(spec.parameters)


def _points(parameters: Sequence[ParameterSpec]) -> Iterator[Parameters]:
    if not parameters:
        yield {}
        return
    for first in _branches(parameters[0]):
        for rest in _points(parameters[1:]):
            yield first | rest


def _branches(parameter: ParameterSpec) -> Iterator[Parameters]:
    """Every value of a parameter, with every point of the children that are active then."""
    for value in _values(parameter):
        specs = parameter.conditional_parameter_specs
        children = [
            c.parameter_spec for c in specs if c.parameter_spec is not None and in_condition(c, value)
        ]
        for below in _points(children):
            yield {parameter.parameter_id: value} | below


def _values(parameter: ParameterSpec) -> Iterator[ParameterValue]:
    if parameter.categorical_value_spec is not None:
        yield from parameter.categorical_value_spec.values
    elif parameter.discrete_value_spec is not None:
        yield from map(float, parameter.discrete_value_spec.values)
    elif parameter.integer_value_spec is not None:
        whole = parameter.integer_value_spec
        yield from map(float, range(whole.min_value, whole.max_value + 1))
