"""The list of jobs on a terminal: what people look for, in the terminal's width, states in colour."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from vtrain.messages.states import ENDED_TRIAL, SUCCEEDED, short
from vtrain.output.colours import Role, state_role
from vtrain.output.layout import GAP, column_widths, filled, in_columns
from vtrain.output.terminal import on_one_line
from vtrain.times import ago, took_in_words

LaidOut = tuple[Iterable[dict[str, Any]], Callable[[Iterable[dict[str, Any]]], str]]
"""The documents of a list, and what lays those that are chosen out as a table."""
HEADINGS = ("ID", "NAME", "STATE", "TRIALS", "CREATED", "TOOK", "EXIT", "BACKEND")
LEAST_NAME = 12
"""Columns that a name keeps where the terminal is narrow."""


class JobRow(NamedTuple):
    """The cells of a job."""

    id: str
    name: str
    state: str
    trials: str
    created: str
    took: str
    exit: str
    backend: str


def job_row(document: Mapping[str, Any], *, shown_id: str, backend: str) -> JobRow:
    """The row of a job's document; a cell is empty where the document does not tell."""
    cells = JobRow(
        id=shown_id,
        name=str(document.get("displayName", "")),
        state=short(str(document.get("state", ""))),
        trials=_trials(document),
        created=ago(str(document.get("createTime", ""))),
        took=took_in_words(str(document.get("startTime", "")), str(document.get("endTime", ""))),
        exit=_exit_code(document),
        backend=backend,
    )
    return JobRow(*map(on_one_line, cells))


def job_table(rows: Sequence[JobRow], *, width: int, coloured: bool) -> str:
    """The rows below their headings, as lines. Names are cut where the table would be too wide.

    A column that no row has anything in is left out, and so are the last ones for which there is no room.
    """
    lines = filled(HEADINGS, rows)
    kept = fitting(lines, width, name=lines[0].index("NAME")) if "NAME" in lines[0] else len(lines[0])
    headings, *others = (line[:kept] for line in lines)
    return drawn_table(headings, others, width=width, coloured=coloured)


def drawn_table(names: Sequence[str], rows: Sequence[Sequence[str]], *, width: int, coloured: bool) -> str:
    """The same with other columns, by the names of these."""
    lines = filled(names, rows)
    headings, widths = lines[0], column_widths(lines)
    if "NAME" in headings:
        name = headings.index("NAME")
        spare = width - sum(widths) - len(GAP) * (len(widths) - 1)
        widths[name] = max(min(widths[name], LEAST_NAME), widths[name] + min(spare, 0))

    def role_of(place: int, cell: str) -> Role | None:
        if headings[place] == "STATE":
            return state_role(cell)
        return Role.DIM if headings[place] in ("CREATED", "TOOK", "BACKEND") else None

    drawn = in_columns(lines, widths=widths, role_of=role_of if coloured else None)
    return "".join(f"{line}\n" for line in drawn)


def fitting(lines: Sequence[Sequence[str]], width: int, *, name: int) -> int:
    """The number of columns, the first ones, for which there is room; that of the name may be cut."""
    widths = column_widths(lines)
    widths[name] = min(widths[name], LEAST_NAME)
    room = accumulate(widths, lambda sum_, each: sum_ + len(GAP) + each)
    return sum(needed <= width for needed in room)


def _trials(document: Mapping[str, Any]) -> str:
    """The trials of a tuning job that have ended, of all: `3 of 8`. Empty for any other job.

    A list of Vertex AI has no trials (ListHyperparameterTuningJobsResponse): nothing is said of them then.
    """
    if "maxTrialCount" not in document or not document.get("trials"):
        return ""
    ended = sum(trial.get("state") in ENDED_TRIAL for trial in document["trials"])
    return f"{ended} of {document['maxTrialCount']}"


def _exit_code(document: Mapping[str, Any]) -> str:
    """The exit code of the replica that failed first, else that of the primary; only of an ended job.

    In a job that succeeded none has failed: those with an exit code were stopped when the primary had ended.
    """
    if "endTime" not in document:
        return ""
    lasts = [(replica.get("attempts") or [{}])[-1] for replica in document.get("replicas") or []]
    ended = [last for last in lasts if "exitCode" in last]
    if document.get("state") != SUCCEEDED:
        failed = (last for last in ended if last["exitCode"])
        ended = sorted(failed, key=lambda last: last.get("endTime", "")) or ended
    return str(ended[0]["exitCode"]) if ended else ""
