"""The page about a study: one HTML file that asks nobody for anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from vtrain.runtime.tuning.figures import Figure

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:"
)
"""No request leaves the page. WebGL, which draws the parallel coordinates, compiles its own code."""
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2328; }
body { margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; }
.chart { min-height: 28rem; } .note { color: #59636e; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .75rem; text-align: left; border-bottom: 1px solid #d1d9e0; }
td { vertical-align: top; white-space: pre-wrap; }
tr.best td { background: #dafbe1; }
pre { background: #f6f8fa; padding: 1rem; overflow-x: auto; }
"""
_DRAW = """
const options = {responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: ""};
for (const place of document.querySelectorAll(".chart")) {
  try {
    const figure = JSON.parse(document.getElementById("data-" + place.id).textContent);
    Plotly.newPlot(place, figure.data, figure.layout, options);
  } catch (error) {
    place.textContent = "This chart cannot be drawn here: " + error;
  }
}
"""


class StudyPage(NamedTuple):
    """The content of a page, all of it plain text but for the figures.

    `facts` are labels with their texts, `rows` the cells of the trials below `headings`, and `best` the
    numbers of the rows of the best.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    figures: Sequence[Figure]
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    best: frozenset[int]
    configuration: str
    script: str


def study_page(page: StudyPage) -> str:
    """The page as HTML."""
    return "\n".join(_lines(page)) + "\n"


def _lines(page: StudyPage) -> Iterator[str]:
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<link rel="icon" href="data:,">'
    yield f"<title>{escape(page.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>"
    yield f"<h1>{escape(page.title)}</h1>\n<table>"
    for label, text in page.facts:
        yield f"<tr><th>{escape(label)}</th><td>{escape(text)}</td></tr>"
    yield "</table>"
    if not page.figures:
        yield '<p class="note">No trial has a result yet, so there are no charts.</p>'
    for number, figure in enumerate(page.figures):
        yield f'<h2>{escape(figure.title)}</h2>\n<div class="chart" id="chart-{number}"></div>'
        yield f'<script type="application/json" id="data-chart-{number}">'
        yield f"{_inside_script(figure.document)}</script>"
    yield "<h2>Trials</h2>"
    yield from _table(page)
    yield f"<h2>Configuration</h2>\n<pre>{escape(page.configuration)}</pre>"
    if page.figures:
        yield f"<script>{page.script}</script>\n<script>{_DRAW}</script>"
    yield "</body>\n</html>"


def _table(page: StudyPage) -> Iterator[str]:
    if not page.rows:
        yield '<p class="note">There is no trial yet.</p>'
        return
    cells = "".join(f"<th>{escape(heading)}</th>" for heading in page.headings)
    yield f'<div class="wide"><table>\n<tr>{cells}</tr>'
    for number, row in enumerate(page.rows):
        kind = ' class="best"' if number in page.best else ""
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in row)
        yield f"<tr{kind}>{cells}</tr>"
    yield "</table></div>"


def _inside_script(document: str) -> str:
    """JSON that ends no script element, whatever its texts hold."""
    return document.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
