"""A job as the pages show it: its row in a list, its facts, its replicas, its failure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from vtrain.backends import ReplicaUsage
from vtrain.core.verdict import failure_of, replica_uses
from vtrain.errors import ConfigError
from vtrain.failure import folded
from vtrain.messages import states
from vtrain.messages.codec import to_document
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob
from vtrain.messages.names import CUSTOM_JOBS, HYPERPARAMETER_TUNING_JOBS, TRAINING_PIPELINES, require_name
from vtrain.messages.resources import Job, collection_of, spec_of
from vtrain.messages.secrets import masked_document
from vtrain.messages.states import ENDED_TRIAL
from vtrain.output.compared import ARGS, METRICS, Document, counted_columns
from vtrain.output.language.format import parse_format
from vtrain.output.language.printers import render
from vtrain.output.trials import shown_value
from vtrain.runtime.experiments import ExperimentRun
from vtrain.runtime.output_numbers import Numbers
from vtrain.sizes import size_in_words
from vtrain.times import ago, duration_in_words, took_in_words

EXPERIMENT_RUNS = "experimentRuns"
KINDS = {
    CUSTOM_JOBS: "Custom job",
    HYPERPARAMETER_TUNING_JOBS: "Tuning job",
    TRAINING_PIPELINES: "Pipeline",
    EXPERIMENT_RUNS: "Experiment run",
}
_NOT_CONFIGURED = frozenset(
    "name state createTime startTime endTime updateTime error "
    "trials replicas study trainingTaskMetadata".split()
)
"""Fields of a job that tell its progress; they are no part of its configuration."""
_TONES = {
    states.SUCCEEDED: "good",
    states.PARTIALLY_SUCCEEDED: "good",
    states.FAILED: "bad",
    states.RUNNING: "busy",
    states.PENDING: "waiting",
    states.QUEUED: "waiting",
}
_RUN_TONES = {"COMPLETE": "good", "FAILED": "bad", "RUNNING": "busy"}
MOST_COLUMNS = 3
"""Metrics, and arguments, that a list has columns for."""
_FALLS = re.compile(
    r"loss|error|perplexity|(?:^|[^a-z])(?:m[sa]e|rmse|wer|cer|ppl|nll)(?:[^a-z]|$)", re.IGNORECASE
)
_RISES = re.compile(
    r"acc|score|precision|recall|reward|bleu|rouge|(?:^|[^a-z])(?:auc|f1|r2|map|iou|dice)(?:[^a-z]|$)",
    re.IGNORECASE,
)


class State(msgspec.Struct, frozen=True):
    """A state in words, and its tone: a class of the style sheet."""

    text: str
    tone: str


class Moment(msgspec.Struct, frozen=True):
    """A time as it was written, and how long ago that is."""

    written: str
    ago: str


class ShownJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job in a list, or a run of an experiment, which has no page; a text is empty if nothing is known."""

    address: str = ""
    id: str
    name: str
    kind: str
    state: State
    created: Moment
    took: str = ""
    replicas: str = ""
    attempts: str = ""
    memory: str = ""
    processor: str = ""
    note: str = ""
    key: str = ""
    """The full name, by which a list names the job that is ticked."""
    values: tuple[str, ...] = ()
    """Arguments and metrics, in the order of the list's columns."""


class ReplicaRow(msgspec.Struct, frozen=True, kw_only=True):
    """A replica: its attempts with their exit codes, its use so far."""

    name: str
    attempts: str
    exits: str
    memory: str
    processor: str


def address_of(name: str) -> str:
    """The path of a job's page."""
    found = require_name(name)
    parts = (found.project, found.location, found.collection, found.id)
    return "/jobs/" + "/".join(quote(part, safe="") for part in parts)


def state_of(job: Job) -> State:
    """The state of a job."""
    text = states.short(job.state)
    return State(text.capitalize().replace("_", " "), _TONES.get(states.job_state(job.state), "calm"))


def job_row(job: Job, parts: Sequence[CustomJob], values: tuple[str, ...] = ()) -> ShownJob:
    """The row of a job that consists of these custom jobs; `values` are those of the list's columns."""
    uses = [use for part in parts for use in replica_uses(part)]
    attempts = [len(use.exit_codes) for use in uses]
    return ShownJob(
        address=address_of(job.name),
        id=job.name.rpartition("/")[2],
        name=job.display_name or job.name.rpartition("/")[2],
        kind=KINDS[collection_of(job)],
        state=state_of(job),
        created=Moment(job.create_time, ago(job.create_time)),
        took=took_in_words(job.start_time or (job.create_time if job.end_time else ""), job.end_time),
        replicas=_replicas(job),
        attempts=str(max(attempts)) if any(attempts) else "",
        memory=_size(max((use.peak_memory_bytes for use in uses), default=0)),
        processor=_seconds(sum(use.cpu_seconds for use in uses)),
        note=_note(job),
        key=job.name,
        values=values,
    )


def run_row(run: ExperimentRun, values: tuple[str, ...]) -> ShownJob:
    """The row of a run of an experiment."""
    return ShownJob(
        id=run.experiment,
        name=run.display_name,
        kind=KINDS[EXPERIMENT_RUNS],
        state=State(run.state.capitalize(), _RUN_TONES.get(run.state, "calm")),
        created=Moment(run.create_time, ago(run.create_time)),
        key=run.name,
        values=values,
    )


