"""Hostile names, lines, files and requests: nothing of them is markup, and nothing leads out."""

from __future__ import annotations

import html
import re
import socket
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.dashboard_service import Board, lines_of
from lib.stored_jobs import add_job, local_name
from lib.tuning_jobs import trial, tuning_document
from lib.waiting import wait_until

HOSTILE = (
    "</title><script>alert(1)</script><img src=x onerror=alert(1)>\"' style=x \x1b[31m\x07\u202e\u2028{{7*7}}"
)
ADDRESS = "/jobs/local/us-central1/customJobs/1001"


class Page(HTMLParser):
    """The elements of a page that could run or load something, and attributes that could."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.runs: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.loads += [given[name] or "" for name in ("src", "href", "action") if name in given]
        self.runs += [name for name in given if name.startswith("on") or name == "style"]
        self.runs += [tag] if tag in ("style", "iframe", "object", "img", "base") else []
        self.runs += (
            [tag] if tag == "script" and not (given.get("src") or "").startswith("/dashboard/") else []
        )


def checked(text: str) -> str:
    """The page, of which nothing runs and nothing is loaded from elsewhere."""
    page = Page(text)
    assert page.runs == []
    assert all(address.startswith("/") and not address.startswith("//") for address in page.loads), page.loads
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2028]", text)
    return text


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs the list of open files")
def test_a_download_that_is_broken_off_ends(board: Board, vtrain_home: Path) -> None:
    output = vtrain_home / "buckets" / "bucket" / "out"
    output.mkdir(parents=True)
    with (output / "large").open("wb") as file:
        file.truncate(1 << 40)
    spec = {"jobSpec": {"baseOutputDirectory": {"outputUriPrefix": "gs://bucket/out"}}}
    add_job(vtrain_home, "1001", "job", fields=spec)
    url = urlsplit(board.url)
    with socket.create_connection((url.hostname, url.port)) as client:
        client.sendall(f"GET {ADDRESS}/file?path=large HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
        assert is_open(output / "large")
    wait_until(lambda: not is_open(output / "large"))


def is_open(path: Path) -> bool:
    """Whether this process has a file open."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(link.readlink())
    return path in found


def test_hostile_names_are_shown_as_text(board: Board, vtrain_home: Path) -> None:
    add_job(vtrain_home, "1001", HOSTILE, fields={"labels": {HOSTILE: HOSTILE}})
    for path in ("/", ADDRESS, f"{ADDRESS}/log", f"/?find={quote(HOSTILE)}"):
        page = checked(board.page(path))
        assert "&lt;script&gt;alert(1)" in page and "\\x1b[31m\\x07\\u202e" in page
        assert "{{7*7}}" in page


def test_a_name_that_is_no_text_is_damage(board: Board, vtrain_home: Path) -> None:
    add_job(vtrain_home, "1001", "half \ud800 a character")
    add_job(vtrain_home, "1002", "whole")
    page = checked(board.page("/"))
    assert "whole" in page and "customJobs/1001" in page
    checked(board.page(ADDRESS, 500))


def test_a_hostile_study(board: Board, vtrain_home: Path) -> None:
    name = local_name("2001", collection="hyperparameterTuningJobs")
    study = {"metrics": [{"metricId": HOSTILE}], "parameters": []}
    measured = {"metrics": [{"metricId": HOSTILE, "value": 0.5}]}
    trials = [
        trial(1, None, state="SUCCEEDED", **{HOSTILE: HOSTILE})
        | {"finalMeasurement": measured, "customJob": "//x"}
    ]
    document = tuning_document(name, trials=trials, studySpec=study, displayName=HOSTILE)
    add_job(vtrain_home, "2001", HOSTILE, collection="hyperparameterTuningJobs", fields=document)
    page = checked(board.page("/jobs/local/us-central1/hyperparameterTuningJobs/2001"))
    figures = [html.unescape(text) for text in re.findall(r'data-figure="(.*?)"', page)]
    assert len(figures) == 2 and not any("<" in text for text in figures), "plotly reads tags"


def test_a_hostile_failure(board: Board, run: Any) -> None:
    address = run(f"raise ValueError({HOSTILE!r})", code=1)
    assert "ValueError: &lt;/title&gt;" in checked(board.page(address))
    checked(board.page("/"))


