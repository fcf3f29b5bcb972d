"""Suggestions by Optuna: a study is built anew from the known trials each time, then asked once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vtrain.messages.hyperparameter_tuning_job import ParameterSpec, StudySpec
from vtrain.messages.states import ENDED_TRIAL
from vtrain.runtime.tuning.study import (
    GP,
    SUCCEEDED,
    Parameters,
    ParameterValue,
    StudyTrial,
    assignment,
    double_at,
    every_parameter,
    fits,
    is_logarithmic,
    losses,
    mirrored_integer,
    share_of,
)

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial
    from optuna.trial import Trial as OptunaTrial


STARTUP = 7
"""Suggestions are random while fewer trials than these are known."""


def suggest(spec: StudySpec, trials: Sequence[StudyTrial], *, sampler: str, seed: int) -> Parameters:
    """The parameters that the sampler suggests, knowing what was tried and what is being tried."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about parts of Optuna that are called experimental
        trial = study_of(spec, trials, _sampler(spec, sampler, seed)).ask()

        def pick(parameter: ParameterSpec, place: str) -> ParameterValue:
            return _outer(parameter, _ask(trial, place, distribution(parameter)))

        return assignment(spec, pick)


def study_of(spec: StudySpec, trials: Sequence[StudyTrial], sampler: BaseSampler | None = None) -> Study:
    """An Optuna study, in memory, with these trials, as far as their parameters lie in the study's space."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    directions = [optuna.study.StudyDirection.MINIMIZE for _ in spec.metrics]
    study = optuna.create_study(directions=directions, sampler=sampler)
    study.add_trials([_frozen(spec, trial) for trial in trials if fits(spec, trial.parameters)])
    return study


def _sampler(spec: StudySpec, name: str, seed: int) -> BaseSampler:
    from optuna.samplers import GPSampler, TPESampler

    if name == GP:
        return GPSampler(seed=seed, n_startup_trials=STARTUP, warn_independent_sampling=False)
    has_conditions = any(one.conditional_parameter_specs for one in every_parameter(spec))
    return TPESampler(
        seed=seed,
        n_startup_trials=STARTUP,
        multivariate=True,
        group=has_conditions,
        constant_liar=True,
    )


def _frozen(spec: StudySpec, trial: StudyTrial) -> FrozenTrial:
    """A trial as Optuna knows it: complete, failed or running."""
    from optuna.trial import TrialState, create_trial

    distributions: dict[str, BaseDistribution] = {}
    inner: dict[str, Any] = {}

    def take(parameter: ParameterSpec, place: str) -> ParameterValue:
        value = trial.parameters[parameter.parameter_id]
        distributions[place], inner[place] = distribution(parameter), _inner(parameter, value)
        return value

    assignment(spec, take)
    values = losses(spec, trial.final) if trial.state == SUCCEEDED else None
    ended = TrialState.COMPLETE if values else TrialState.FAIL
    return create_trial(
        state=ended if trial.state in ENDED_TRIAL else TrialState.RUNNING,
        params=inner,
        distributions=distributions,
        values=values,
    )


def _ask(trial: OptunaTrial, name: str, wanted: BaseDistribution) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(wanted, FloatDistribution):
        return trial.suggest_float(name, wanted.low, wanted.high, log=wanted.log)
    if isinstance(wanted, IntDistribution):
        return trial.suggest_int(name, wanted.low, wanted.high, log=wanted.log)
    assert isinstance(wanted, CategoricalDistribution)
    return trial.suggest_categorical(name, wanted.choices)


def distribution(parameter: ParameterSpec) -> BaseDistribution:
    """The parameter for Optuna.

    A double is a share of its scale, which has no end that Optuna could not reach; a discrete value is its
    position; an integer on a reversed scale is mirrored.
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if parameter.categorical_value_spec is not None:
        return CategoricalDistribution(parameter.categorical_value_spec.values)
    if parameter.discrete_value_spec is not None:
        return IntDistribution(0, len(parameter.discrete_value_spec.values) - 1)
    if parameter.integer_value_spec is not None:
        whole = parameter.integer_value_spec
        return IntDistribution(whole.min_value, whole.max_value, log=is_logarithmic(parameter))
    double = parameter.double_value_spec
    assert double is not None
    return FloatDistribution(0.0, 1.0 if double.min_value < double.max_value else 0.0)


def _outer(parameter: ParameterSpec, value: Any) -> ParameterValue:
    """The parameter's value of Optuna's form of it."""
    if parameter.categorical_value_spec is not None:
        return str(value)
    if parameter.discrete_value_spec is not None:
        return float(parameter.discrete_value_spec.values[int(value)])
    if parameter.integer_value_spec is not None:
        return float(mirrored_integer(parameter, value))
    return double_at(parameter, value)


def _inner(parameter: ParameterSpec, value: ParameterValue) -> Any:
    """Optuna's form of a value of the parameter."""
    if isinstance(value, str):
        return value
    if parameter.discrete_value_spec is not None:
        values = parameter.discrete_value_spec.values
        return min(range(len(values)), key=lambda place: abs(values[place] - value))
    if parameter.integer_value_spec is not None:
        return mirrored_integer(parameter, int(value))
    return share_of(parameter, value)
