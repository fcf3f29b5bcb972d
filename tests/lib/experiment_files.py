"""Runs of experiments in a home, as the emulator keeps what programs of Google's library log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

STORE = "projects/local/locations/us-central1/metadataStores/default"


def add_run(home: Path, experiment: str, run: str, *, created: str, **logged: Any) -> None:
    """Keep a run; `logged` is its metadata: `_params`, `_metrics` and `_state`."""
    document = {
        "name": f"{STORE}/contexts/{experiment}-{run}",
        "displayName": run,
        "createTime": created,
        "updateTime": created,
        "parentContexts": [f"{STORE}/contexts/{experiment}"],
        "schemaTitle": "system.ExperimentRun",
        "metadata": logged,
    }
    folder = home / "emulator" / "metadataStores" / "us-central1.default" / "contexts"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{experiment}-{run}.json").write_text(json.dumps(document))
