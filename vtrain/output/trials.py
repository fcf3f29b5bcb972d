"""The trials of a tuning job for people: their order, a table, and one trial in words."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

from vtrain.failure import last_traceback
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, StudySpec, Trial
from vtrain.messages.states import ENDED_TRIAL, has_ended
from vtrain.output.colours import Role
from vtrain.output.layout import filled, in_columns
from vtrain.output.terminal import on_one_line, visible
from vtrain.runtime.tuning.study import INFEASIBLE, SUCCEEDED, StudyTrial, best, ranked
from vtrain.times import epoch, rough_duration, took_in_words

MOST_NAMED = 5
"""Trials of a Pareto front that a sentence names."""
_ROLES = {SUCCEEDED: Role.GOOD, INFEASIBLE: Role.ERROR, "ACTIVE": Role.ACTIVE, "STOPPING": Role.WARNING}


def best_first(job: HyperparameterTuningJob) -> list[Trial]:
    """The trials, the best first and those without a result last."""
    trials = study_trials(job)
    return _messages(job, trials, ranked(job.study_spec or StudySpec(), trials))


def best_trials(job: HyperparameterTuningJob) -> list[Trial]:
    """The best trial; where several metrics count, those that no other one beats; none without a result."""
    trials = study_trials(job)
    return _messages(job, trials, best(job.study_spec or StudySpec(), trials))


def _messages(
    job: HyperparameterTuningJob, trials: Sequence[StudyTrial], chosen: Sequence[StudyTrial]
) -> list[Trial]:
    of_id = {study_trial.id: trial for study_trial, trial in zip(trials, job.trials, strict=True)}
    return [of_id[each.id] for each in chosen]


def study_trials(job: HyperparameterTuningJob) -> list[StudyTrial]:
    """The trials as a study has them, with numbers of their own where the service's ids are none."""
    ids = [int(trial.id) if re.fullmatch("[0-9]{1,6}", trial.id) else 0 for trial in job.trials]
    if len(set(ids)) < len(ids) or 0 in ids:
        ids = list(range(1, len(ids) + 1))
    return [
        StudyTrial(
            id=number,
            parameters={parameter.parameter_id: parameter.value for parameter in trial.parameters},
            state=trial.state,
            measurements=trial.measurements,
            final=trial.final_measurement,
        )
        for number, trial in zip(ids, job.trials, strict=True)
    ]


