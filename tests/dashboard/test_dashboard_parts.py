"""The parts of the dashboard by themselves: its routes in another application, logs without an end."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from lib.dashboard_service import Board, lines_of
from lib.privileges import run_bound
from lib.stored_jobs import add_job
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from vtrain.backends.interface import CommandLine
from vtrain.backends.registry import find_backend
from vtrain.emulator.dashboard import log_view
from vtrain.emulator.dashboard.dashboard_app import OWN_PAGES, routes
from vtrain.emulator.dashboard.figures import number_figures
from vtrain.emulator.dashboard.log_view import MOST_LINES, LogReader, LogRequest
from vtrain.emulator.dashboard.output_files import list_folder
from vtrain.emulator.storage.guard import Admission, Guard
from vtrain.emulator.storage.storage_app import RawPaths
from vtrain.messages.log import LogEntry, LogPage, LogQuery
from vtrain.rooted import Root
from vtrain.runtime.output_numbers import read_numbers


def test_the_routes_stand_beside_those_of_another_application(vtrain_home: Path, serve: Any) -> None:
    name = add_job(vtrain_home, "1001", "job")
    backend = find_backend("local")

    async def api(_request: Any) -> PlainTextResponse:
        return PlainTextResponse(name)

    table = [*routes(backend, backend.settings(CommandLine())), Route("/v1/{rest:path}", api)]
    with serve(Guard(RawPaths(Starlette(routes=table)), Admission(pages=OWN_PAGES))) as url:
        board = Board(url)
        assert "job" in board.page("/")
        assert "The log is gone" in board.page("/jobs/local/us%2Dcentral1/customJobs/1001/log")
        assert lines_of(board.page("/jobs/local/us-central1/customJobs/1%2F001", 404)) == []
        assert board("GET", "/v1/x").body.decode() == name
        assert board("GET", "/", sec_fetch_site="same-origin").status == 200
        assert board("GET", "/v1/x", sec_fetch_site="same-origin").status == 403
        board.connection.close()


def test_a_browser_gets_a_cookie_and_goes_on_without_the_token(vtrain_home: Path, serve: Any) -> None:
    async def api(_request: Any) -> PlainTextResponse:
        return PlainTextResponse("here")

    backend, html = find_backend("local"), {"accept": "text/html,*/*", "sec_fetch_site": "none"}
    table = [*routes(backend, backend.settings(CommandLine())), Route("/v1/x", api, methods=["GET", "POST"])]
    with serve(Guard(Starlette(routes=table), Admission(pages=OWN_PAGES, token="secret"))) as url:
        board = Board(url)
        refused = board("GET", "/", **html)
        assert (refused.status, refused.headers["content-type"]) == (401, "text/html; charset=utf-8")
        assert b"Use the whole address" in refused.body
        of_a_program = board("GET", "/secret/", sec_fetch_site="none")
        assert of_a_program.status == 200  # it keeps no cookies
        entered = board("GET", "/secret/?find=x", **html)
        assert (entered.status, entered.headers["location"]) == (303, f"{url}/?find=x")
        cookie, *attributes = entered.headers["set-cookie"].lower().split("; ")
        assert {"httponly", "samesite=strict", "path=/"} == set(attributes) and "secret" not in cookie
        assert "no job" in board.page("/", cookie=f"a=b; {cookie}", **html).lower()
        assert board("GET", "/", cookie=f"{cookie}0", **html).status == 401
        assert board("GET", "/", cookie=cookie.partition("=")[0], **html).status == 401
        for method, path in (("POST", "/"), ("GET", "/v1/x"), ("POST", "/v1/x")):  # it opens pages alone
            assert board(method, path, cookie=cookie, sec_fetch_site="none").status == 401
        assert board("GET", "/", cookie=cookie, sec_fetch_site="cross-site").status == 403
        assert board("GET", "/v1/x", cookie=cookie, sec_fetch_site="same-origin").status == 403
        assert board("GET", "/secret//example.com/x", **html).headers["location"] == f"{url}//example.com/x"
        board.connection.close()


def test_a_browser_that_a_page_led_here_goes_on_by_a_page(vtrain_home: Path, serve: Any) -> None:
    backend = find_backend("local")
    table = routes(backend, backend.settings(CommandLine()))
    with serve(Guard(Starlette(routes=table), Admission(pages=OWN_PAGES, token="secret"))) as url:
        board = Board(url)
        led = {"accept": "text/html", "sec_fetch_site": "cross-site"}
        page = board.page('/secret/jobs/"><script>', **led)
        assert f'url={url}/jobs/&quot;&gt;&lt;script&gt;"' in page
        assert board("GET", "/secret/", origin="http://127.0.0.1:1", **led).status == 403
        assert board("GET", "/secret/v1/x", **led).status == 403
        assert board("GET", "/wrong/", **led).status == 403
        board.connection.close()


ASK = """
import asyncio, sys
from vtrain.backends.interface import CommandLine
from vtrain.backends.registry import find_backend
from vtrain.emulator.dashboard.dashboard_app import make_app

