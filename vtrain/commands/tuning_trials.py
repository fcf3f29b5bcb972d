"""The trials of a tuning job: listed, as a page with charts, and live while somebody follows the job."""

from __future__ import annotations

import math
import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from vtrain.atomic import publish_file
from vtrain.backends import RepeatableBackend
from vtrain.command_log import masked_line, split_line
from vtrain.commands.conclusion import model_folder
from vtrain.commands.selection import show_list
from vtrain.commands.servers import needed_modules
from vtrain.commands.session import Session, best_of, open_named, resource_document, tuning_job
from vtrain.core.references import command_about
from vtrain.errors import ConfigError, StorageError
from vtrain.flags.job_options import ContainerFlags, EntryFlags, TrainerFlags
from vtrain.flags.options import BestFlag, CommonFlags, ListFlags, NameFlag, PlaceFlags, ReportFlags
from vtrain.flags.row import flag_name, groups_of, rows_of
from vtrain.flags.tuning_options import TuneLine
from vtrain.messages.codec import from_document, to_document
from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, StudySpec, Trial
from vtrain.messages.names import TUNING_JOB
from vtrain.messages.secrets import masked_document
from vtrain.messages.states import ENDED_TRIAL, has_ended
from vtrain.output.colours import has_colours
from vtrain.output.console import Console
from vtrain.output.trials import (
    TrialTable,
    best_first,
    end_text,
    live_lines,
    measured_text,
    progress_text,
    study_trials,
)
from vtrain.runtime.tuning.study import arguments, fits
from vtrain.settings import user_path
from vtrain.special_files import why_special
from vtrain.staging import LocalBuckets
from vtrain.times import epoch

TABLE = (
    "table(id:label=TRIAL, state:label=STATE, finalMeasurement.metrics[0].value:label=VALUE, "
    "startTime:label=STARTED, endTime:label=ENDED)"
)
"""The columns with `--page-size`; without it they are those of the job."""
REDRAW_SECONDS = 0.5
"""Between two looks at the order of the trials: the job is asked far more often."""


def trials(
    job: NameFlag, wanted: BestFlag, listing: ListFlags, place: PlaceFlags, common: CommonFlags
) -> None:
    """Print the trials of a job, or the best of them."""
    session, name = open_named(common, place, job.text, TUNING_JOB)
    found = tuning_job(session, name)
    chosen = best_of(found) if wanted.best else best_first(found)
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
    if session.console.format is None and not wanted.best and chosen and chosen[0].custom_job:
        session.console.progress(f"A trial is a job: vtrain logs {shlex.quote(f'{job.text}@{chosen[0].id}')}")


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


# best


