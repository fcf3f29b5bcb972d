"""Logs on the dashboard: their ends, whole logs in pages, new lines, searches."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from lib.dashboard_service import Board, lines_of, page_of
from lib.stored_jobs import add_job
from lib.waiting import wait_until

from vtrain.emulator.dashboard.log_view import packed

pytestmark = pytest.mark.end_to_end

LONG_BAR = "for number in range(9000):\n    print('\\r' + '#' * 99, end='')\nprint(' done')\n"
MANY = "for number in range({count}):\n    print('line', number)\n"


def following(page: str) -> str:
    """The address of the next lines; empty where there is none."""
    found = re.search(r'<a rel="next" href="(.*?)"', page)
    return unescape(found[1]) if found else ""


def test_a_page_has_the_last_lines_of_a_long_log(board: Board, run: Any) -> None:
    address = run(MANY.format(count=30_000))
    assert lines_of(board.page(address))[-70:] == [f"line {n}" for n in range(29_930, 30_000)]
    for _ in range(2):  # the second time the end is remembered
        page = board.page(f"{address}/log")
        assert lines_of(page)[-490:] == [f"line {n}" for n in range(29_510, 30_000)]
        assert len(re.findall(r'<p class="\w*"><time', page)) == 500
        assert "These are the last lines" in page and not following(page)


def test_a_whole_log_is_read_page_by_page(board: Board, run: Any) -> None:
    address = run(MANY.format(count=30_000))
    page = board.page(f"{address}/log?at=start")
    found = lines_of(page)
    while where := following(page):
        page = board.page(where)
        found += lines_of(page)
    assert found == [f"line {n}" for n in range(30_000)]


def test_a_log_is_searched_as_far_as_it_goes(board: Board, run: Any) -> None:
    address = run(MANY.format(count=30_000))
    assert lines_of(board.page(f"{address}/log?find=LINE+2999")) == [
        "line 2999",
        *(f"line 2999{n}" for n in range(10)),
    ]
    page = board.page(f"{address}/log?find=nothing+like+this")
    assert lines_of(page) == [] and "No line has this text" in page


def test_a_log_is_saved_as_text(board: Board, run: Any) -> None:
    reply = board.file(f"{run(MANY.format(count=3000))}/log/text")
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    lines = [line.split(" ", 2)[1:] for line in reply.body.decode().splitlines()]
    assert [text for replica, text in lines if replica == "worker0-0"] == [f"line {n}" for n in range(3000)]
    lines = board.file(f"{run(LONG_BAR)}/log/text").body.decode().splitlines()
    assert [line.split(" ", 2)[2] for line in lines if "worker0-0" in line] == [f"{'#' * 99} done"]


FIRST_WAITS_FOR_SECOND = """
import json, os, pathlib, time
task = json.loads(os.environ["CLUSTER_SPEC"])["task"]
print(task, flush=True)
said = pathlib.Path({path!r})
if task["type"] == "workerpool0":
    while not said.exists():
        time.sleep(0.01)
else:
    said.touch()
"""
"""The job ends with its first replica, and then stops the second: that one has to have spoken before."""


def test_a_log_is_filtered_by_replica(board: Board, run: Any, vtrain: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FIRST_WAITS_FOR_SECOND.format(path=str(tmp_path / "said")))
    pool = "--worker-pool-spec=machine-type=n1-standard-4,replica-count="
    ended = vtrain("custom-jobs", "local-run", "--backend=process", "--display-name=two",
                   f"{pool}1,local-package-path={tmp_path},script=train.py", f"{pool}1")  # fmt: skip
    assert ended.code == 0, ended.err
    name = vtrain("custom-jobs", "list", "--backend=local", "--format=value(name)").out.strip()
    address = page_of(name)
    both = board.page(f"{address}/log")
    assert '<option value="workerpool1-0">' in both and ">worker0-0<" in both
    page = board.page(f"{address}/log?replica=workerpool1-0")
    assert '<option value="workerpool1-0" selected>' in page
    assert len(lines_of(page)) == 1 and "workerpool1" in lines_of(page)[0]
    assert "worker0-0<" not in page.partition('<div class="log')[2]


@pytest.mark.parametrize("cursor", ["x", "%00", "é", packed("{"), packed("[]")[:-8]])
def test_a_cursor_that_is_none_is_refused(board: Board, run: Any, cursor: str) -> None:
    address = run("print(1)")
    assert "log" in board.page(f"{address}/log?cursor={quote(cursor)}", 400)


WAITING = """
import pathlib, time
print("begun", flush=True)
while not pathlib.Path({path!r}).exists():
    time.sleep(0.01)
print("went on", flush=True)
"""


def begun(vtrain: Any, folder: Path, line: str = '"begun"') -> str:
    """The name of a job that writes a line, and waits for the file `go`."""
    (folder / "train.py").write_text(WAITING.format(path=str(folder / "go")).replace('"begun"', line))
    made = vtrain("custom-jobs", "create", "--backend=process", "--display-name=live", "--format=value(name)",
                  f"--local-package-path={folder}", "--script=train.py")  # fmt: skip
    assert made.code == 0, made.err
    return str(made.out.strip())


def test_new_lines_come_while_the_job_runs_and_end_with_it(board: Board, tmp_path: Path, vtrain: Any) -> None:
    address = page_of(begun(vtrain, tmp_path))
    wait_until(lambda: "begun" in lines_of(board.page(address)))
    # A replica may write before its job's row says that all of them have begun.
    wait_until(lambda: "Running" in board.page(address))
    page = board.page(address)
    assert "data-live" in page
    source, cursor = re.search(r'data-source="(.*?)" data-cursor="(.*?)"', page).groups()  # type: ignore[union-attr]
    (tmp_path / "go").touch()
    documents: list[Any] = []

    def has_ended() -> bool:
        last = documents[-1]["cursor"] if documents else cursor
        documents.append(board("GET", f"{source}?cursor={last}").document)
        return bool(documents[-1]["ended"]) and documents[-1]["count"] == 0

    wait_until(has_ended)
    assert lines_of("".join(document["html"] for document in documents)) == ["went on"]
    assert "data-live" not in board.page(address)


def test_a_progress_bar_is_seen_before_its_line_ends(board: Board, tmp_path: Path, vtrain: Any) -> None:
    name = begun(vtrain, tmp_path, r'"\r10%| |\r45%|# |", end=""')
    address = page_of(name)
    wait_until(lambda: re.search(r' unfinished"><time.*<span>45%\|# \|</span>', board.page(address)))
    (tmp_path / "go").touch()
    assert vtrain("custom-jobs", "wait", name, "--backend=local").code == 0
    assert lines_of(board.page(address)) == ["45%|# |went on"] and "unfinished" not in board.page(address)


def test_the_use_of_a_running_replica_is_shown(board: Board, tmp_path: Path, vtrain: Any) -> None:
    name = begun(vtrain, tmp_path)
    address = page_of(name)
    wait_until(lambda: re.search(r"<td class=\"number\">[\d.]+ MB now</td>", board.page(address)))
    (tmp_path / "go").touch()
    assert vtrain("custom-jobs", "wait", name, "--backend=local").code == 0


def test_a_log_whose_folder_is_gone(board: Board, vtrain_home: Path) -> None:
    add_job(vtrain_home, "1001", "job")
    for part in ("", "/log", "/log?at=start"):
        page = board.page(f"/jobs/local/us-central1/customJobs/1001{part}")
        assert "The log is gone: its folder was removed." in page
    assert b"The log is gone" in board.file("/jobs/local/us-central1/customJobs/1001/log/text").body
