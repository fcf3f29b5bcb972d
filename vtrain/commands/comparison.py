"""`vtrain ps --metrics`: jobs and the runs of experiments in one table, with arguments and last metrics."""

from __future__ import annotations

import heapq
import shutil
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from vtrain.commands.session import Session, resource_document
from vtrain.core.references import job_id, jobs_here, short_ids
from vtrain.flags.grammar import split_list
from vtrain.flags.options import MetricFlags
from vtrain.messages.states import short
from vtrain.output.colours import has_colours
from vtrain.output.compared import (
    ARGS,
    METRICS,
    NO_METRICS,
    compared_job,
    counted_columns,
    flat,
    run_document,
    sorted_documents,
)
from vtrain.output.job_table import LaidOut, drawn_table, fitting
from vtrain.output.terminal import on_one_line
from vtrain.output.trials import shown_value
from vtrain.runtime.experiments import ExperimentRun, experiment_runs
from vtrain.times import ago

if TYPE_CHECKING:
    from vtrain.messages.resources import Job

MOST_READ = 1000
"""Jobs and runs whose files are read, the newest."""
MOST_NAMED = 5
"""Columns that a message names."""
_FIXED = {"ID": "name", "NAME": "displayName", "STATE": "state", "CREATED": "createTime"}
"""The columns that every table has, and the fields that they show."""


def compared_jobs(wanted: MetricFlags, session: Session, jobs: Iterable[Job]) -> LaidOut:
    """Jobs, and on this machine the runs of experiments, in the order of the flags, and in their columns."""
    columns = split_list(wanted.columns, "--columns")
    documents: Iterable[dict[str, Any]] = _documents(session, jobs)
    name = wanted.sort.removeprefix("~")
    if name:
        documents = list(documents)
        counted = counted_columns(documents)
        name = _full_name(name, counted)
        if _is_fixed(name, counted):  # by what the column shows: NAME is no field called name
            name = _FIXED[name.upper()]
        elif documents and not any(name in one for one in documents):
            _warn_of_missing(session, counted, "--sort", [name])
        documents = sorted_documents(documents, f"~{name}" if wanted.sort.startswith("~") else name)
    return documents, lambda found: _table(session, [*found], columns, name)


def _documents(session: Session, jobs: Iterable[Job]) -> Iterator[dict[str, Any]]:
    """The newest jobs and runs, with their arguments and metrics."""
    home = session.settings.home if session.is_local else None
    runs = experiment_runs(home, MOST_READ + 1) if home is not None else []
    merged = heapq.merge(jobs, runs, key=attrgetter("create_time"), reverse=True)
    for number, one in enumerate(merged):
        if number == MOST_READ:
            session.console.warn(f"Only the {MOST_READ} newest were read.")
            break
        if isinstance(one, ExperimentRun):
            yield run_document(one)
        else:
            yield {**resource_document(one), **compared_job(one, home)}


def _table(session: Session, documents: list[dict[str, Any]], columns: Sequence[str], first: str) -> str:
    """The documents in columns: those that are wanted, else `first` and as many as there is room for."""
    if not documents:
        return ""
    values = [flat(document) for document in documents]
    counted = counted_columns(documents)
    names = [_full_name(each, counted) for each in columns]
    names = [name for name in names if not _is_fixed(name, counted)]
    _warn_of_missing(session, counted, "--columns", names)
    if not columns and not any(name.startswith(f"{METRICS}.") for name in counted):
        session.console.progress(NO_METRICS)
    if not columns:
        names = sorted(counted, key=lambda name: (name != first, name.startswith(f"{ARGS}."), -counted[name]))
    ids = short_ids(jobs_here()) if session.is_local else {}
    rows = [
        [*_cells(document, ids), *(shown_value(each[name]) if name in each else "" for name in names)]
        for document, each in zip(documents, values, strict=True)
    ]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    headings = [*_FIXED, *_headings(names)]
    if not columns and (left := len(headings) - fitting([headings, *rows], width, name=1)):
        some = ",".join(names[len(names) - left :][:MOST_NAMED])
        session.console.progress(f"There is no room for {left} more: --columns={some}")
        headings, rows = headings[:-left], [row[:-left] for row in rows]
    return drawn_table(headings, rows, width=width, coloured=has_colours(sys.stdout))


def _full_name(name: str, known: Collection[str]) -> str:
    """A column as its heading names it: `lr` is `args.lr`, where that is the only one of that name."""
    found = [each for each in known if each.partition(".")[2] == name]
    return found[0] if name not in known and len(found) == 1 else name


def _is_fixed(name: str, known: Collection[str]) -> bool:
    """Whether a column is one that every table has; an argument of the same name counts more."""
    return name not in known and name.upper() in _FIXED


def _warn_of_missing(session: Session, counted: Counter[str], flag: str, wanted: Sequence[str]) -> None:
    """Warn of wanted columns that no document has."""
    if missing := [name for name in wanted if name not in counted]:
        some = ", ".join(name for name, _ in counted.most_common(MOST_NAMED)) or "no column"
        session.console.warn(f"{flag}: nothing here has {', '.join(missing)}. There is {some}.")


def _cells(document: Mapping[str, Any], ids: Mapping[str, str]) -> list[str]:
    """The first cells of a row. A run of an experiment has no id that commands take."""
    name = str(document.get("name", ""))
    experiment = f"{document['experiment']}/" if "experiment" in document else ""
    cells = (
        "" if experiment else ids.get(name, job_id(name)),
        f"{experiment}{document.get('displayName', '')}",
        short(str(document.get("state", ""))),
        ago(str(document.get("createTime", ""))),
    )
    return [*map(on_one_line, cells)]


def _headings(names: Sequence[str]) -> list[str]:
    """The names of columns without `args.` and `metrics.`, where that names only one of them."""
    shorts = [name.partition(".")[2] for name in names]
    return [
        on_one_line(name if shorts.count(brief) > 1 else brief)
        for name, brief in zip(names, shorts, strict=True)
    ]
