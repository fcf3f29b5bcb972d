"""Charts, as plotly's script draws them: lines of numbers, and Optuna's own of a study."""

from __future__ import annotations

import html
import json
import logging
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from importlib.util import find_spec
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from vtrain.errors import UnavailableError
from vtrain.extras import install_command
from vtrain.messages.hyperparameter_tuning_job import StudySpec
from vtrain.output.trials import shown_value
from vtrain.runtime.output_numbers import Numbers, Scalars
from vtrain.runtime.tuning.study import LOG, StudyTrial, every_parameter, loss, results

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study

MAX_FRONT = 3
"""Metrics of a Pareto front that a chart can show."""
MOST_FIGURES = 8
"""Charts of one file."""
MOST_POINTS = 400
"""Points of one line that are drawn."""
MOST_TOGETHER = 6000
"""Points of all lines of one chart."""
MOST_NAMED = 12
"""Lines that a legend names; a pointer names all."""
LARGEST = 1e300
"""Greater numbers are not drawn: the script's arithmetic overflows."""
_GRID = {"gridcolor": "rgba(128,128,128,.25)", "zeroline": False, "automargin": True}

logger = logging.getLogger(__name__)


class Figure(NamedTuple):
    """A chart: its title, its description for plotly.js as JSON, and what it shows in words."""

    title: str
    document: str
    words: str = ""


class Point(NamedTuple):
    """A measured value, and the text that a pointer shows, where it has one of its own."""

    x: float | str
    y: float
    text: str = ""
    is_best: bool = False


def line_figure(title: str, points: Sequence[Point], *, along: str) -> Figure | None:
    """A line through the points that are usual numbers; None without any."""
    found = _drawable(points)
    line = {"mode": "lines+markers" if len(found) <= 60 else "lines", **_places(found)}
    return _of_points(title, found, along, [line], is_curve=True)


def number_figures(scalars: Scalars) -> list[Figure]:
    """A line for each series of a file, the first ones."""
    found = (
        line_figure(name, [Point(*point) for point in points], along=scalars.along)
        for name, points in scalars.series.items()
    )
    return list(islice(filter(None, found), MOST_FIGURES))


def overlaid_figures(found: Sequence[tuple[str, Numbers]]) -> list[Figure]:
    """A chart of each series, with a line for each job that has it, under the job's label."""
    lines: dict[str, list[tuple[str, list[Point]]]] = {}
    alongs: dict[str, str] = {}
    for label, numbers in found:
        own: dict[str, list[Point]] = {}
        for scalars in numbers.files:
            for name, points in scalars.series.items():
                own.setdefault(name, [Point(*point) for point in points])
                alongs.setdefault(name, scalars.along)
        for name, line in own.items():
            lines.setdefault(name, []).append((label, line))
    return [_overlaid(name, some, alongs[name]) for name, some in islice(lines.items(), MOST_FIGURES)]


