"""The dashboard in a real browser: it runs its own script, and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from lib.dashboard_service import Board, lines_of, page_of
from lib.stored_jobs import add_job, local_name
from lib.tuning_jobs import tuning_document
from lib.waiting import wait_until

pytestmark = pytest.mark.end_to_end

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
ENDLESS = """
import itertools, pathlib, time
for number in itertools.count():
    print("<b>line</b>", number, flush=True)
    if pathlib.Path({path!r}).exists():
        break
    time.sleep(0.01)
"""


MEASURED = """<script>addEventListener("load", () => {
for (const box of document.querySelectorAll(".scroll"))
  box.dataset.hidden = Math.max(0, box.scrollWidth - box.clientWidth);
})</script>"""
"""Writes how many pixels of a table are out of view. A page of ours runs no script that stands in it."""


def opened(url: str, profile: Path, width: int = 390) -> tuple[str, str]:
    """The document that a browser makes of a page, and what it says about it."""
    browser = subprocess.run(
        [
            *(str(CHROMIUM), "--headless", "--no-sandbox", "--no-first-run", "--disable-gpu"),
            *("--disable-background-networking", "--virtual-time-budget=12000", "--enable-logging=stderr"),
            *(f"--window-size={width},800", f"--user-data-dir={profile}", "--dump-dom", url),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return browser.stdout, browser.stderr


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
@pytest.mark.timeout(400)
def test_a_browser_keeps_a_page_up_to_date(board: Board, vtrain: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ENDLESS.format(path=str(tmp_path / "stop")))
    name = "--display-name=<i>live</i>"
    made = vtrain("custom-jobs", "create", "--backend=process", name, "--format=value(name)",
                  f"--local-package-path={tmp_path}", "--script=train.py")  # fmt: skip
    assert made.code == 0, made.err
    address = page_of(made.out.strip())
    wait_until(lambda: len(lines_of(board.page(address))) == 80)
    try:
        document, said = opened(f"{board.url}{address}", tmp_path / "profile")
        listed, said_of_list = opened(board.url, tmp_path / "profile")
    finally:
        (tmp_path / "stop").touch()
        vtrain("custom-jobs", "wait", made.out.strip(), "--backend=local")
    lines = [line for line in lines_of(document) if line.startswith("<b>line</b>")]
    numbers = [int(line.rpartition(" ")[2]) for line in lines]
    assert len(numbers) > 80, "the script has added lines"
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    for page in (document, listed):
        assert not re.search(r'id="pulse"[^>]*hidden', page), "the page is live"
        assert "&lt;i&gt;live&lt;/i&gt;" in page
    assert "Content Security Policy" not in said + said_of_list
    assert "Uncaught" not in said + said_of_list


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
@pytest.mark.timeout(400)
def test_a_browser_draws_the_charts(board: Board, vtrain_home: Path, tmp_path: Path) -> None:
    collection = "hyperparameterTuningJobs"
    fields = tuning_document(local_name("2001", collection=collection))
    add_job(vtrain_home, "2001", "tune", collection=collection, fields=fields)
    document, said = opened(f"{board.url}/jobs/local/us-central1/{collection}/2001", tmp_path / "profile")
    drawn = document.count('class="plot-container plotly"')
    assert drawn == document.count("data-figure=") > 1, said
    assert "accuracy" in document and "This chart cannot be drawn" not in document
    assert "Content Security Policy" not in said and "Uncaught" not in said


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
@pytest.mark.timeout(400)
def test_a_browser_lays_the_curves_of_ticked_jobs_over_each_other(
    board: Board, vtrain_home: Path, tmp_path: Path
) -> None:
    names = []
    for number in ("1001", "1002"):
        output = vtrain_home / "buckets" / "runs" / number
        output.mkdir(parents=True)
        (output / "metrics.json").write_text('{"loss": [3, 2, 1], "accuracy": [0.1, 0.2, 0.3]}')
        spec = {"baseOutputDirectory": {"outputUriPrefix": f"gs://runs/{number}"}, "workerPoolSpecs": []}
        names.append(add_job(vtrain_home, number, "<i>job</i>", fields={"jobSpec": spec}))
    document, said = opened(f"{board.url}/compare?job={'&job='.join(names)}", tmp_path / "profile")
    assert document.count('class="plot-container plotly"') == 2, said
    assert document.count("scatterlayer mlayer") == 2 and document.count('class="js-line"') >= 4
    assert not re.search(r"<p[^>]*data-tools[^>]*hidden", document), "the curves have tools"
    assert "<i>job" not in document
    assert "Content Security Policy" not in said and "Uncaught" not in said


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("width", [1280, 390])
def test_a_long_failure_leaves_the_other_columns_in_view(
    board: Board, vtrain_home: Path, tmp_path: Path, width: int
) -> None:
    error = {"code": 3, "message": "The replica has failed for one of many reasons. " * 9}
    add_job(vtrain_home, "1001", "job", state="JOB_STATE_FAILED", fields={"error": error})
    page, styles = board.page("/"), board("GET", "/dashboard/style.css").body.decode()
    (tmp_path / "list.html").write_text(
        re.sub(r'<link rel="stylesheet"[^>]*>', lambda _: f"<style>{styles}</style>{MEASURED}", page)
    )
    document, _ = opened(f"file://{tmp_path / 'list.html'}", tmp_path / "profile", width)
    assert "for one of many reasons" in document
    assert re.findall(r'data-hidden="(\d+)"', document) == ["0"]
