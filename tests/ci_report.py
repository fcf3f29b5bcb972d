"""Records, for the closing table of `.ci/run`, which tests a run has skipped and which it has run again."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

FOLDER_VARIABLE = "VTRAIN_CI_REPORTS"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Write a document of this run into the folder of the reports, where `.ci/run` names one."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder or hasattr(config, "workerinput"):  # a worker's reports arrive where it was started
        return
    stats = terminalreporter.stats
    document = {
        "markers": config.option.markexpr,
        "skipped": Counter(_reason(report) for report in stats.get("skipped", ())),
        "rerun": Counter(report.nodeid for report in stats.get("rerun", ())),
    }
    Path(folder, f"tests-{uuid4().hex}.json").write_text(json.dumps(document), encoding="utf-8")


def _reason(report: Any) -> str:
    """The reason of a skip, without pytest's own word in front."""
    _path, _line, reason = report.longrepr
    return str(reason).removeprefix("Skipped: ")
