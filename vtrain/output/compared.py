"""Jobs and the runs of experiments side by side: their arguments, and the numbers that they measured last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from vtrain.errors import ConfigError
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.resources import Job, spec_of
from vtrain.messages.secrets import masked_words
from vtrain.output.trials import best_trials
from vtrain.runtime.experiments import ExperimentRun
from vtrain.runtime.output_numbers import last_numbers, number_of, output_of

Document = dict[str, Any]
ARGS, METRICS = "args", "metrics"


def compared_job(job: Job, home: Path | None) -> Document:
    """The arguments and the last metrics of a job; of a tuning job those of its best trial.

    Metrics are read from files of its output, in the buckets of a home; without one, a job has none.
    """
    if isinstance(job, HyperparameterTuningJob):
        found = best_trials(job)[:1]
        final = found[0].final_measurement if found else None
        return {
            ARGS: {each.parameter_id: each.value for trial in found for each in trial.parameters},
            METRICS: {each.metric_id: each.value for each in (final.metrics if final else ())},
        }
    output = output_of(job, home) if home is not None else None
    return {ARGS: named_arguments(words_of(job)), METRICS: last_numbers(output) if output is not None else {}}


def run_document(run: ExperimentRun) -> Document:
    """A run as a list prints it."""
    return {
        "name": run.name,
        "displayName": run.display_name,
        "experiment": run.experiment,
        "state": run.state,
        "createTime": run.create_time,
        ARGS: run.args,
        METRICS: run.metrics,
    }


def flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments and metrics of a document by the names of their columns, such as `args.lr`."""
    values = ((f"{kind}.{name}", value) for kind in (METRICS, ARGS) for name, value in document[kind].items())
    return {name: value for name, value in values if value is not None}


def sorted_documents(documents: Iterable[Document], key: str) -> list[Document]:
    """The documents by a column or a field, with `~` before it in descending order.

    Numbers stand before texts, and what has no value last.
    """
    name, falls = key.removeprefix("~"), key.startswith("~")
    found = [(flat(one).get(name, one.get(name)), one) for one in documents]
    rest = [one for value, one in found if not isinstance(value, (int, float, str))]

    def of(*kinds: type) -> Iterator[Document]:
        some = ((value, one) for value, one in found if isinstance(value, kinds))
        yield from (one for _, one in sorted(some, key=itemgetter(0), reverse=falls))

    return [*of(int, float), *of(str), *rest]


def named_arguments(words: Sequence[str]) -> dict[str, Any]:
    """The values of flags on a trainer's command line: of `--lr=0.1` and `--lr 0.1` the same number."""
    return dict(_pairs(masked_words(words)))


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    for word, following in zip(words, (*words[1:], "-"), strict=False):
        name, equals, value = word.lstrip("-").partition("=")
        if not _is_flag(word) or not name:
            continue
        if not equals:
            value = "true" if _is_flag(following) else following
        yield name, number_of(value)


def _is_flag(word: str) -> bool:
    return word.startswith("-") and isinstance(number_of(word), str)


def words_of(job: Job) -> Sequence[str]:
    """The command line of a job's first replica, as far as the trainer reads it."""
    try:
        spec = spec_of(job)
    except ConfigError:  # a task that describes no job
        return ()
    pool = spec.worker_pool_specs[0] if spec is not None and spec.worker_pool_specs else None
    if pool is not None and pool.python_package_spec is not None:
        return pool.python_package_spec.args
    return pool.container_spec.args if pool is not None and pool.container_spec is not None else ()
