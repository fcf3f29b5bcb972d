"""Jobs and runs of experiments side by side: their arguments, what they run, what they measured last."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from vtrain.errors import ConfigError, PackagingError
from vtrain.messages.codec import to_document
from vtrain.messages.custom_job import ContainerSpec, CustomJobSpec, PythonPackageSpec
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.resources import Job, spec_of
from vtrain.messages.secrets import masked_document, masked_words
from vtrain.output.terminal import on_one_line
from vtrain.output.trials import best_trials
from vtrain.packaging.archive import SNAPSHOT, read_metadata, script_of
from vtrain.packaging.direct import SCRIPT_PACKAGE
from vtrain.runtime.experiments import ExperimentRun
from vtrain.runtime.home import Home
from vtrain.runtime.machines import machine_in_words
from vtrain.runtime.output_numbers import LAST_OUTPUT, job_numbers, number_of
from vtrain.staging import LocalBuckets

Document = dict[str, Any]
ARGS, SETUP, METRICS = "args", "setup", "metrics"
NO_METRICS = 'No metrics: a trainer prints them in lines such as {"accuracy": 0.91, "step": 3}.'
DIGITS = 6
"""Digits of an id beside a name that several jobs have."""


def compared_job(job: Job, home: Path | None) -> Document:
    """The arguments and the last metrics of a job; of a tuning job those of its best trial, if it has one.

    Metrics are read from what a job of a home has written; without a home, a job has none.
    """
    if isinstance(job, HyperparameterTuningJob):
        found = best_trials(job)[:1]
        final = found[0].final_measurement if found else None
        chosen = {each.parameter_id: each.value for trial in found for each in trial.parameters}
        return {
            ARGS: named_arguments(words_of(job)) | chosen,
            METRICS: {each.metric_id: each.value for each in (final.metrics if final else ())},
        }
    metrics = job_numbers(job, home, LAST_OUTPUT).last if home is not None else {}
    return {ARGS: named_arguments(words_of(job)), METRICS: metrics}


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


class Compared(NamedTuple):
    """One argument, setting or metric of all that is compared: None where one has no such thing."""

    name: str
    values: list[Any]

    @property
    def differs(self) -> bool:
        """Whether two of them have different values."""
        return any(value != self.values[0] for value in self.values)


def side_of(job: Job, home: Path | None) -> Document:
    """A job as it is compared with others: its name and times, arguments, what it runs, and metrics."""
    return {
        "name": job.name,
        "displayName": job.display_name,
        "state": job.state,
        "createTime": job.create_time,
        "startTime": job.start_time,
        "endTime": job.end_time,
        **compared_job(job, home),
        SETUP: _setup(job, home),
    }


def compared(sides: Sequence[Document]) -> list[Compared]:
    """All that the sides have, in the order of arguments, settings and metrics."""
    found = [
        (
            {f"{ARGS}.{name}": value for name, value in side[ARGS].items()},
            side.get(SETUP, {}),
            {f"{METRICS}.{name}": value for name, value in side[METRICS].items()},
        )
        for side in sides
    ]
    return [
        Compared(name, [each.get(name) for each in kind])
        for kind in zip(*found, strict=True)
        for name in dict.fromkeys(name for each in kind for name in each)
    ]


def labels_of(jobs: Sequence[tuple[str, str]]) -> list[str]:
    """A label for each full and display name: the latter, with digits of the id where several have it."""
    names = [on_one_line(display_name) for _, display_name in jobs]
    ids = [name.rpartition("/")[2][:DIGITS] for name, _ in jobs]
    return [
        name if name and names.count(name) == 1 else "-".join(filter(None, (name, own_id)))
        for name, own_id in zip(names, ids, strict=True)
    ]


def package_of(job: Job, home: Path) -> Path | None:
    """The file of this machine that has the trainer's files; None where there is none."""
    snapshot = Home(home).job(job.name).path / SNAPSHOT
    if snapshot.is_file():
        return snapshot
    return _own_package(job, home)