def test_hostile_lines_are_shown_as_text(board: Board, run: Any) -> None:
    script = f"import sys\nprint({HOSTILE!r})\nsys.stdout.buffer.write(b'\\xff\\xed\\xa0\\x80 bytes\\n')\n"
    script += "print('x' * 3_000_000)\nprint('{\"message\": \"<b>json</b>\"}')\n"
    address = run(script)
    for part in ("", "/log", "/log?at=start", "/log?find=script"):
        page = checked(board.page(f"{address}{part}"))
        assert len(page) < 600_000
    lines = lines_of(board.page(f"{address}/log"))
    assert lines[-1] == "<b>json</b>"
    assert any("more characters" in line for line in lines)
    assert board.file(f"{address}/log/text").body.count(b"x") >= 3_000_000


@pytest.mark.parametrize("query", ["", "?at=start", "?find=a"])
def test_a_page_of_tiny_lines_is_no_large_one(board: Board, run: Any, query: str) -> None:
    address = run("print('a\\n' * 400_000)")
    page = board.page(f"{address}/log{query}")
    assert len(lines_of(page)) >= 490 and len(page) < 1_500_000


def test_numbers_under_many_and_long_names(board: Board, run: Any) -> None:
    script = "import json, os\ndocument = {f'{n}' * 200: [n, n + 1] for n in range(1000)}\n"
    script += "with open(os.environ['AIP_MODEL_DIR'] + '/metrics.json', 'w') as file:\n"
    script += "    json.dump(document | {'x' * 1_000_000: 1}, file)\n"
    page = checked(board.page(run(script)))
    assert page.count("data-figure=") == 8 and len(page) < 300_000


WRITES = """
import os, pathlib
folder = os.fsencode(os.environ["AIP_MODEL_DIR"])
os.makedirs(os.path.join(folder, b"deep", b"er"), exist_ok=True)
plain = (b"page.html", b"<img src=x onerror=alert(1)>", b"\\xff\\xfe.txt", b"a b%2F&c#d?.txt", b"new\\nline")
for name in (*plain, b"deep/er/x"):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(b"<script>alert(1)</script>")
with open(os.path.join(folder, b"data.bin"), "wb") as file:
    file.write(bytes(range(256)) * 100)
os.symlink("/etc/passwd", os.path.join(folder, b"link"))
os.symlink("/etc", os.path.join(folder, b"folder-link"))
os.mkfifo(os.path.join(folder, b"fifo"))
"""


def test_files_are_saved_and_never_shown(board: Board, run: Any) -> None:
    address = run(WRITES)
    page = checked(board.page(f"{address}/files?path=model"))
    addresses = re.findall(r'href="(/jobs/[^"]*/file\?[^"]*)"', page)
    assert len(addresses) == 6
    for each in addresses:
        reply = board.file(each)
        text = "data.bin" not in each
        assert reply.headers["content-type"] == "application/octet-stream"
        assert reply.body == (b"<script>alert(1)</script>" if text else bytes(range(256)) * 100)
    assert "a link, which is not followed" in page and "not a file" in page
    part = board("GET", f"{address}/file?path=model/data.bin", range="bytes=1-3")
    assert (part.status, part.body) == (206, b"\x01\x02\x03")
    assert board("GET", f"{address}/file?path=model/data.bin", range="bytes=99999-").status == 416


@pytest.mark.parametrize(
    "path",
    [
        *(
            "..",
            "../x",
            "model/../../x",
            "/etc/passwd",
            "//etc/passwd",
            "model//page.html",
            "./model",
            "model/.",
        ),
        *(
            "model/link",
            "model/folder-link/passwd",
            "model/fifo",
            "model",
            "",
            "nothing",
            "a" * 300,
            "x\x00y",
        ),
        *("model/page.html/", "model/page.html/x", "%2e%2e/x"),
    ],
)
def test_nothing_but_files_of_the_output_is_sent(board: Board, run: Any, path: str) -> None:
    address = run(WRITES)
    checked(board.page(f"{address}/file?path={quote(path, safe='')}", 404))


@pytest.mark.parametrize("path", ["..", "../..", "model/..", "model/folder-link", "model/page.html", "\x00"])
def test_nothing_but_folders_of_the_output_is_listed(board: Board, run: Any, path: str) -> None:
    checked(board.page(f"{run(WRITES)}/files?path={quote(path, safe='')}", 404))


