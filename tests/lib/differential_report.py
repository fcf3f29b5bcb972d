"""Prints, at the end of a test run that compared vtrain with gcloud, where the two differ on purpose."""

from __future__ import annotations

from typing import Any

_MODULES = "tests/differential/test_"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The list, with reasons."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, ())]
    if not any(_MODULES in report.nodeid for report in reports):
        return
    from differential.intended import DIFFERENCES

    terminalreporter.section(
        f"{len(DIFFERENCES)} recorded runs in which vtrain differs from gcloud on purpose"
    )
    for case_id, difference in sorted(DIFFERENCES.items()):
        terminalreporter.line(f"{case_id}: {difference.reason}")
