"""Suggestions by Optuna: a study is built anew from the known trials each time, then asked once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vtrain.messages.hyperparameter_tuning_job import ParameterSpec, StudySpec
from vtrain.messages.study_rules import SAME_VALUE, is_value_of
from vtrain.runtime.tuning.scale import double_at, is_logarithmic, mirrored_integer, share_of
from vtrain.runtime.tuning.study import (
    ENDED,
    GP,
    SUCCEEDED,
    Parameters,
    ParameterValue,
    StudyTrial,
    assignment,
    every_parameter,
    losses,
)

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial
    from optuna.trial import Trial as OptunaTrial


class _Elsewhere(Exception):
    """A trial of another space."""


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
    study.add_trials([frozen for trial in trials if (frozen := _frozen(spec, trial)) is not None])
    return study


def _sampler(spec: StudySpec, name: str, seed: int) -> BaseSampler:
    from optuna.samplers import GPSampler, TPESampler

    if name == GP:
        return GPSampler(seed=seed)
    has_conditions = any(one.conditional_parameter_specs for one in every_parameter(spec))
    return TPESampler(seed=seed, multivariate=True, group=has_conditions, constant_liar=True)


def _frozen(spec: StudySpec, trial: StudyTrial) -> FrozenTrial | None:
    from optuna.trial import TrialState, create_trial

    distributions: dict[str, BaseDistribution] = {}
    inner: dict[str, Any] = {}

    def pick(parameter: ParameterSpec, place: str) -> ParameterValue:
        value = trial.parameters.get(parameter.parameter_id)
        if value is None:
            raise _Elsewhere
        distributions[place], inner[place] = distribution(parameter), _inner(parameter, value)
        return value

    values = losses(spec, trial.final) if trial.state == SUCCEEDED else None
    state = TrialState.COMPLETE if values else TrialState.FAIL
    try:
        if assignment(spec, pick).keys() != trial.parameters.keys():
            return None
        return create_trial(
            state=state if trial.state in ENDED else TrialState.RUNNING,
            params=inner,
            distributions=distributions,
            values=values,
        )
    except (_Elsewhere, ValueError):  # ValueError: no value of a categorical parameter
        return None


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
    if parameter.categorical_value_spec is not None:
        return str(value)
    if parameter.discrete_value_spec is not None:
        return float(parameter.discrete_value_spec.values[int(value)])
    if parameter.integer_value_spec is not None:
        return float(mirrored_integer(parameter, value))
    return double_at(parameter, value)


def _inner(parameter: ParameterSpec, value: ParameterValue) -> Any:
    """What Optuna has for a value. Raises _Elsewhere for one that the parameter does not take."""
    if parameter.categorical_value_spec is not None:
        return value
    if isinstance(value, str):
        raise _Elsewhere
    if parameter.discrete_value_spec is not None:
        values = parameter.discrete_value_spec.values
        found = [place for place, one in enumerate(values) if abs(one - value) <= SAME_VALUE]
        if not found:
            raise _Elsewhere
        return found[0]
    if not is_value_of(parameter, value):
        raise _Elsewhere
    if parameter.integer_value_spec is not None:
        return mirrored_integer(parameter, int(value))
    return share_of(parameter, value)
