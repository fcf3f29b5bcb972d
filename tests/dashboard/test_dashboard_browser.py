"""The dashboard in a real browser: it runs its own script, and nothing else."""

from __future__ import annotations

import html
import json
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


def opened(url: str, profile: Path) -> tuple[str, str]:
    """The document that a browser makes of a page, and what it says about it."""
    browser = subprocess.run(
        [
            *(str(CHROMIUM), "--headless", "--no-sandbox", "--no-first-run", "--disable-gpu"),
            *("--disable-background-networking", "--virtual-time-budget=12000", "--enable-logging=stderr"),
            *("--window-size=1400,800", "--hide-scrollbars", f"--user-data-dir={profile}", "--dump-dom", url),
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
    assert re.search(r'<button hidden="">Filter</button>', listed), "a choice applies at once"
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


LONG = "a job with a name that is long enough for two lines"
LAYOUT = """<script>addEventListener("load", () => {
const all = [...document.querySelectorAll("body *")];
const boxes = new Map(all.map((each) => [each, each.getBoundingClientRect()]));
const seen = all.filter((each) => boxes.get(each).width && boxes.get(each).height);
const name = (each) => `${each.tagName} ${each.className} ${each.textContent.trim().slice(0, 40)}`;
const scrolls = (each) =>
  each && (getComputedStyle(each).overflowX != "visible" || scrolls(each.parentElement));
const apart = (one, two) => one.bottom <= two.top + 1 || one.right <= two.left + 1;
const follow = (each) => [...each].filter((one) => seen.includes(one)).flatMap((one, at, some) =>
  at && !apart(boxes.get(some[at - 1]), boxes.get(one)) ? [`${name(some[at - 1])} / ${name(one)}`] : []);
const main = document.querySelector("main");
const blocks = [...main.querySelectorAll("h1, h2")].filter((each) => seen.includes(each));
parent.postMessage(JSON.stringify({
  width: [innerWidth, document.documentElement.scrollWidth],
  hidden: [...document.querySelectorAll(".scroll")].map((each) => each.scrollWidth - each.clientWidth),
  outside: seen.filter((each) => boxes.get(each).right > innerWidth + 1)
    .filter((each) => !scrolls(each.parentElement)).map(name),
  over: [main, ...document.querySelectorAll("section, .card, tr, dl")]
    .flatMap((each) => follow(each.children)),
  blocks: blocks.sort((one, two) => boxes.get(one).top - boxes.get(two).top)
    .map((each) => each.textContent.trim()),
}), "*");
})</script>"""
"""Tells where the boxes of a page lie: a picture that is the same whatever the fonts of a machine."""
FRAME = """<body><iframe src="page.html" style="width: {width}px; height: 800px; border: 0"></iframe>
<script>onmessage = (told) => {{ document.body.dataset.layout = told.data }}</script>"""
"""A window of any width: a browser's own has 500 pixels or more."""


def laid_out(board: Board, path: str, folder: Path, width: int) -> tuple[str, dict[str, Any]]:
    """A page, and where its boxes lie in a window of that width. A page of ours runs no script in it."""
    styles = board("GET", "/dashboard/style.css").body.decode()
    style = f"<style>{styles}</style>{LAYOUT}"
    page = re.sub(r'<link rel="stylesheet"[^>]*>', lambda _: style, board.page(path))
    (folder / "page.html").write_text(page)
    (folder / "frame.html").write_text(FRAME.format(width=width))
    document, said = opened(f"file://{folder / 'frame.html'}", folder / "profile")
    found = re.search(r'data-layout="(.*?)"', document)
    assert found is not None, said
    return page, json.loads(html.unescape(found[1]))


_LAST = ["Log", "Output", "Configuration"]
BLOCKS = {
    "list": ["Jobs"],
    "failed": [f"{LONG} Failed", "Arguments", "Metrics", "metrics.json", *_LAST],
    "study": ["tune Succeeded", "Arguments of the best trial", "Metrics", "Trials", *_LAST],
    "compare": ["Comparison", "Curves"],
}
"""The headings of each page, from top to bottom."""


@pytest.fixture
def crowded(vtrain_home: Path) -> dict[str, str]:
    """Pages about jobs whose names, arguments, numbers and errors are long, and the path of each."""
    names = []
    for number, state in (("1001", "SUCCEEDED"), ("1002", "FAILED")):
        output = vtrain_home / "buckets" / "runs" / number
        output.mkdir(parents=True)
        numbers = {f"a_metric_with_a_long_name_{each}": [1 / 3, 2 / 3] for each in range(8)}
        (output / "metrics.json").write_text(json.dumps(numbers))
        args = [f"--an-argument-{each}=gs://bucket/{'folder/' * 9}" for each in range(9)]
        spec = {
            "baseOutputDirectory": {"outputUriPrefix": f"gs://runs/{number}"},
            "workerPoolSpecs": [{"replicaCount": 1, "pythonPackageSpec": {"args": args}}],
        }
        fields: dict[str, Any] = {"jobSpec": spec}
        if state == "FAILED":
            fields["error"] = {"code": 3, "message": f"{'The replica has failed. ' * 9}\n{'x' * 300}"}
        names.append(add_job(vtrain_home, number, LONG, state=f"JOB_STATE_{state}", fields=fields))
    collection = "hyperparameterTuningJobs"
    document = tuning_document(local_name("2001", collection=collection))
    study = add_job(vtrain_home, "2001", "tune", collection=collection, fields=document)
    pages = {"failed": page_of(names[1]), "study": page_of(study)}
    return {"list": "/", **pages, "compare": f"/compare?job={'&job='.join(names)}"}


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("page", ["list", "failed", "study", "compare"])
def test_the_boxes_of_a_page_lie_beside_and_below_each_other(
    board: Board, crowded: dict[str, str], tmp_path: Path, page: str, width: int
) -> None:
    _, layout = laid_out(board, crowded[page], tmp_path, width)
    assert layout["width"] == [width, width], "no page is wider than its window"
    assert (layout["outside"], layout["over"]) == ([], [])
    assert layout["blocks"] == BLOCKS[page]


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("width", [1280, 390])
def test_a_long_failure_leaves_the_other_columns_in_view(
    board: Board, vtrain_home: Path, tmp_path: Path, width: int
) -> None:
    error = {"code": 3, "message": "The replica has failed for one of many reasons. " * 9}
    add_job(vtrain_home, "1001", "job", state="JOB_STATE_FAILED", fields={"error": error})
    page, layout = laid_out(board, "/", tmp_path, width)
    assert "for one of many reasons" in page
    assert layout["hidden"] == [0]
