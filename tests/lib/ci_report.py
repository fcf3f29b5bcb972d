"""Says once for each reason how many tests a run of pytest has skipped; and records them for `.ci/run`."""

from __future__ import annotations

import json
import os
import textwrap
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

FOLDER_VARIABLE = "VTRAIN_CI_REPORTS"


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Print the reasons, and write a document of this run where `.ci/run` collects them."""
    if hasattr(config, "workerinput"):  # a worker's reports arrive where it was started
        return
    stats = terminalreporter.stats
    skipped = Counter(_reason(report) for report in stats.get("skipped", ()))
    if skipped:
        terminalreporter.section("skipped tests")
    for reason, times in skipped.most_common():
        terminalreporter.line(f"{times:6}  {textwrap.shorten(reason, 100, placeholder=' …')}")
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return
    unsuccessful = [*stats.get("failed", ()), *stats.get("error", ())]
    document = {
        "session": os.environ.get("NOX_CURRENT_SESSION"),
        "exit": int(exitstatus),
        "passed": len(stats.get("passed", ())),
        "skipped": skipped,
        "failed": _names(report for report in unsuccessful if report.when != "collect"),
        "broken": _names(report for report in unsuccessful if report.when == "collect"),
    }
    Path(folder, f"tests-{uuid4().hex}.json").write_text(json.dumps(document), encoding="utf-8")


def _names(reports: Iterable[Any]) -> list[str]:
    """Each test once: its own end and that of a fixture may both have failed."""
    return list(dict.fromkeys(report.nodeid for report in reports))


def _reason(report: Any) -> str:
    """The reason of a skip, on one line and without pytest's own word in front."""
    _path, _line, reason = report.longrepr
    return " ".join(str(reason).removeprefix("Skipped: ").split())
