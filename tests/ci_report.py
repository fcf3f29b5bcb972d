"""Records, for the end of `.ci/run`, which tests a run of pytest has skipped, and which have failed."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

FOLDER_VARIABLE = "VTRAIN_CI_REPORTS"


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Write a document of this run into the folder of the reports, where `.ci/run` names one."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder or hasattr(config, "workerinput"):  # a worker's reports arrive where it was started
        return
    stats = terminalreporter.stats
    unsuccessful = [*stats.get("failed", ()), *stats.get("error", ())]
    document = {
        "session": os.environ.get("NOX_CURRENT_SESSION"),
        "exit": int(exitstatus),
        "passed": len(stats.get("passed", ())),
        "skipped": Counter(_reason(report) for report in stats.get("skipped", ())),
        "failed": _names(report for report in unsuccessful if report.when != "collect"),
        "broken": _names(report for report in unsuccessful if report.when == "collect"),
    }
    Path(folder, f"tests-{uuid4().hex}.json").write_text(json.dumps(document), encoding="utf-8")


def _names(reports: Iterable[Any]) -> list[str]:
    """Each test once: its own end and that of a fixture may both have failed."""
    return list(dict.fromkeys(report.nodeid for report in reports))


def _reason(report: Any) -> str:
    """The reason of a skip, without pytest's own word in front."""
    _path, _line, reason = report.longrepr
    return str(reason).removeprefix("Skipped: ")