def shown_value(value: Any) -> str:
    """A parameter or a metric: a number in at most five digits, a text on one line."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        whole = float(value).is_integer() and abs(value) < 10**15
        return str(int(value)) if whole else f"{value:.5g}"
    return on_one_line(str(value))


def parameters_text(trial: Trial) -> str:
    """`rate=0.01 units=64`."""
    return pairs_text((each.parameter_id, each.value) for each in trial.parameters)


def measured_text(trial: Trial) -> str:
    """`accuracy=0.97`; empty without a result."""
    metrics = trial.final_measurement.metrics if trial.final_measurement is not None else ()
    return pairs_text((each.metric_id, each.value) for each in metrics)


def pairs_text(pairs: Iterable[tuple[str, Any]]) -> str:
    """`rate=0.01 units=64` of names and values."""
    return " ".join(f"{on_one_line(name)}={shown_value(value)}" for name, value in pairs)


def end_text(trial: Trial) -> str:
    """`Trial 3 SUCCEEDED after 12 s: accuracy=0.97 (rate=0.01 units=64)`."""
    took = took_in_words(trial.start_time, trial.end_time)
    what = measured_text(trial) or on_one_line(_reason(trial))
    parameters = parameters_text(trial)
    text = f"Trial {trial.id} {trial.state}" + (f" after {took}" if took else "")
    return text + (f": {what}" if what else "") + (f" ({parameters})" if parameters else "")


def _reason(trial: Trial) -> str:
    """Why a trial has no result: the exception of its trainer, else the first line."""
    text = trial.infeasible_reason.strip()
    trace = last_traceback(text)
    return trace.exception if trace is not None and trace.exception else text.partition("\n")[0].rstrip()


class TrialTable:
    """The trials of a job in columns: one for each parameter, and one for each metric."""

    def __init__(self, job: HyperparameterTuningJob) -> None:
        spec = job.study_spec or StudySpec()
        self._best = {trial.id for trial in best_trials(job)}
        names = (each.parameter_id for trial in job.trials for each in trial.parameters)
        self._parameters = list(dict.fromkeys(names))
        self._metrics = [metric.metric_id for metric in spec.metrics]

    def cells(self, trials: Sequence[Trial], *, reasons: bool = False) -> list[list[str]]:
        """The headings, and a row for each trial; empty columns are left out. The best are marked.

        With `reasons` the last column tells why a trial has no result.
        """
        headings = ["TRIAL", "STATE", *self._metrics, *self._parameters, "STEP", "TOOK", "REASON"]
        rows = [self._row(trial, reason=trial.infeasible_reason if reasons else "") for trial in trials]
        return [list(map(visible, row)) for row in filled(headings, rows)]

    def lines(self, trials: Sequence[Trial], *, coloured: bool = False) -> list[str]:
        """The same as lines of text."""
        rows = [[on_one_line(cell) for cell in row] for row in self.cells(trials)]

        def role_of(place: int, cell: str) -> Role | None:
            return _ROLES.get(cell) if place == 1 else None

        return in_columns(rows, role_of=role_of if coloured else None)

    def _row(self, trial: Trial, *, reason: str) -> list[str]:
        values = {each.parameter_id: shown_value(each.value) for each in trial.parameters}
        latest = trial.measurements[-1] if trial.measurements and trial.state not in ENDED_TRIAL else None
        measurement = trial.final_measurement or latest
        metrics = measurement.metrics if measurement is not None else ()
        measured = {each.metric_id: shown_value(each.value) for each in metrics}
        return [
            f"{trial.id} *" if trial.id in self._best else trial.id,
            trial.state,
            *(measured.get(name, "") for name in self._metrics),
            *(values.get(name, "") for name in self._parameters),
            str(measurement.step_count) if measurement is not None and measurement.step_count else "",
            took_in_words(trial.start_time, trial.end_time),
            reason,
        ]


def progress_text(job: HyperparameterTuningJob) -> str:
    """`7 of 20 trials, about 3 min left, the best is 3: accuracy=0.97 (rate=0.01 units=64)`."""
    done = sum(trial.state in ENDED_TRIAL for trial in job.trials)
    text = f"{done} of {job.max_trial_count} trials"
    if left := seconds_left(job):
        text += f", about {rough_duration(left)} left"
    front = best_trials(job)
    if len(front) > 1:
        return f"{text}, the best are {', '.join(trial.id for trial in front[:MOST_NAMED])}"
    return text + "".join(
        f", the best is {trial.id}: {measured_text(trial)} ({parameters_text(trial)})" for trial in front
    )


def seconds_left(job: HyperparameterTuningJob) -> float:
    """About the time until all trials have ended, by the mean of those that have; 0 where nothing tells."""
    if has_ended(job.state):
        return 0.0
    ended = [trial for trial in job.trials if trial.state in ENDED_TRIAL]
    times = [seconds for trial in ended if (seconds := _took(trial)) is not None]
    left = job.max_trial_count - len(ended)
    if not times or left <= 0:
        return 0.0
    mean = fmean(times)
    running = [min(_took(trial) or 0.0, mean) for trial in job.trials if trial.state not in ENDED_TRIAL]
    at_once = min(max(job.parallel_trial_count, 1), left)
    return max((left * mean - sum(running)) / at_once, 1.0)


def _took(trial: Trial) -> float | None:
    """The seconds that a trial took, or has taken so far; None where its times are not known."""
    try:
        return max((epoch(trial.end_time) if trial.end_time else time.time()) - epoch(trial.start_time), 0.0)
    except ValueError:
        return None


def live_lines(job: HyperparameterTuningJob, *, most: int) -> list[str]:
    """The table of those trials that run and, as far as there is room, of the best."""
    running = [trial for trial in job.trials if trial.state not in ENDED_TRIAL]
    others = [trial for trial in best_first(job) if trial.state in ENDED_TRIAL]
    shown = [*others[: max(most - len(running), 1)], *running][:most]
    return TrialTable(job).lines(shown) if shown else []