def test_a_job_that_writes_elsewhere_shows_no_files(board: Board, vtrain_home: Path) -> None:
    for number, uri in enumerate(("gs://../x", "gs://bucket/../../x", "s3://x", "gs://no/such", "x"), 1001):
        spec = {"workerPoolSpecs": [{"replicaCount": 1}], "baseOutputDirectory": {"outputUriPrefix": uri}}
        add_job(vtrain_home, str(number), "job", fields={"jobSpec": spec})
        address = f"/jobs/local/us-central1/customJobs/{number}"
        assert "no output folder" in board.page(address)
        board.page(f"{address}/files", 404)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"host": "evil.example"},
        {"host": ""},
    ],
)
def test_no_page_of_others_reads(board: Board, vtrain_home: Path, headers: dict[str, str]) -> None:
    add_job(vtrain_home, "1001", "job")
    for path in ("/", ADDRESS, f"{ADDRESS}/log/lines", "/dashboard/script.js"):
        reply = board("GET", path, **headers)
        assert reply.status == 403 and b"job" not in reply.body


def test_the_pages_may_read_each_other_and_nothing_is_written(board: Board, vtrain_home: Path) -> None:
    add_job(vtrain_home, "1001", "job")
    for path in ("/", ADDRESS, f"{ADDRESS}/log/lines", "/dashboard/script.js", "/dashboard/style.css"):
        reply = board("GET", path, sec_fetch_site="same-origin")
        assert reply.status == 200
        assert reply.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert reply.headers["cross-origin-resource-policy"] == "same-origin"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert board("POST", path, b"", sec_fetch_site="same-origin").status == 403
        assert board("POST", path, b"").status == 405
        assert board("DELETE", path).status == 405


def test_pages_may_read_only_what_is_named() -> None:
    from vtrain.emulator.dashboard.dashboard_app import OWN_PAGES
    from vtrain.emulator.storage.guard import Admission
    from vtrain.emulator.storage.storage_refusals import StorageRefusal

    def request(method: str, path: str) -> dict[str, Any]:
        headers = [(b"host", b"127.0.0.1:1"), (b"sec-fetch-site", b"same-origin")]
        return {"method": method, "path": path, "raw_path": path.encode(), "headers": headers}

    admission = Admission(pages=OWN_PAGES)
    for path in ("/", "/jobs/a", "/dashboard/style.css"):
        admission.check(request("GET", path))
        for method, allowed in (("POST", admission), ("DELETE", admission), ("GET", Admission())):
            with pytest.raises(StorageRefusal):
                allowed.check(request(method, path))
    for path in ("/storage/v1/b", "/v1/projects", "/jobsx", "/download/storage"):
        with pytest.raises(StorageRefusal):
            admission.check(request("GET", path))


def test_what_a_link_of_a_file_replaces_is_not_followed(tmp_path: Path) -> None:
    from vtrain.emulator.dashboard.output_files import list_folder, open_file
    from vtrain.errors import NotFoundError
    from vtrain.rooted import Root

    (tmp_path / "root").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "root" / "out").symlink_to(tmp_path)
    for path in ("out/secret", "out"):
        with pytest.raises(NotFoundError), open_file(Root(tmp_path / "root"), path):
            pass
    with pytest.raises(NotFoundError):
        list_folder(Root(tmp_path / "root"), "out")
    assert [entry.kind for entry in list_folder(Root(tmp_path / "root"), "").entries] == ["link"]


PARTS = ["", "/log", "/log/lines", "/log/text", "/files", "/file", "/nothing"]
NAMES = ["find", "replica", "cursor", "at", "path", "page", "kind", "state", "sort", "job"]


def test_no_query_is_an_error_of_the_server(board: Board, run: Any) -> None:
    address = run("print(1)")
    texts = (
        st.text(max_size=12)
        | st.binary(max_size=6)
        | st.sampled_from(["start", "..", "1", "-1", "customJobs"])
    )

    @given(
        st.sampled_from(["/", *(f"{address}{part}" for part in PARTS), ADDRESS, "/compare"]),
        st.lists(st.tuples(st.sampled_from(NAMES), texts), max_size=3),
    )
    def ask(path: str, pairs: list[tuple[str, Any]]) -> None:
        query = "&".join(
            f"{name}={quote(text, errors='surrogatepass')}"
            if isinstance(text, str)
            else f"{name}={quote(text)}"
            for name, text in pairs
        )
        reply = board("GET", f"{path}?{query}")
        assert reply.status in (200, 400, 404), (path, query, reply.body)

    ask()
