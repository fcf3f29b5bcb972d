"""Prints, at the end of a run of the chaos, what was done to how many jobs, and what was found afterwards."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from typing import Any

import pytest

SEED_VARIABLE = "VTRAIN_CHAOS_SEED"
KILLS_VARIABLE = "VTRAIN_CHAOS_KILLS"
"""How many kills each backend has to see, else the run has failed: `nox -s chaos` sets it."""
SECONDS_VARIABLE = "VTRAIN_CHAOS_SECONDS"
"""For how long tests begin, in random order; without it all of them run."""
PROPERTY = "chaos"
COLUMNS = (
    "kills",
    "restarts",
    "jobs",
    "lines expected",
    "lines found",
    "lines marked as lost",
    "left over",
)
_SEED = pytest.StashKey[str]()
_END = pytest.StashKey[float]()


def pytest_configure(config: pytest.Config) -> None:
    """One seed for the run: the variable's, or a new one."""
    given = getattr(config, "workerinput", {}).get(PROPERTY) or os.environ.get(SEED_VARIABLE)
    config.stash[_SEED] = given or str(random.SystemRandom().randrange(10**6))
    if seconds := os.environ.get(SECONDS_VARIABLE):
        config.stash[_END] = time.monotonic() + float(seconds)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where the time is bounded, each seed runs other tests first."""
    if _END in config.stash and all(item.get_closest_marker("chaos") for item in items):
        items.sort(key=lambda item: item.nodeid)
        random.Random(seed_of(config)).shuffle(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin no test after the end of the time."""
    if item.get_closest_marker("chaos") and time.monotonic() > item.config.stash.get(_END, float("inf")):
        pytest.skip(f"{SECONDS_VARIABLE} is over; nox -s chaos runs all of them")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Workers take the seed of the run."""
    node.workerinput[PROPERTY] = node.config.stash[_SEED]


def seed_of(config: pytest.Config) -> str:
    """The seed of this run."""
    return config.stash[_SEED]


def tallies(reporter: Any) -> dict[str, Counter[str]]:
    """The counts of each backend, added up over all tests."""
    found: dict[str, Counter[str]] = {}
    for reports in reporter.stats.values():
        for report in reports:
            properties = report.user_properties if getattr(report, "when", "") == "teardown" else ()
            for name, value in properties:
                if name == PROPERTY:
                    found.setdefault(value["backend"], Counter()).update(value["counts"])
    return found


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The table, and for each backend who was killed when."""
    found = tallies(terminalreporter)
    if not found:
        return
    terminalreporter.section(f"chaos, {SEED_VARIABLE}={seed_of(config)}")
    terminalreporter.line(" ".join(f"{column:>14}" for column in ("backend", *COLUMNS)))
    for backend, counts in sorted(found.items()):
        cells = (backend, *(f"{counts[column]:,}" for column in COLUMNS))
        widths = (max(14, len(title)) for title in ("", *COLUMNS))
        terminalreporter.line(" ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)))
    for backend, counts in sorted(found.items()):
        terminalreporter.line(f"{backend}, killed: {killed(counts)}")
        terminalreporter.line(f"{backend}, done besides: {', '.join(events(counts)) or 'nothing'}")
    for line in too_few(found):
        terminalreporter.line(line)


def events(counts: Counter[str]) -> list[str]:
    """`power cuts 2`, and so on."""
    return [f"{what[6:]} {times}" for what, times in sorted(counts.items()) if what.startswith("event/")]


def killed(counts: Counter[str]) -> str:
    """`supervisor 80 (create 4, run 76), shim 9 (run 9)`."""
    whom: dict[str, list[str]] = {}
    for key, times in sorted(counts.items()):
        if key.startswith("kill/"):
            _, who, when = key.split("/")
            whom.setdefault(who, []).append(f"{when} {times}")
    sums = {who: sum(int(part.rpartition(" ")[2]) for part in parts) for who, parts in whom.items()}
    return "; ".join(f"{who} {sums[who]} ({', '.join(parts)})" for who, parts in whom.items())


def too_few(found: dict[str, Counter[str]]) -> list[str]:
    """A sentence for each backend that has not seen the kills that the run promises."""
    wanted = int(os.environ.get(KILLS_VARIABLE) or 0)
    return [
        f"FAILED: {backend} has seen {counts['kills']} kills, and should have seen {wanted}."
        for backend, counts in sorted(found.items())
        if counts["kills"] < wanted
    ]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run with too few kills has failed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(session.config, "workerinput") and too_few(tallies(reporter)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
