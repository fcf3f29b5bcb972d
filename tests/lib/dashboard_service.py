"""A client of the dashboard, for tests, and the parts of its pages."""

from __future__ import annotations

import html
import re

from lib.storage_service import Http, Reply


class Board(Http):
    """A running dashboard, and a connection to it that stays open."""

    def page(self, path: str, status: int = 200, **headers: str) -> str:
        """The text of a page that is answered with this status."""
        reply = self("GET", path, **headers)
        assert reply.status == status, reply.body.decode()
        assert reply.headers["content-type"] == "text/html; charset=utf-8"
        return reply.body.decode()

    def file(self, path: str) -> Reply:
        """A file that a browser saves."""
        reply = self("GET", path)
        assert reply.status == 200, reply.body.decode()
        assert reply.headers["content-disposition"].startswith("attachment;")
        assert reply.headers["x-content-type-options"] == "nosniff"
        return reply


def page_of(name: str) -> str:
    """The path of a job's page."""
    _, project, _, location, collection, job_id = name.split("/")
    return f"/jobs/{project}/{location}/{collection}/{job_id}"


def rows_of(page: str) -> list[list[str]]:
    """The texts of the cells of the list of jobs, without the box that ticks one."""
    body = page.partition('<table class="jobs">')[2].partition("<tbody>")[2].partition("</tbody>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    rows = [re.sub(r'<td class="tick">.*?</td>', "", row) for row in rows]
    return [[text_of(cell) for cell in re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL)] for row in rows]


def headings_of(page: str) -> dict[str, str]:
    """The headings by which the list of jobs is sorted, with the addresses that do it."""
    head = page.partition('<table class="jobs">')[2].partition("</thead>")[0]
    links = re.findall(r'<a href="(.*?)">(.*?)</a>', head)
    return {text_of(text): html.unescape(address) for address, text in links}


def lines_of(page: str) -> list[str]:
    """The texts of the lines of a log that replicas have written."""
    lines = re.findall(r'<p class="(\w*)"><time.*?<span>(.*?)</span></p>', page, re.DOTALL)
    return [text_of(text) for kind, text in lines if kind != "service"]


def text_of(markup: str) -> str:
    """The words of a piece of HTML."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", markup)).split())
