"""With --no-children, as in `nox -s quick`, a test that starts a program fails."""

from __future__ import annotations

import os
import subprocess
from typing import Any, NoReturn

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The flag."""
    parser.addoption("--no-children", action="store_true", help="tests that start a program fail")


@pytest.fixture(autouse=True)
def _starts_nothing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.config.getoption("--no-children"):
        return

    def refuse(*_args: Any, **_options: Any) -> NoReturn:
        pytest.fail("This test starts a program: mark it child, or end_to_end if it takes long.")

    monkeypatch.setattr(subprocess.Popen, "__init__", refuse)
    monkeypatch.setattr(subprocess.Popen, "__del__", lambda _popen: None)  # it asks for what __init__ sets
    for name in ("fork", "forkpty", "posix_spawn"):
        monkeypatch.setattr(os, name, refuse)
