"""`vtrain hp-tuning-jobs report`: one page, which asks nobody for anything."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from lib.tuning_jobs import STUDY, TRIALS, trial, tuning_document
from lib.vertex_service import VertexService

from vtrain.messages.secrets import MASK

pytest.importorskip("optuna", reason="needs the extra tuning")
pytest.importorskip("plotly", reason="needs the extra tuning")

NAME = "projects/demo/locations/us-central1/hyperparameterTuningJobs/2001"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


HEADINGS = ("h1", "h2", "figcaption")


class Page(HTMLParser):
    """The parts of a page that matter: addresses, scripts, and the texts of cells and headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.data: list[Any] = []
        self.cells: list[str] = []
        self.headings: list[str] = []
        self.scripts = 0
        self._place = ""
        self.feed(text)
        self.close()
        self.headings = [heading.strip() for heading in self.headings]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [text or "" for name, text in attrs if name in ("src", "href")]
        self.data += [json.loads(text or "") for name, text in attrs if name == "data-figure"]
        self._place = tag
        self.scripts += tag == "script"
        if tag in ("td", "th"):
            self.cells.append("")
        if tag in HEADINGS:
            self.headings.append("")

    def handle_data(self, data: str) -> None:
        if self._place in ("td", "th"):
            self.cells[-1] += data
        elif self._place in HEADINGS:
            self.headings[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._place = ""


@pytest.fixture
def report(vtrain: Any, vertex: VertexService, tmp_path: Path) -> Any:
    """Writes the report of a job with these fields, and reads it."""

    def run(**fields: Any) -> Page:
        vertex.resources[NAME] = tuning_document(NAME, **fields)
        ended = vtrain("hp-tuning-jobs", "report", "2001", f"--output={tmp_path / 'report.html'}")
        assert (ended.code, ended.out) == (0, ""), ended.err
        assert f"Wrote {tmp_path / 'report.html'}." in ended.err
        return Page((tmp_path / "report.html").read_text())

    return run


def test_the_page_has_every_chart_and_every_trial(report: Any) -> None:
    page = report()
    assert page.headings == [
        "tune",
        "Trials",
        "Optimization history",
        "Parallel coordinates",
        "Parameter importance",
        "Slices",
        "Configuration",
    ]
    assert page.addresses == ["data:,"]
    assert page.scripts == 2
    for text in ("2 *", "0.91235", "sgd", "Infeasible", "The trial reported no accuracy."):
        assert text in page.cells


def test_the_charts_number_trials_as_the_job_does(report: Any) -> None:
    history = report().data[0]["data"][0]
    assert history["x"] == [1, 2, 4]
    assert history["y"] == [0.5, 0.9123456, 0.75]


def test_several_metrics_have_a_front_and_charts_of_each(report: Any) -> None:
    study = STUDY | {"metrics": [{"metricId": "accuracy"}, {"metricId": "seconds", "goal": "MINIMIZE"}]}
    found = []
    for number, (accuracy, seconds) in enumerate([(0.9, 9.0), (0.8, 3.0), (0.7, 5.0)], start=1):
        document = trial(number, accuracy, rate=number / 100)
        document["finalMeasurement"]["metrics"].append({"metricId": "seconds", "value": seconds})
        found.append(document)
    headings = report(studySpec=study, trials=found).headings
    assert headings[2] == "Pareto front"
    assert "Optimization history of accuracy" in headings and "Slices of seconds" in headings


def test_a_single_parameter_has_no_importance(report: Any) -> None:
    headings = report(trials=[trial(number, number / 10, rate=number / 10) for number in (1, 2, 3)]).headings
    assert "Slices" in headings and "Parameter importance" not in headings


HOSTILE = "</script><img src=http://x.test/><b>"


def test_no_text_of_a_job_is_markup(report: Any) -> None:
    study = {
        "metrics": [{"metricId": HOSTILE, "goal": "MAXIMIZE"}],
        "parameters": [{"parameterId": HOSTILE, "categoricalValueSpec": {"values": [HOSTILE, "b"]}}],
    }
    found = []
    for number, value in enumerate([HOSTILE, "b"], start=1):
        document = trial(number, 0.5 * number, **{HOSTILE: value})
        document["finalMeasurement"]["metrics"] = [{"metricId": HOSTILE, "value": number}]
        found.append(document)
    found.append(trial(3, None) | {"infeasibleReason": HOSTILE})
    page = report(studySpec=study, trials=found, displayName=HOSTILE, labels={"a": HOSTILE})
    assert page.headings[0] == HOSTILE
    assert page.addresses == ["data:,"] and page.scripts == 2
    assert HOSTILE in page.cells
    texts = re.findall(r"<[a-z/]", json.dumps(page.data))
    assert set(texts) <= {"<b", "<e", "</"}, "tags of Optuna's own hover texts"
    assert "x.test/><" not in json.dumps(page.data)


def test_a_secret_is_masked(report: Any, tmp_path: Path) -> None:
    pool = {"containerSpec": {"imageUri": "i", "env": [{"name": "API_TOKEN", "value": "hunter22secret"}]}}
    failed = trial(1, None) | {"infeasibleReason": "ValueError: no access with hunter22secret"}
    page = report(trialJobSpec={"workerPoolSpecs": [pool]}, trials=[failed])
    assert f"ValueError: no access with {MASK}" in page.cells
    assert "hunter22secret" not in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("module", ["optuna", "plotly"])
def test_without_the_extra_the_line_that_installs_it_is_told(
    vtrain: Any, vertex: VertexService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    vertex.resources[NAME] = tuning_document(NAME)
    ended = vtrain("hp-tuning-jobs", "report", "2001", f"--output={tmp_path / 'report.html'}")
    assert ended.code == 1 and f"A report needs {module}, which is not installed." in ended.err
    assert "pip install" in ended.err and "optuna" in ended.err
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    "trials", [[], [TRIALS[2]], [TRIALS[0] | {"state": "ACTIVE", "finalMeasurement": None}]]
)
def test_without_a_result_there_are_no_charts(report: Any, trials: list[Any]) -> None:
    page = report(trials=trials)
    assert page.headings == ["tune", "Trials", "Configuration"] and page.scripts == 0


@pytest.mark.parametrize("value", [float("nan"), 0.5])
def test_results_that_are_all_the_same_or_no_numbers(report: Any, value: float) -> None:
    found = [trial(number, value, rate=0.01, units=3.0) for number in (1, 2, 3)]
    assert report(trials=found).headings[:2] == ["tune", "Trials"]


def test_values_outside_of_the_study_are_shown_all_the_same(report: Any) -> None:
    odd: list[Any] = [5.0, "text", True, 0.25]
    found = [trial(number, number / 10, rate=each, other=each) for number, each in enumerate(odd, start=1)]
    assert "Parallel coordinates" in report(trials=found).headings


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("", "expected a file"),
        (".", "expected a file"),
        ("/dev/null", "it is a device"),
        ("no/r.html", "no folder"),
    ],
)
def test_a_file_that_cannot_be_written(vtrain: Any, vertex: VertexService, output: str, words: str) -> None:
    ended = vtrain("hp-tuning-jobs", "report", "2001", f"--output={output}")
    assert ended.code == 1 and words in ended.err
    assert vertex.requests == []