def best(job: NameFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Print the best trial, its arguments as a command line, and where its model is."""
    session, name = open_named(common, place, job.text, TUNING_JOB)
    found = tuning_job(session, name)
    chosen = best_of(found)
    spec = from_document(StudySpec, masked_document(to_document(found.study_spec or StudySpec())))
    shown = study_trials(found)
    args = {
        one.id: shlex.join(arguments(spec, trial.parameters))
        for one, trial in zip(found.trials, shown, strict=True)
        if fits(spec, trial.parameters)
    }
    documents = [
        {**document, "args": args.get(str(document["id"]), "")}
        for document in _documents(session, found, chosen, has_models=True)
    ]
    typed = session.jobs.command(name) if isinstance(session.jobs, RepeatableBackend) else None
    line = run_line(typed.words) if typed is not None else None

    def draw(documents: Iterable[dict[str, Any]]) -> str:
        rows: list[tuple[str, str]] = []
        by_id = {trial.id: trial for trial in chosen}
        for document in documents:
            trial = by_id[str(document["id"])]
            rows += [("trial", f"{trial.id}: {measured_text(trial)}"), ("args", document["args"])]
            if line is not None:
                rows.append(("run", f"$ vtrain {masked_line(line)} {document['args']}"))
            if "modelDir" in document and trial is chosen[0]:
                rows.append(("model", f"$ {command_about(name, 'cp')}"))
        return "".join(f"{label:<6}  {text}\n" for label, text in rows)

    listing = ListFlags()
    show_list(session.console, listing, documents, default="yaml", uri_of=session.uri_of, draw=draw)


def run_line(typed: Sequence[str]) -> list[str] | None:
    """The words of `vtrain run` up to a trial's own arguments, from the line that made the tuning job.

    None where another line made it, or a file says what a trial runs.
    """
    words, tail = split_line(typed)
    starts = [at for at, word in enumerate(words) if word in ("tune", "create")]
    if not starts:
        return None
    kept, waiting, flags = ["run"], iter(words[starts[0] + 1 :]), set()
    rows = {
        spelled: (row, group in _ABOUT_THE_TRAINER or spelled == "--backend")
        for group in groups_of(TuneLine)
        for field, row in rows_of(group).items()
        for spelled in (flag_name(field, row), row.short)
    }
    for word in waiting:
        flag, equals, _ = word.partition("=")
        row, is_kept = rows.get(flag, (None, not word.startswith("-")))
        value = [next(waiting, "")] if row is not None and not row.is_switch and not equals else []
        kept += [word, *value] if is_kept else []
        flags.add(flag if word.startswith("-") else "")
    if "--config" in flags and not flags & _NAMING:
        return None
    return [*kept, "--", *tail[1:]]


_ABOUT_THE_TRAINER = (EntryFlags, TrainerFlags, ContainerFlags)
"""The flags of a tuning job that `vtrain run` takes too, and that decide how its trainer runs."""
_NAMING = {"", "--script", "--python-module", "--module", "-m"}
"""The flags that name what to run; the empty one is a script or a folder."""


# live


class TrialWatch:
    """Shows the trials on a terminal, and elsewhere tells of each that has ended."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told: set[str] | None = None
        self._told_at = -math.inf
        self._drawn_at = 0.0
        self._lines: Sequence[str] = ()
        self._progress = ""

    def show(self, job: HyperparameterTuningJob, text: str, *, more: bool) -> None:
        """Show the trials above the text about the job's state; with `more`, how far they are behind it."""
        self._console.show_state(f"{text}  {self._progress}" if more else text, self._lines)
        if not self._console.has_status_line:
            if self._told is None:  # of a job that has ended before, the end alone is news
                self._told = {trial.id for trial in job.trials} if has_ended(job.state) else set()
            self._tell(job, self._told)
        elif time.monotonic() - self._drawn_at >= REDRAW_SECONDS or has_ended(job.state):
            self._lines = live_lines(job, most=max(shutil.get_terminal_size().lines // 2, 3))
            self._progress = progress_text(job) if job.trials else ""
            self._drawn_at = time.monotonic()

    def has_told(self, seconds: float) -> bool:
        """Whether a line about a trial was written within the last seconds."""
        return time.monotonic() - self._told_at < seconds

    def _tell(self, job: HyperparameterTuningJob, shown: set[str]) -> None:
        for trial in job.trials:
            if trial.state in ENDED_TRIAL and trial.id not in shown:
                shown.add(trial.id)
                if trial.end_time and epoch(trial.end_time) < epoch(job.create_time):
                    continue  # it is one of the job that this one continues
                self._told_at = time.monotonic()
                self._console.progress(end_text(trial))


# report


FILE_MODE = 0o644
REPORT = "report.html"


def report(job: NameFlag, report: ReportFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """Write the page of a tuning job."""
    target = _target(report.output) if report.output is not None else None
    session, name = open_named(common, place, job.text, TUNING_JOB)
    found = tuning_job(session, name)
    target = target or _target(str(_output_folder(session, found) / REPORT))
    document = masked_document(resource_document(found))
    found = from_document(HyperparameterTuningJob, document)
    with needed_modules("report", "tuning"):
        from vtrain.emulator.dashboard.report import study_report
    page = study_report(found)
    try:
        publish_file(target, page, FILE_MODE)
    except OSError as error:
        raise StorageError(f"Cannot write {target}: {error.strerror}.") from error
    session.console.status(f"Wrote {target}.")
    session.console.result({"file": str(target), "trials": len(found.trials)})


def _output_folder(session: Session, job: HyperparameterTuningJob) -> Path:
    """The output folder of a tuning job; the current one where it is not on this machine.

    What lies in the current folder would be packaged with the next trainer.
    """
    base = job.trial_job_spec.output_uri if job.trial_job_spec is not None else ""
    folder = LocalBuckets(session.settings.home).local_path(base) if session.is_local and base else Path()
    return folder if folder.is_dir() else Path()


def _target(text: str) -> Path:
    """The file to write. Raises ConfigError where there can be none."""
    path = user_path(text)
    if not text or path.is_dir():
        raise ConfigError(f"--output: expected a file such as report.html, found {text!r}.")
    if reason := why_special(path) or ("it is a device" if path.is_char_device() else ""):
        raise ConfigError(f"--output: {text} is no file: {reason}.")
    if not path.parent.is_dir():
        raise ConfigError(f"--output: there is no folder {path.parent}.", hint=f"$ mkdir -p {path.parent}")
    return path.resolve() if path.is_symlink() else path
