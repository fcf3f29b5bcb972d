"""`vtrain compare`: what differs between jobs, a row for each thing and a column for each job."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from itertools import islice

from vtrain.commands.session import open_console, open_named
from vtrain.core.references import LAST, find_reference, job_id, jobs_here, short_ids
from vtrain.errors import NotFoundError, UsageError
from vtrain.flags.options import CommonFlags, ComparedFlag, PlaceFlags
from vtrain.messages.names import ANY_JOB
from vtrain.messages.states import short
from vtrain.output.colours import Role, dim, has_colours, paint, state_role
from vtrain.output.compared import (
    METRICS,
    NO_METRICS,
    Compared,
    Document,
    compared,
    labels_of,
    package_of,
    side_of,
)
from vtrain.output.layout import GAP, column_widths, in_columns
from vtrain.output.terminal import on_one_line, visible
from vtrain.output.trials import pairs_text, shown_value
from vtrain.packaging.difference import Difference, changed_files
from vtrain.times import ago, took_in_words

MOST_SAME = 6
"""Values that are the same in all, and are named."""
LEAST_VALUE, MOST_VALUE = 10, 60
"""Columns that a value keeps where the terminal is narrow, and those that it takes where it is wide."""
_COLOURS = {"+": Role.GOOD, "-": Role.ERROR, "@": Role.ACTIVE}


def compare(chosen: ComparedFlag, place: PlaceFlags, common: CommonFlags) -> None:
    """Print what differs between jobs."""
    names = chosen.jobs or [f"{LAST}-1", LAST]
    if len(names) == 1:
        other = f"{LAST}-1" if names[0] == LAST else shlex.quote(names[0])
        hint = f"vtrain compare {other} {LAST}"
        raise UsageError("compare needs two jobs or more.", hint=hint)
    console = open_console(common)
    sides, packages = [], []
    for text in names:
        try:
            session, name = open_named(common, place, text, ANY_JOB, console=console)
        except NotFoundError as error:
            if chosen.jobs:
                raise
            count = "one" if find_reference(LAST, ANY_JOB, place.region).jobs else "none"
            raise NotFoundError(f"compare needs two jobs, and there is {count} on this machine.") from error
        job, home = session.jobs.get(name), session.settings.home if session.is_local else None
        sides.append(side_of(job, home))
        packages.append(package_of(job, home) if home is not None else None)
    labels = labels_of([(side["name"], side["displayName"]) for side in sides])
    rows = compared(sides)
    changed = list(changed_files(packages, labels))
    if console.format is not None:
        differences = {row.name: row.values for row in rows if row.differs}
        files = [
            {"before": labels[0], "after": label, "diff": each.lines, "leftOut": each.left_out}
            for label, each in changed
        ]
        console.result({"jobs": sides, "differences": differences, "files": files})
        return
    texts = [_table(sides, labels, rows), *(_diff_text(each) for _, each in changed)]
    if console.user_output:
        console.write("\n".join(texts).encode("utf-8", "replace"))
    same = [row for row in rows if not row.differs]
    if same:
        pairs = pairs_text((row.name, row.values[0]) for row in islice(same, MOST_SAME))
        more = f", and {len(same) - MOST_SAME} more" if len(same) > MOST_SAME else ""
        console.progress(dim(f"The same: {pairs}{more}"))
    if not any(side[METRICS] for side in sides):
        console.progress(NO_METRICS)


def _table(sides: Sequence[Document], labels: Sequence[str], rows: Sequence[Compared]) -> str:
    """What differs, in columns."""
    ids = short_ids(jobs_here())
    lines = [
        ["", *labels],
        ["ID", *(ids.get(side["name"], job_id(side["name"])) for side in sides)],
        ["STATE", *(short(side["state"]) for side in sides)],
        ["CREATED", *(ago(side["createTime"]) for side in sides)],
        ["TOOK", *(took_in_words(side["startTime"], side["endTime"]) for side in sides)],
        *([row.name, *("–" if each is None else shown_value(each) for each in row.values)]
          for row in rows if row.differs),
    ]  # fmt: skip
    lines = [[*map(on_one_line, line)] for line in lines]
    first, *others = column_widths(lines)
    room = MOST_VALUE
    if sys.stdout.isatty():
        room = max((shutil.get_terminal_size().columns - first) // len(sides) - len(GAP), LEAST_VALUE)
    widths = [first, *(min(width, room) for width in others)]

    def role_of(place: int, cell: str) -> Role | None:
        return Role.DIM if place == 0 else state_role(cell) if cell in states else None

    states = set(lines[2][1:])
    drawn = in_columns(lines, widths=widths, role_of=role_of if has_colours(sys.stdout) else None)
    return "".join(f"{line}\n" for line in drawn)


def _diff_text(found: Difference) -> str:
    """A diff, in colours on a terminal."""
    coloured = has_colours(sys.stdout)
    lines = [
        paint(visible(line), role) if coloured and (role := _COLOURS.get(line[:1])) else visible(line)
        for line in found.lines
    ]
    more = [f"… {found.left_out} more lines"] if found.left_out else []
    return "".join(f"{line}\n" for line in (*lines, *more))