def _overlaid(title: str, lines: Sequence[tuple[str, Sequence[Point]]], along: str) -> Figure:
    most = max(MOST_TOGETHER // len(lines), 20)
    traces = [
        {
            "mode": "lines",
            "name": _shown(label),
            "hovertemplate": f"{_shown(label).replace('%', '&#37;')}<br>%{{x}}: %{{y:.5g}}<extra></extra>",
            **_places(_drawable(points, most)),
        }
        for label, points in lines
    ]
    layout = {
        **_layout(along),
        "height": 340,
        "meta": {"curve": True},
        "showlegend": len(lines) <= MOST_NAMED,
        "legend": {"orientation": "h", "y": -0.25, "yanchor": "top"},
        "hovermode": "closest",
    }
    words = ", ".join(f"{label} {shown_value(points[-1].y)}" for label, points in lines if points)
    return Figure(title, json.dumps({"data": traces, "layout": layout}), words)


def parameter_figure(title: str, points: Sequence[Point], *, along: str, is_log: bool) -> Figure | None:
    """A dot for each trial, at the value of one parameter."""
    found = _drawable(points)
    return _of_points(title, found, along, [_dots(found)], axis="log" if is_log else "")


def importance_figure(
    spec: StudySpec, trials: Sequence[StudyTrial], place: int, metric: str
) -> Figure | None:
    """How much each parameter decides about a metric; None without Optuna, or with too few results."""
    try:
        _check_installed()
        from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is experimental
            importances = get_param_importances(
                _study(spec, trials),
                evaluator=PedAnovaImportanceEvaluator(),
                target=lambda trial: trial.values[place],
            )
    except (UnavailableError, ValueError, RuntimeError, ZeroDivisionError):
        return None
    if len(importances) < 2 or not any(importances.values()):
        return None
    bars = list(importances.items())[::-1]
    trace = {"type": "bar", "orientation": "h", "x": [value for _, value in bars],
             "y": [name for name, _ in bars], "hovertemplate": "%{x:.2f}<extra></extra>"}  # fmt: skip
    layout = _layout("importance") | {"height": 120 + 24 * len(bars)}
    words = ", ".join(f"{html.unescape(name)} {value:.2f}" for name, value in importances.items())
    return Figure(f"Importance for {metric}", json.dumps({"data": [trace], "layout": layout}), words)


def trials_figure(title: str, points: Sequence[Point], *, minimize: bool) -> Figure | None:
    """A dot for each trial, and a line of the best value so far; None without a result."""
    found = _drawable(points)
    line = _places(found)
    line["y"] = list(accumulate(line["y"], min if minimize else max))
    steps = {**line, "mode": "lines", "line": {"shape": "hv"}, "hoverinfo": "skip"}
    return _of_points(title, found, "trial", [steps, _dots(found)])


def _dots(points: Sequence[Point]) -> dict[str, Any]:
    return {
        **_places(points),
        "mode": "markers",
        "text": [_shown(point.text) for point in points],
        "hoverinfo": "text",
        "marker": {"color": ["#1a7a48" if point.is_best else "#7b858d" for point in points], "size": 9},
    }


def _drawable(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    found = [
        point
        for point in points
        if (isinstance(point.x, str) or abs(point.x) < LARGEST) and abs(point.y) < LARGEST
    ]
    step = math.ceil(len(found) / most) or 1
    return found[(len(found) - 1) % step :: step]  # the last one is among them


def _places(points: Sequence[Point]) -> dict[str, Any]:
    xs = [_shown(point.x) if isinstance(point.x, str) else point.x for point in points]
    return {"x": xs, "y": [point.y for point in points]}


def _layout(along: str) -> dict[str, Any]:
    return {
        "height": 240,
        "margin": {"t": 10, "r": 10, "b": 40, "l": 50},
        "showlegend": False,
        "xaxis": {**_GRID, "title": {"text": _shown(along)}},
        "yaxis": _GRID,
    }


def _of_points(
    title: str,
    points: Sequence[Point],
    along: str,
    traces: list[Any],
    *,
    axis: str = "",
    is_curve: bool = False,
) -> Figure | None:
    """The chart; `axis` is the type of the horizontal one, and a curve can be smoothed."""
    if not points:
        return None
    layout = _layout(along)
    layout["xaxis"] |= {"type": axis} if axis else {}
    layout |= {"meta": {"curve": True}} if is_curve else {}
    last = points[-1]
    words = last.text or f"{along} {shown_value(last.x)}: {shown_value(last.y)}"
    return Figure(title, json.dumps({"data": traces, "layout": layout}), words)


def study_figures(spec: StudySpec, trials: Sequence[StudyTrial]) -> list[Figure]:
    """The charts that the results allow; none without a result. Raises UnavailableError without the extra."""
    _check_installed()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of parts of Optuna that are experimental, and of studies too small
        study = _study(spec, trials)
        count = sum(trial.state.name == "COMPLETE" for trial in study.trials)
        return list(_figures(spec, study)) if count else []


def plotly_script() -> bytes:
    """plotly.js, which draws the charts."""
    return (files("plotly") / "package_data" / "plotly.min.js").read_bytes()


def _check_installed() -> None:
    if missing := [name for name in ("optuna", "plotly") if find_spec(name) is None]:
        raise UnavailableError(
            f"A report needs {' and '.join(missing)}, which {'are' if missing[1:] else 'is'} not installed.",
            hint=f"Install what it needs with: {install_command('tuning')}",
        )
    import optuna
    import plotly

    assert plotly
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def _figures(spec: StudySpec, study: Study) -> Iterator[Figure]:
    """The Pareto front, and for each metric its history, its importances and the parameters."""
    from optuna.visualization import plot_pareto_front

    names = [_shown(metric.metric_id) for metric in spec.metrics]
    if 1 < len(names) <= MAX_FRONT:
        yield from _figure("Pareto front", lambda: plot_pareto_front(study, target_names=names))
    for place, name in enumerate(names):
        of = f" of {name}" if len(names) > 1 else ""
        yield from _metric_figures(study, name, place if len(names) > 1 else None, of)


def _metric_figures(study: Study, name: str, place: int | None, of: str) -> Iterator[Figure]:
    """The charts about one metric. `place` is its own among several."""
    from optuna.importance import PedAnovaImportanceEvaluator
    from optuna.visualization import (
        plot_optimization_history,
        plot_parallel_coordinate,
        plot_param_importances,
        plot_slice,
    )

    target = None if place is None else lambda trial: trial.values[place]
    given: dict[str, Any] = {"target": target, "target_name": name}
    yield from _figure(f"Optimization history{of}", lambda: plot_optimization_history(study, **given))
    if not any(trial.params for trial in study.trials):
        return
    yield from _figure(f"Parallel coordinates{of}", lambda: plot_parallel_coordinate(study, **given))
    has_several = len({name for trial in study.trials for name in trial.params}) > 1
    if has_several and len({trial.values[place or 0] for trial in study.trials if trial.values}) > 1:
        evaluator = PedAnovaImportanceEvaluator()
        yield from _figure(
            f"Parameter importance{of}",
            lambda: plot_param_importances(study, evaluator=evaluator, **given),
        )
    yield from _figure(f"Slices{of}", lambda: plot_slice(study, **given))


def _figure(title: str, draw: Callable[[], Any]) -> Iterator[Figure]:
    """The chart; nothing where Optuna can make none of these results."""
    try:
        figure = draw()
    except (ValueError, RuntimeError, ZeroDivisionError) as error:
        logger.warning("No chart %r: %s", title, error)
        return
    figure.update_layout(title=None, template="plotly_white", margin={"t": 30})
    yield Figure(title, figure.to_json())


def _study(spec: StudySpec, trials: Sequence[StudyTrial]) -> Study:
    """A study with the results of the trials, each under its own number."""
    import optuna
    from optuna.distributions import FloatDistribution
    from optuna.study import StudyDirection
    from optuna.trial import TrialState, create_trial

    directions = [
        StudyDirection.MINIMIZE if metric.goal == "MINIMIZE" else StudyDirection.MAXIMIZE
        for metric in spec.metrics
    ]
    study = optuna.create_study(
        directions=directions or [StudyDirection.MAXIMIZE], sampler=optuna.samplers.RandomSampler()
    )
    distributions = _distributions(spec, trials)
    goals = [metric.goal for metric in spec.metrics]
    values = {  # a loss turned once more is the metric's own value
        trial.id: [loss(goal, turned) for goal, turned in zip(goals, losses, strict=True)]
        for trial, losses in results(spec, trials)
    }
    by_id = {trial.id: trial for trial in trials}
    for number in range(max(values, default=-1) + 1):  # Optuna counts from 0, and leaves no number out
        if number not in values:
            study.add_trial(create_trial(state=TrialState.FAIL))
            continue
        params = {
            _shown(name): float(value)
            if isinstance(distributions[name], FloatDistribution)
            else _category(value)
            for name, value in by_id[number].parameters.items()
        }
        own = {_shown(name): distributions[name] for name in by_id[number].parameters}
        study.add_trial(create_trial(params=params, distributions=own, values=values[number]))
    return study


def _distributions(spec: StudySpec, trials: Sequence[StudyTrial]) -> dict[str, BaseDistribution]:
    """The range of each parameter's values in the trials."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    logarithmic = {each.parameter_id for each in every_parameter(spec) if each.scale_type == LOG}
    seen: dict[str, list[Any]] = {}
    for trial in trials:
        for name, value in trial.parameters.items():
            seen.setdefault(name, []).append(value)
    found: dict[str, BaseDistribution] = {}
    for name, values in seen.items():
        if all(_is_number(value) for value in values):
            low, high = min(values), max(values)
            found[name] = FloatDistribution(low, high, log=name in logarithmic and low > 0)
        else:
            found[name] = CategoricalDistribution(list(dict.fromkeys(map(_category, values))))
    return found


def _category(value: Any) -> str:
    return _shown(f"{value:g}" if _is_number(value) else str(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _shown(text: str) -> str:
    """A text for a chart, in whose texts plotly.js reads tags: `<b>`, `<a href=…>`."""
    return html.escape(text, quote=False)
