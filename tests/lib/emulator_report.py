"""Prints, at the end of a test run, how many calls real clients made to the emulator."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

_VARIABLE = "TEST_EMULATOR_CALLS"


def pytest_configure(config: Any) -> None:
    """Give all workers of a run one folder for their counts."""
    if _VARIABLE not in os.environ:
        import tempfile

        config.calls_folder = tempfile.TemporaryDirectory(prefix="vtrain-test-calls-")
        os.environ[_VARIABLE] = config.calls_folder.name


def report_calls(log: str) -> None:
    """Keep the counts that emulators have written to a log at their end."""
    counts: Counter[str] = Counter()
    for line in re.findall(r"^Calls: (.*)\.$", log, re.MULTILINE):
        for part in line.split(", "):
            client, _, number = part.rpartition(" ")
            counts[client] += int(number)
    folder = Path(os.environ[_VARIABLE])
    text = "".join(f"{client}\t{number}\n" for client, number in counts.items())
    (folder / f"{os.getpid()}-{os.urandom(4).hex()}").write_text(text)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The calls of each client."""
    folder = getattr(terminalreporter.config, "calls_folder", None)
    if folder is None:
        return
    counts: Counter[str] = Counter()
    for file in Path(folder.name).iterdir():
        for line in file.read_text().splitlines():
            client, _, number = line.rpartition("\t")
            counts[client] += int(number)
    if counts:
        terminalreporter.section("calls to the emulator")
        for client, number in sorted(counts.items()):
            terminalreporter.line(f"{client}: {number}")


def pytest_unconfigure(config: Any) -> None:
    """Remove the folder."""
    folder = getattr(config, "calls_folder", None)
    if folder is not None:
        folder.cleanup()
        os.environ.pop(_VARIABLE, None)