backend = find_backend("local")
app, events = make_app(backend, backend.settings(CommandLine())), []

async def receive():
    return {"type": "http.request", "body": b"", "more_body": False}

async def send(event):
    events.append(event)

scope = {"type": "http", "method": "GET", "path": sys.argv[1], "raw_path": sys.argv[1].encode()}
scope |= {"query_string": b"", "headers": [(b"host", b"localhost")], "root_path": ""}
asyncio.run(app(scope, receive, send))
print(events[0]["status"], b"".join(event.get("body", b"") for event in events[1:]).decode())
"""


def test_a_job_whose_output_may_not_be_read_is_shown(vtrain_home: Path) -> None:
    output = vtrain_home / "buckets" / "bucket" / "out"
    output.mkdir(parents=True)
    spec = {
        "workerPoolSpecs": [{"replicaCount": 1}],
        "baseOutputDirectory": {"outputUriPrefix": "gs://bucket/out"},
    }
    add_job(vtrain_home, "1001", "job", fields={"jobSpec": spec})
    output.chmod(0)
    try:
        ended = run_bound([sys.executable, "-c", ASK, "/jobs/local/us-central1/customJobs/1001"])
    finally:
        output.chmod(0o700)
    assert ended.stdout.startswith("200 "), ended.stderr
    assert "The output folder cannot be read." in ended.stdout


class Endless:
    """A log that has more lines whenever somebody asks."""

    def __init__(self) -> None:
        self.asked = 0

    def logs(self, query: LogQuery) -> LogPage:
        number = int(query.cursor or 0) + 1
        self.asked += 1
        text = b"\n".join(b"line %d" % number for _ in range(2000))
        entry = LogEntry(
            time=time.time_ns(),
            insert_id=str(number),
            severity="INFO",
            task_name="workerpool0-0",
            payload=text,
        )
        return LogPage(entries=(entry,), cursor=str(number), more=True)


def test_a_log_without_an_end_is_shown_as_far_as_it_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtrain.emulator.dashboard.log_view.READ_SECONDS", 0.5)
    endless: Any = Endless()
    reader = LogReader(endless)
    view = reader.read(LogRequest(name="x"))
    assert view.more and view.is_cut and len(view.lines) == MOST_LINES
    reached = int(view.lines[-1].text.removeprefix("line "))
    assert reached == endless.asked
    following = reader.read(LogRequest(name="x", cursor=view.cursor))
    assert following.lines[0].text == f"line {reached + 1}"
    assert reader.read(LogRequest(name="x", text="nowhere")).more
    further = reader.read(LogRequest(name="x"))
    assert int(further.lines[-1].text.removeprefix("line ")) > reached


def test_a_log_without_an_end_is_saved_as_far_as_it_goes_now() -> None:
    endless: Any = Endless()
    assert len(list(LogReader(endless).text("x", ""))) == 1


def test_a_line_of_a_trial_names_it_once_and_a_bar_is_no_error() -> None:
    def shown(text: str, **fields: str) -> tuple[str, str]:
        entry = LogEntry(time=1, insert_id="1", severity="ERROR", payload=text.encode(), **fields)
        (line,) = log_view._lines(entry, "")
        return line.replica, line.kind

    assert shown("x", task_name="trial-7/workerpool0-0", trial_id="7") == ("trial-7/worker0-0", "loud")
    assert shown("x", task_name="workerpool0-0", trial_id="7") == ("trial-7/worker0-0", "loud")
    for bar in (
        " 40%|████      | 4/10 [00:01<00:02, 2.1it/s]",
        "\r 40%|####5     | 4/10\r 50%|#####",
        "Downloading ━━━━━━━━━━━━ 10.1/10.1 MB",
        "4/10 [=======>..............] - ETA: 0s",
    ):
        assert shown(bar, task_name="workerpool0-0") == ("worker0-0", ""), bar
    for error in ("Traceback (most recent call last):", "50% of the batch is NaN", "[ERROR] | x", "x[1:2]"):
        assert shown(error, task_name="workerpool0-0")[1] == "loud", error


def test_numbers_are_those_that_the_file_has_now(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"step": 1, "loss": 1}\n' * 50_000)
    with file.open("a") as more:
        more.write('{"step": 2, "accuracy": 1}\n' * 2)
    (last,) = read_numbers(Root(tmp_path)).files
    assert [figure.title for figure in number_figures(last)] == ["loss", "accuracy"]
    assert read_numbers(Root(tmp_path)).last == {"loss": 1, "accuracy": 1}
    file.unlink()
    assert read_numbers(Root(tmp_path)) == ([], 0)


def test_a_number_of_one_row_alone_is_a_single_value(tmp_path: Path) -> None:
    """As the library transformers logs them: the result at the end."""
    rows = [{"step": 1, "loss": 2}, {"step": 2, "loss": 1}, {"step": 2, "eval_accuracy": 0.9}]
    file = tmp_path / "trainer_state.json"
    file.write_text(json.dumps({"epoch": 1.0, "log_history": rows}))
    (found,) = read_numbers(Root(tmp_path)).files
    assert (list(found.series), found.values) == (["loss"], [("epoch", 1), ("eval_accuracy", 0.9)])
    file.with_suffix(".jsonl").write_text("\n".join(map(json.dumps, rows)))
    file.unlink()
    assert read_numbers(Root(tmp_path)).last == {"loss": 1, "eval_accuracy": 0.9}


def test_a_number_that_is_not_finite_hides_no_other(tmp_path: Path) -> None:
    """Python writes `NaN`, which JSON does not have."""
    file = tmp_path / "metrics.json"
    file.write_text(json.dumps({"loss": float("nan"), "norm": float("inf"), "accuracy": 0.5}, indent=1))
    assert read_numbers(Root(tmp_path)).last == {"loss": "NaN", "norm": "Infinity", "accuracy": 0.5}
    file.write_text(json.dumps({"loss": float("nan"), "accuracy": 0.5}))
    assert read_numbers(Root(tmp_path)).last == {"loss": "NaN", "accuracy": 0.5}


def test_numbers_are_found_among_hundreds_of_files(tmp_path: Path) -> None:
    for number in range(601):
        (tmp_path / ("metrics.json" if number == 300 else f"{number}.png")).write_text('{"loss": 1}')
    assert read_numbers(Root(tmp_path)).last == {"loss": 1}


def test_the_first_trials_are_those_with_the_least_numbers(tmp_path: Path) -> None:
    for number in range(1, 13):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "metrics.json").write_text('{"loss": 1}')
    numbers = read_numbers(Root(tmp_path))
    assert [found.path for found in numbers.files] == [f"{number}/metrics.json" for number in (1, 2, 3, 4)]
    assert numbers.left_out == 8
    assert [entry.name for entry in list_folder(Root(tmp_path), "").entries] == [str(n) for n in range(1, 13)]