def test_an_unfinished_page_leaves_the_old_one(
    report: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vtrain: Any
) -> None:
    report()
    before = (tmp_path / "report.html").read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    ended = vtrain("hp-tuning-jobs", "report", "2001", f"--output={tmp_path / 'report.html'}")
    assert ended.code == 1 and "No space left on device" in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_bytes() == before


def opened(page: Path, profile: Path) -> tuple[str, str]:
    """The document that a browser makes of a page, and what it says about it."""
    browser = subprocess.run(
        [
            *(str(CHROMIUM), "--headless", "--no-sandbox", "--enable-unsafe-swiftshader", "--no-first-run"),
            *("--disable-background-networking", "--virtual-time-budget=20000", "--enable-logging=stderr"),
            *(f"--user-data-dir={profile}", "--dump-dom", page.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return browser.stdout, browser.stderr


VIOLATION = "violates the following Content Security Policy"


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_browser_draws_the_page_and_asks_for_nothing(report: Any, tmp_path: Path) -> None:
    report()
    page = tmp_path / "report.html"
    document, said = opened(page, tmp_path / "profile")
    drawn = document.partition("<script>")[0]
    assert drawn.count('class="plot-container plotly"') == 4, said
    assert "This chart cannot be drawn" not in drawn and "WebGL is not supported" not in drawn
    assert "Zoom" in drawn and "Share" not in drawn, "no button sends the data to somebody"
    assert VIOLATION not in said
    page.write_text(page.read_text().replace("</body>", '<img src="http://x.test/a.png"></body>'))
    assert VIOLATION in opened(page, tmp_path / "profile")[1], "a request would have been told"
