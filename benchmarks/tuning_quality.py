"""How near a study comes to the best value, against random search: the median regret over many seeds.

Trials are calls of a function whose best value is known. Four run at a time, each for another duration, so
that suggestions are made while others still run. The regret is how much worse than the best value the trial
with the best measurement is; of the noisy function it is told without the noise.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

import measure
from measure import judge

TRIALS = 50
PARALLEL = 4
SEEDS = 40
Parameters = dict[str, Any]


class Problem(NamedTuple):
    """A function to minimize. `limit` is how much of random search's regret may be left."""

    name: str
    parameters: list[dict[str, Any]]
    value: Callable[[Parameters], float]
    best: float
    noise: float
    limit: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seeds", type=int, default=SEEDS, help="studies of each kind (default: %(default)s)"
    )
    parser.add_argument("--sampler", choices=("tpe", "gp"), default="tpe", help="(default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="2 seeds and 15 trials, without a verdict")
    options = parser.parse_args()
    seeds, trials = (2, 15) if options.quick else (options.seeds, TRIALS)
    print(f"| {trials} trials, {seeds} seeds | random | {options.sampler} | share | limit |")
    print("|---|---|---|---|---|")
    shares = [(problem, compared(problem, options.sampler, seeds, trials)) for problem in PROBLEMS]
    if not options.quick:
        for problem, share in shares:
            judge(f"regret on {problem.name}, of random search's", share, problem.limit)
    return min(measure.failures, 1)


def compared(problem: Problem, sampler: str, seeds: int, trials: int) -> float:
    """The share of random search's median regret that is left; prints a line of the table."""
    regrets = {
        name: sorted(regret(problem, name, seed, trials) for seed in range(seeds))
        for name in ("random", sampler)
    }
    medians = {name: statistics.median(found) for name, found in regrets.items()}
    share = medians[sampler] / medians["random"]
    cells = [f"{medians[name]:.3g} ({quartiles(found)})" for name, found in regrets.items()]
    print(f"| {problem.name} | {' | '.join(cells)} | {share:.2f} | {problem.limit:g} |", flush=True)
    return share


def quartiles(values: list[float]) -> str:
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return f"{first:.3g} to {third:.3g}"


def regret(problem: Problem, sampler: str, seed: int, trials: int) -> float:
    """How much worse than the best value the study's best trial is."""
    from vtrain.runtime.tuning.study import best

    spec = spec_of(problem)
    ended = [trial for trial in study(problem, spec, sampler, seed, trials) if trial.state == "SUCCEEDED"]
    (found,) = best(spec, ended)
    return problem.value(found.parameters) - problem.best


def study(problem: Problem, spec: Any, sampler: str, seed: int, trials: int) -> list[Any]:
    """The trials of one study, in a simulated time."""
    from vtrain.runtime.tuning.study import StudyTrial
    from vtrain.runtime.tuning.suggestion import next_parameters

    chance = random.Random(f"{problem.name} {seed}")
    known: dict[int, StudyTrial] = {}
    running: list[tuple[float, int]] = []
    now = 0.0
    while True:
        if len(known) < trials and len(running) < PARALLEL:
            number = len(known) + 1
            found = next_parameters(spec, list(known.values()), sampler=sampler, seed=seed, number=number)
            assert found is not None
            known[number] = StudyTrial(id=number, parameters=found, state="ACTIVE")
            heapq.heappush(running, (now + chance.uniform(0.5, 1.5), number))
        elif running:
            now, number = heapq.heappop(running)
            value = problem.value(known[number].parameters) + chance.gauss(0, problem.noise)
            known[number] = ended(known[number], value)
        else:
            return list(known.values())


def ended(trial: Any, value: float) -> Any:
    from msgspec.structs import replace

    from vtrain.messages.hyperparameter_tuning_job import Measurement, Metric

    return replace(
        trial, state="SUCCEEDED", final=Measurement(metrics=(Metric(metric_id="loss", value=value),))
    )


def spec_of(problem: Problem) -> Any:
    from vtrain.messages.codec import read_message
    from vtrain.messages.hyperparameter_tuning_job import StudySpec

    metrics = [{"metricId": "loss", "goal": "MINIMIZE"}]
    return read_message(StudySpec, {"metrics": metrics, "parameters": problem.parameters})


def double(name: str, low: float, high: float, scale: str = "UNIT_LINEAR_SCALE") -> dict[str, Any]:
    return {"parameterId": name, "doubleValueSpec": {"minValue": low, "maxValue": high}, "scaleType": scale}


def branin(at: Parameters) -> float:
    x, y = at["x"], at["y"]
    curve = y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6
    return curve**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


HARTMANN_HEIGHTS = (1.0, 1.2, 3.0, 3.2)
HARTMANN_WIDTHS = (
    (10, 3, 17, 3.5, 1.7, 8),
    (0.05, 10, 17, 0.1, 8, 14),
    (3, 3.5, 1.7, 10, 17, 8),
    (17, 8, 0.05, 10, 0.1, 14),
)
HARTMANN_PLACES = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)


def hartmann(at: Parameters) -> float:
    def hill(height: float, widths: tuple[float, ...], places: tuple[float, ...]) -> float:
        values = at.values()
        far = sum(w * (x - p) ** 2 for w, x, p in zip(widths, values, places, strict=True))
        return height * math.exp(-far)

    return -sum(map(hill, HARTMANN_HEIGHTS, HARTMANN_WIDTHS, HARTMANN_PLACES))


def training(at: Parameters) -> float:
    """The loss of an invented training: each optimizer has its own best learning rate and setting."""
    order = math.log10(at["learning_rate"])
    regularized = 0.05 * (math.log10(at["weight_decay"]) + 4) ** 2 + 0.5 * (at["dropout"] - 0.3) ** 2
    if at["optimizer"] == "sgd":
        return regularized + 0.15 * (order + 1.5) ** 2 + 0.8 * (at["momentum"] - 0.9) ** 2
    return regularized + 0.05 + 0.15 * (order + 3) ** 2 + 0.3 * (at["warmup"] - 0.1) ** 2


OPTIMIZER = {
    "parameterId": "optimizer",
    "categoricalValueSpec": {"values": ["adam", "sgd", "rmsprop"]},
    "conditionalParameterSpecs": [
        {"parentCategoricalValues": {"values": ["sgd"]}, "parameterSpec": double("momentum", 0, 0.99)},
        {"parentCategoricalValues": {"values": ["adam", "rmsprop"]}, "parameterSpec": double("warmup", 0, 1)},
    ],
}
PROBLEMS = (
    Problem("Branin", [double("x", -5, 10), double("y", 0, 15)], branin, 0.397887, 0, 1 / 5),
    Problem("Hartmann6", [double(f"x{n}", 0, 1) for n in range(6)], hartmann, -3.32237, 0, 2 / 5),
    Problem(
        "noisy, mixed",
        [
            double("learning_rate", 1e-5, 1, "UNIT_LOG_SCALE"),
            double("weight_decay", 1e-7, 1e-1, "UNIT_LOG_SCALE"),
            double("dropout", 0, 0.8),
            OPTIMIZER,
        ],
        training,
        0.0,
        0.03,
        9 / 10,
    ),
)


if __name__ == "__main__":
    raise SystemExit(main())
