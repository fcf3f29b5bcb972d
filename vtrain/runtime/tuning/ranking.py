"""The measurement of a trial that counts, and the order of trials by it."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from vtrain.messages.hyperparameter_tuning_job import Measurement, Metric, StudySpec
from vtrain.runtime.tuning.study import StudyTrial, loss, losses, results

BEST_MEASUREMENT = "BEST_MEASUREMENT"


def final_measurement(spec: StudySpec, measurements: Sequence[Measurement]) -> Measurement | None:
    """The last measurement, or the best by the first metric, as the study selects.

    Metrics that were never reported together are taken together: the newest value of each. None where one of
    them was never reported.
    """
    whole = [one for one in measurements if losses(spec, one) is not None]
    if not whole:
        return _newest_of_each(spec, measurements)
    if spec.measurement_selection_type != BEST_MEASUREMENT:
        return whole[-1]
    first = spec.metrics[0]
    return min(whole, key=lambda one: loss(first.goal, value_of(one, first.metric_id) or 0.0))


def _newest_of_each(spec: StudySpec, measurements: Sequence[Measurement]) -> Measurement | None:
    newest: dict[str, float] = {}
    for measurement in measurements:
        newest |= {metric.metric_id: metric.value for metric in measurement.metrics}
    if not measurements or any(metric.metric_id not in newest for metric in spec.metrics):
        return None
    last = measurements[-1]
    return Measurement(
        elapsed_duration=last.elapsed_duration,
        step_count=last.step_count,
        metrics=tuple(Metric(metric_id=m.metric_id, value=newest[m.metric_id]) for m in spec.metrics),
    )


def value_of(measurement: Measurement, metric_id: str) -> float | None:
    """A metric's value in a measurement; None where it has none."""
    return next((metric.value for metric in measurement.metrics if metric.metric_id == metric_id), None)


def best(spec: StudySpec, trials: Sequence[StudyTrial]) -> list[StudyTrial]:
    """The best trial, the first of equals. With several metrics the Pareto front: no other beats them."""
    found = sorted(results(spec, trials), key=lambda pair: (pair[1], pair[0].id))
    if len(spec.metrics) == 1:
        return [trial for trial, _ in found[:1]]
    front: list[tuple[StudyTrial, tuple[float, ...]]] = []
    for trial, values in found:  # in this order a trial is only ever beaten by one before it
        as_good = (other for _, other in front if all(map(operator.le, other, values)))
        if all(other == values for other in as_good):
            front.append((trial, values))
    return [trial for trial, _ in front]


def ranked(spec: StudySpec, trials: Sequence[StudyTrial]) -> list[StudyTrial]:
    """All trials: the Pareto front, then the others by their results, then those without one."""
    front = {trial.id for trial in best(spec, trials)}
    found = {trial.id: values for trial, values in results(spec, trials)}
    return sorted(
        trials,
        key=lambda trial: (trial.id not in front, trial.id not in found, found.get(trial.id, ()), trial.id),
    )
