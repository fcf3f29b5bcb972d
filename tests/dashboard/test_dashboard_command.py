"""`vtrain dashboard` as people start it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lib.dashboard_service import Board, rows_of
from lib.stored_jobs import add_job
from lib.waiting import wait_until

from vtrain.extras import install_command


@contextmanager
def started(*words: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A dashboard that has ended afterwards."""
    argv = [sys.executable, "-m", "vtrain", "dashboard", *words]
    env = {
        key: value
        for key, value in os.environ.items()
        if key not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    }
    with subprocess.Popen(
        argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env | variables
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_it_prints_its_address_and_ends_when_told(number: int, code: int, vtrain_home: Path) -> None:
    add_job(vtrain_home, "1001", "here")
    add_job(vtrain_home, "1002", "there", region="europe-west4")
    with started() as process:
        assert process.stdout is not None and process.stderr is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        board = Board(url)
        assert len(rows_of(board.page("/"))) == 2
        process.send_signal(number)
        assert process.wait(timeout=120) == code
        board.connection.close()
        last = {signal.SIGINT: "Stopped.", signal.SIGTERM: "Terminated."}.get(number, "Hung up.")
        first = "The dashboard answers there. Press Ctrl-C to stop it."
        assert [line for line in process.stderr.read().splitlines() if line] == [first, last]


def test_a_region_and_a_format(vtrain_home: Path) -> None:
    add_job(vtrain_home, "1001", "here")
    add_job(vtrain_home, "1002", "there", region="europe-west4")
    with started("--region=europe-west4", "--format=json", VTRAIN_BACKEND="vertex") as process:
        assert process.stdout is not None
        board = Board(json.loads("".join(process.stdout.readline() for _ in range(3)))["url"])
        assert [row[0] for row in rows_of(board.page("/"))] == ["there Custom job 1002"]
        board.connection.close()


@pytest.mark.parametrize("words", [(), ("--no-browser",)])
def test_a_browser_is_opened_unless_it_is_not_wanted(tmp_path: Path, words: tuple[str, ...]) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.part && mv {opened}.part {opened}\n')
    browser.chmod(0o755)
    with started(*words, BROWSER=f"{browser} %s") as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        board = Board(url)
        board.page("/")
        board.connection.close()
        if not words:
            wait_until(opened.exists)
            place = opened.read_text().strip()
            assert (
                place.startswith("file://") and url not in place
            )  # others can read a browser's command line
            page = Path(place.removeprefix("file://"))
            assert f"url={url}/" in page.read_text() and page.stat().st_mode & 0o777 == 0o600
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 0
    assert opened.exists() is not bool(words)


@pytest.mark.parametrize("port", ["x", "-1", "65536", ""])
def test_a_port_is_a_number(vtrain: Any, port: str) -> None:
    ended = vtrain("dashboard", f"--port={port}")
    assert ended.code == 2 and "--port" in ended.err


def test_a_backend_of_a_service_has_no_jobs_here(vtrain: Any) -> None:
    ended = vtrain("dashboard", "--backend=vertex")
    assert ended.code == 1 and "--backend=vertex" in ended.err


def test_without_the_extra_it_says_how_to_install_it() -> None:
    program = (
        "import sys; sys.modules['jinja2'] = None; from vtrain.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    argv = [sys.executable, "-c", program, "dashboard"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert install_command("dashboard") in ended.stderr


WITHOUT_PLOTLY = """
import importlib.metadata as metadata, sys

version = metadata.version

def version_but_plotly(name):
    if name == "plotly":
        raise metadata.PackageNotFoundError(name)
    return version(name)

metadata.version = version_but_plotly
sys.argv = ["vtrain", "dashboard", "--no-browser"]
from vtrain.__main__ import run
run()
"""


def test_without_plotly_it_names_the_extra(vtrain_home: Path) -> None:
    argv = [sys.executable, "-c", WITHOUT_PLOTLY]
    run = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 1
    assert run.stderr.startswith("ERROR: The dashboard needs plotly, which is not installed.\n")
    assert "[dashboard]" in run.stderr
