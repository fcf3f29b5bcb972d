"""Jobs that are stopped and run again by the buttons of the dashboard; by nobody else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lib.dashboard_service import Board, page_of
from lib.stored_jobs import add_job
from lib.waiting import wait_until

from vtrain.backends.interface import CommandLine
from vtrain.backends.registry import find_backend
from vtrain.commands.session import vtrain_argv
from vtrain.emulator.dashboard import reader
from vtrain.emulator.dashboard.dashboard_app import make_app

TOKEN = "secret"
COOKIE = {"accept": "text/html", "sec_fetch_site": "none"}


@pytest.fixture
def guarded(vtrain_home: Path, serve: Any) -> Iterator[Board]:
    """The dashboard with a token, as the command serves it."""
    backend = find_backend("local")
    app = make_app(
        backend,
        backend.settings(CommandLine()),
        token=TOKEN,
        argv_of=partial(vtrain_argv, is_repeated=True),
    )
    with serve(app) as url:
        board = Board(url)
        yield board
        board.connection.close()


def cookie_of(board: Board) -> str:
    entered = board("GET", f"/{TOKEN}/", **COOKIE)
    return entered.headers["set-cookie"].partition(";")[0]


def pressed(board: Board, path: str, **headers: str) -> Any:
    """The answer to a form of the page."""
    own = {"origin": board.url, "sec_fetch_site": "same-origin", "cookie": cookie_of(board)}
    return board("POST", path, b"", **own | headers)


def test_a_running_job_is_stopped(guarded: Board, vtrain: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\ntime.sleep(600)\n")
    made = vtrain("custom-jobs", "create", "--backend=process", "--display-name=long", "--format=value(name)",
                  f"--local-package-path={tmp_path}", "--script=train.py")  # fmt: skip
    address = page_of(made.out.strip())
    assert f'action="{address}/stop" method="post"' in guarded.page(f"/{TOKEN}{address}")
    stopped = pressed(guarded, f"{address}/stop")
    assert (stopped.status, stopped.headers["location"]) == (303, address)
    assert vtrain("custom-jobs", "wait", made.out.strip(), "--backend=local").code == 11
    assert "/stop" not in guarded.page(f"/{TOKEN}{address}")


def test_a_command_line_is_run_again(guarded: Board, run: Any, vtrain: Any) -> None:
    address = run("print('again')", name="-- <b> && x")
    answer = pressed(guarded, f"{address}/rerun")
    assert answer.status == 303, answer.body
    new = answer.headers["location"]
    assert new != address and "-- &lt;b&gt; &amp;&amp; x" in guarded.page(f"/{TOKEN}{new}")
    wait_until(lambda: "Succeeded" in guarded.page(f"/{TOKEN}{new}"))
    assert "again" in guarded.page(f"/{TOKEN}{new}")


def test_a_command_line_that_fails_says_why(guarded: Board, run: Any, tmp_path: Path) -> None:
    address = run("print(1)")
    (tmp_path / "train.py").unlink()
    answer = pressed(guarded, f"{address}/rerun")
    assert answer.status == 400 and b"nothing to pack" in answer.body


def test_a_command_line_that_takes_long_goes_on(
    run: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "START_SECONDS", 0.1)
    address, backend = run("print(1)"), find_backend("local")
    with serve(make_app(backend, backend.settings(CommandLine()), argv_of=lambda _: ["sleep", "1"])) as url:
        board = Board(url)
        answer = board("POST", f"{address}/rerun", b"", origin=url, sec_fetch_site="same-origin")
        board.connection.close()
    assert answer.status == 400 and b"The command goes on" in answer.body


def test_a_job_of_another_program_cannot_be_run_again(guarded: Board, vtrain_home: Path) -> None:
    add_job(vtrain_home, "1001", "job")
    address = "/jobs/local/us-central1/customJobs/1001"
    assert "/rerun" not in guarded.page(f"/{TOKEN}{address}")
    assert pressed(guarded, f"{address}/rerun").status == 404
    assert pressed(guarded, "/jobs/local/us-central1/customJobs/7/stop").status == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": ""},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"cookie": "a=b"},
    ],
)
def test_nobody_else_presses_a_button(guarded: Board, vtrain_home: Path, headers: dict[str, str]) -> None:
    add_job(vtrain_home, "1001", "job", state="JOB_STATE_RUNNING", ended="")
    for action in ("stop", "rerun"):
        path = f"/jobs/local/us-central1/customJobs/1001/{action}"
        answer = pressed(guarded, path, **headers)
        assert answer.status in (401, 403), headers
        assert guarded("GET", path, cookie=cookie_of(guarded), sec_fetch_site="same-origin").status == 405


def test_a_form_reaches_nothing_but_the_pages(guarded: Board) -> None:
    for path in ("/v1/x", "/storage/v1/b", "/"):
        assert pressed(guarded, path).status == 403
    assert re.match("4", str(pressed(guarded, "/compare").status))
