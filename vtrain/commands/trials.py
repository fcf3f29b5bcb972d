"""`vtrain hp-tuning-jobs trials`: the trials of a tuning job, the best first."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from vtrain.commands.conclusion import model_folder
from vtrain.commands.kinds import TUNING_JOB
from vtrain.commands.references import command_about, shown_name
from vtrain.commands.selection import show_list
from vtrain.commands.session import Session, open_named, resource_document
from vtrain.errors import NotFoundError
from vtrain.flags.options import CommonFlags, ListFlags, NameFlag, PlaceFlags
from vtrain.flags.tuning_options import BestFlag
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, Trial
from vtrain.output.colours import has_colours
from vtrain.output.trials import TrialTable, best_first, best_trials

TABLE = (
    "table(id:label=TRIAL, state:label=STATE, finalMeasurement.metrics[0].value:label=VALUE, "
    "startTime:label=STARTED, endTime:label=ENDED)"
)
"""What `--page-size` prints; without it the columns are those of the job."""


def trials(
    job: NameFlag, wanted: BestFlag, listing: ListFlags, place: PlaceFlags, common: CommonFlags
) -> None:
    """Print the trials of a job, or the best of them."""
    session, name = open_named(common, place, job.text, TUNING_JOB)
    found = tuning_job(session, name)
    chosen = best_trials(found) if wanted.best else best_first(found)
    if wanted.best and not chosen:
        raise NotFoundError(
            f"No trial of {shown_name(name)} has a result.", hint=f"$ {command_about(name, 'trials')}"
        )
    by_id = {trial.id: trial for trial in chosen}

    def draw(documents: Iterable[dict[str, Any]]) -> str:
        shown = [by_id[document["id"]] for document in documents]
        lines = TrialTable(found).lines(shown, coloured=has_colours(sys.stdout)) if shown else []
        return "".join(f"{line}\n" for line in lines)

    has_models = wanted.best or session.console.format is not None
    show_list(
        session.console,
        listing,
        _documents(session, found, chosen, has_models=has_models),
        default="yaml" if wanted.best else TABLE,
        uri_of=session.uri_of,
        draw=None if wanted.best else draw,
    )


def tuning_job(session: Session, name: str) -> HyperparameterTuningJob:
    """The tuning job of a name."""
    job = session.jobs.get(name)
    assert isinstance(job, HyperparameterTuningJob)  # as the collection in the name says
    return job


def _documents(
    session: Session, job: HyperparameterTuningJob, trials: Iterable[Trial], *, has_models: bool
) -> Iterator[dict[str, Any]]:
    """The trials as the job's document has them; with `has_models` each that has a model with its folder."""
    documents = {
        str(document.get("id", "")): document for document in resource_document(job).get("trials", ())
    }
    for trial in trials:
        model = model_folder(session, job, trial) if has_models else ""
        yield documents[trial.id] | ({"modelDir": model} if model else {})
