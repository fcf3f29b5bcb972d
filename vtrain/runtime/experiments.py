"""The runs of experiments that programs of Google's library have logged to an emulator of this home.

The library keeps a run as a context of a metadata store, and the series of a run in a TensorBoard. Sources:
`constants.py` and `experiment_run_resource.py` of google-cloud-aiplatform.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from vtrain.messages.codec import from_document
from vtrain.messages.kept_resources import TensorboardTimeSeries
from vtrain.messages.metadata_resources import Context
from vtrain.runtime.home import Home

RUN_SCHEMA = "system.ExperimentRun"
POINTS = "points.jsonl"
"""The file with the points of a time series, a line each, in the folder of the series."""
LONGEST_POINT = 4096
"""Bytes at the end of a time series in which its last point is searched."""
MOST_SERIES = 100
"""Time series of one run."""
_ID = re.compile("[a-z0-9][a-z0-9_-]*")
_LOGGED = ("_params", "_metrics")
_DAMAGED = (OSError, ValueError, msgspec.MsgspecError, RecursionError)


class ExperimentRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run: the full name of its context, its experiment, its own name, and what it has logged."""

    name: str
    experiment: str
    display_name: str
    state: str
    create_time: str
    args: dict[str, Any]
    metrics: dict[str, Any]


def experiment_runs(home: Path, most: int) -> list[ExperimentRun]:
    """The runs that were changed last, so many at most, the newest first; a damaged one is left out."""
    root = Home(home).emulator
    files = root.glob("metadataStores/*/contexts/*.json")
    runs = (_run(root, file) for file in sorted(files, key=_changed, reverse=True))
    return sorted(islice(filter(None, runs), most), key=lambda run: run.create_time, reverse=True)


def _changed(file: Path) -> int:
    with suppress(FileNotFoundError):  # it was just removed
        return file.stat().st_mtime_ns
    return 0


def _run(root: Path, file: Path) -> ExperimentRun | None:
    """The run that a context is; None for any other context."""
    try:
        found = from_document(Context, msgspec.json.decode(file.read_bytes()))
    except _DAMAGED:
        return None
    if found.schema_title != RUN_SCHEMA:
        return None
    logged = found.metadata or {}
    args, metrics = (value if isinstance(value := logged.get(key), dict) else {} for key in _LOGGED)
    experiment = found.parent_contexts[0].rpartition("/")[2] if found.parent_contexts else ""
    own_id = file.stem.removeprefix(f"{experiment}-")
    return ExperimentRun(
        name=found.name,
        experiment=experiment,
        display_name=found.display_name or own_id,
        state=str(logged.get("_state", "")),
        create_time=found.create_time,
        args=args,
        metrics={**dict(_last_points(root, experiment, own_id)), **metrics},
    )


def _last_points(root: Path, experiment: str, run: str) -> Iterator[tuple[str, float]]:
    """The names of a run's time series, each with its last number."""
    if not (_ID.fullmatch(experiment) and _ID.fullmatch(run)):
        return
    folders = (root / "tensorboards").glob(f"*/experiments/{experiment}/runs/{run}/timeSeries")
    for file in heapq.nsmallest(MOST_SERIES, (file for folder in folders for file in folder.glob("*.json"))):
        with suppress(
            *_DAMAGED, IndexError, KeyError, TypeError
        ):  # it has no point, or none that is a number
            series = from_document(TensorboardTimeSeries, msgspec.json.decode(file.read_bytes()))
            with (file.with_suffix("") / POINTS).open("rb") as points:
                points.seek(max(os.fstat(points.fileno()).st_size - LONGEST_POINT, 0))
                value = msgspec.json.decode(points.read().splitlines()[-1])["scalar"].get("value", 0.0)
            if isinstance(value, (int, float)):
                yield series.display_name, value