def _own_package(job: Job, home: Path) -> Path | None:
    """The trainer's package, with its metadata; None where it is not on this machine."""
    task = _task(job)
    if not isinstance(task, PythonPackageSpec) or not task.package_uris:
        return None
    with suppress(ConfigError):  # a bucket of the real Cloud Storage
        path = LocalBuckets(home).local_path(task.package_uris[-1])  # the trainer comes last
        return path if path.is_file() else None
    return None


def _setup(job: Job, home: Path | None) -> Document:
    """What a job runs, and on what: names with texts."""
    spec, task = _spec(job), _task(job)
    if spec is None:
        return {}
    pool = spec.worker_pool_specs[0] if spec.worker_pool_specs else None
    found: dict[str, Any] = {}
    if isinstance(task, PythonPackageSpec):
        found["package"] = " ".join(
            uri.rpartition("/")[2].removesuffix(".tar.gz").removesuffix(".whl") for uri in task.package_uris
        )
        found["module"] = task.python_module.replace(SCRIPT_PACKAGE, "")
        package = _own_package(job, home) if home is not None else None
        if package is not None:
            with suppress(PackagingError, OSError):
                metadata = read_metadata(package)
                found["script"] = script_of(package)
                found["requirements"] = ", ".join(metadata.requires_dist or ())
                found["python"] = metadata.requires_python
        found["image"] = task.executor_image_uri
    elif task is not None:
        found["image"] = task.image_uri
        found["command"] = " ".join(masked_words(task.command))
    if task is not None:
        found["positional arguments"] = " ".join(
            takewhile(lambda word: not _is_flag(word), masked_words(task.args))
        )
    machine = pool.machine_spec if pool is not None else None
    if machine is not None:
        found["machine"] = machine_in_words(machine)
    found["replicas"] = sum(each.replica_count for each in spec.worker_pool_specs)
    if isinstance(job, HyperparameterTuningJob):
        found |= _study_of(job)
    variables = masked_document(to_document(task)).get("env", ()) if task is not None else ()
    found |= {f"env.{each['name']}": each.get("value", "") for each in variables}
    return {name: value for name, value in found.items() if value != ""}


def _study_of(job: HyperparameterTuningJob) -> Document:
    """What a tuning job tries: the space of each parameter as the API writes it, the algorithm, trials."""
    study = to_document(job.study_spec) if job.study_spec is not None else {}
    found = {"trials": job.max_trial_count, "algorithm": study.get("algorithm", "")}
    for parameter in study.get("parameters", ()):
        space = {name: value for name, value in parameter.items() if name != "parameterId"}
        found[f"parameter.{parameter.get('parameterId', '')}"] = json.dumps(space)
    return found


def flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments and metrics of a document by the names of their columns, such as `args.lr`."""
    values = ((f"{kind}.{name}", value) for kind in (METRICS, ARGS) for name, value in document[kind].items())
    return {name: value for name, value in values if value is not None}


def counted_columns(documents: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """The number of documents that have each column."""
    return Counter(name for document in documents for name in flat(document))


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
    for at, word in enumerate(words):
        name, equals, value = word.lstrip("-").partition("=")
        if not _is_flag(word) or not name:
            continue
        if not equals:
            values = [*takewhile(lambda each: not _is_flag(each), words[at + 1 :])]
            numbers = [*takewhile(lambda each: not isinstance(number_of(each), str), values)]
            # of `--hidden 64 32` all; what stands behind `--lr 0.1` may be a word of its own
            value = " ".join(numbers or values) if values else "true"
        yield name, number_of(value)


def _is_flag(word: str) -> bool:
    return word.startswith("-") and isinstance(number_of(word), str)


def words_of(job: Job) -> Sequence[str]:
    """The command line of a job's first replica, as far as the trainer reads it."""
    task = _task(job)
    return task.args if task is not None else ()


def _task(job: Job) -> ContainerSpec | PythonPackageSpec | None:
    """What the first replica runs."""
    spec = _spec(job)
    pool = spec.worker_pool_specs[0] if spec is not None and spec.worker_pool_specs else None
    return pool.task if pool is not None else None


def _spec(job: Job) -> CustomJobSpec | None:
    with suppress(ConfigError):  # a task that describes no job
        return spec_of(job)
    return None