def columns_of(documents: Sequence[Document], first: str) -> list[str]:
    """The metrics and arguments that most of the documents have, as columns; `first` is among them."""
    names = [name for name, _ in counted_columns(documents).most_common()]
    kinds = ([name for name in names if name.startswith(f"{kind}.")] for kind in (METRICS, ARGS))
    found = [name for kind in kinds for name in kind[:MOST_COLUMNS]]
    return found if first in found or first not in names else [first, *found]


def metric_facts(numbers: Numbers) -> list[tuple[str, str]]:
    """The last number of each metric, with the best where its name tells what is better."""
    found: dict[str, str] = {}
    for scalars in numbers.files:
        for name, points in scalars.series.items():
            values = [value for _, value in points]
            better = min if _FALLS.search(name) else max if _RISES.search(name) else None
            best = better(values) if better is not None else values[-1]
            last = scalars.lost.get(name, shown_value(values[-1]))
            shown = shown_value(best)
            found.setdefault(name, last if last == shown else f"{last} (best {shown})")
        for name, value in (*scalars.values, *scalars.lost.items()):
            found.setdefault(name, shown_value(value))
    return list(found.items())


def replica_rows(job: CustomJob, usage: dict[str, ReplicaUsage]) -> list[ReplicaRow]:
    """The replicas of a job: as they ended, or as they are now."""
    records = (job.answer or {}).get("replicas", ())
    ended = {use.name: use for use in replica_uses(job)}
    counts = {record["name"]: len(record["attempts"]) for record in records}
    rows = []
    for name in dict.fromkeys([*ended, *usage]):
        use, now = ended.get(name), usage.get(name)
        memory = _size(use.peak_memory_bytes) if use else ""
        seconds = use.cpu_seconds if use else 0.0
        if now is not None:
            memory, seconds = f"{_size(now.memory_bytes)} now", seconds + now.cpu_seconds
        rows.append(
            ReplicaRow(
                name=name,
                attempts=str(counts.get(name, 1)),
                exits=" ".join(map(str, use.exit_codes)) if use else "",
                memory=memory,
                processor=_seconds(seconds),
            )
        )
    return rows


def configuration(job: Job) -> str:
    """The configuration of a job as YAML, with its secrets masked."""
    document = masked_document(job.answer if job.answer is not None else to_document(job))
    kept = {key: value for key, value in document.items() if key not in _NOT_CONFIGURED}
    return render(kept, parse_format("yaml"))


class FailureCard(msgspec.Struct, frozen=True, kw_only=True):
    """The cause of a failure: a headline, what the trainer printed, and labels with their texts."""

    headline: str
    quoted: str
    facts: tuple[tuple[str, str], ...]


def failure_card(job: Job) -> FailureCard | None:
    """The card of a failed job; None for any other."""
    failure = failure_of(job)
    if failure is None:
        return None
    headline = failure.headline(is_alone=len(replica_uses(job)) == 1)
    if headline.startswith("exit code "):
        headline = f"Failed with {headline}"
    rest = failure.message.partition("\n")[2].strip("\n")
    quoted = "\n".join(folded(failure.traceback, failure.file)) if failure.traceback else rest
    place = f"{failure.file}:{failure.line}" if failure.file else ""
    facts = (("At", place), ("Hint", failure.hint))
    return FailureCard(
        headline=headline, quoted=quoted, facts=tuple((label, text) for label, text in facts if text)
    )


def _reason_of(job: Job) -> str:
    """The reason why a job that did not fail has ended early; empty where none is known."""
    if job.error is None or states.job_state(job.state) == states.FAILED:
        return ""
    message: str = masked_document(to_document(job)).get("error", {}).get("message", "")
    return message


def head_of(job: Job, parts: Sequence[CustomJob]) -> dict[str, Any]:
    """The values that the head of a page takes, and its configuration."""
    named = (("Created", job.create_time), ("Started", job.start_time), ("Ended", job.end_time))
    return {
        "job": job,
        "row": job_row(job, parts),
        "times": [(label, Moment(text, ago(text))) for label, text in named if text],
        "labels": [(key, text) for key, text in sorted(job.labels.items()) if not key.startswith("vtrain-")],
        "reason": _reason_of(job),
        "failure": failure_card(job),
        "configuration": configuration(job),
    }


def _replicas(job: Job) -> str:
    """The number of replicas; of a tuning job the number of ended trials, and of all."""
    if isinstance(job, HyperparameterTuningJob):
        ended = sum(trial.state in ENDED_TRIAL for trial in job.trials)
        return f"{ended} of {job.max_trial_count} trials"
    try:
        spec = spec_of(job)
    except ConfigError:  # a task that describes no job
        return ""
    return str(sum(pool.replica_count for pool in spec.worker_pool_specs)) if spec is not None else ""


def _note(job: Job) -> str:
    """The note on a failed job in a list: its exception, or the first line of its error."""
    failure = failure_of(job)
    if failure is None:
        return ""
    text = failure.traceback[-1] if failure.traceback else failure.message.partition("\n")[0]
    return text.strip()[:200]


def _size(count: int) -> str:
    return size_in_words(count) if count else ""


def _seconds(count: float) -> str:
    return duration_in_words(count) if count else ""
