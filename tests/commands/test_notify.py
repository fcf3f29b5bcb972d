"""`--notify`: who gets a notice that a command has ended, and what it says."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from lib.serving import serving
from lib.stored_jobs import add_job


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file into which the command of VTRAIN_NOTIFY writes what it is told."""
    file = tmp_path / "told.txt"
    program = tmp_path / "tell.py"
    program.write_text(f"import sys\nopen({str(file)!r}, 'a').write(sys.argv[-1] + chr(10))\n")
    monkeypatch.setenv("VTRAIN_NOTIFY", f"{sys.executable} '{program}' loud")
    return file


class Chat(HTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.texts: list[str] = []
        self.status = 200


class Answer(BaseHTTPRequestHandler):
    server: Chat

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.texts.append(json.loads(body)["text"])
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[Chat]:
    server = Chat()
    monkeypatch.setenv("VTRAIN_NOTIFY", f"http://127.0.0.1:{server.server_port}/hook")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(server):
        yield server


def test_a_command_is_told_how_it_ended(vtrain: Any, vtrain_home: Path, told: Path) -> None:
    add_job(vtrain_home, "1" * 19, "good")
    add_job(vtrain_home, "2" * 19, "bad", state="JOB_STATE_FAILED")
    for words, code in ((("wait", "good"), 0), (("--notify", "wait", "bad"), 10), (("show", "nobody"), 1)):
        assert vtrain(*words, *(() if "--notify" in words else ("--notify",))).code == code
    good, bad, nobody = told.read_text().splitlines()
    assert good.startswith("vtrain wait good --notify succeeded after ") and good.endswith(".")
    assert bad.startswith("vtrain --notify wait bad failed after ")
    assert nobody.startswith("vtrain show nobody --notify ended with exit code 1 after ")


def test_without_the_flag_and_of_wrong_lines_nobody_is_told(
    vtrain: Any, vtrain_home: Path, told: Path
) -> None:
    add_job(vtrain_home, "1" * 19, "good")
    assert vtrain("wait", "good").code == 0 and vtrain("ps", "--notify", "--state=x").code == 2
    assert not told.exists()


def test_secrets_of_the_line_are_not_told(vtrain: Any, vtrain_home: Path, told: Path) -> None:
    add_job(vtrain_home, "1" * 19, "good")
    assert vtrain("show", "good", "--notify", "--trace-token=hunter2hunter2").code in (0, 1)
    assert "hunter2" not in told.read_text()


def test_an_address_gets_a_post(vtrain: Any, vtrain_home: Path, chat: Chat) -> None:
    add_job(vtrain_home, "1" * 19, "größe \x1b[31m")
    assert vtrain("wait", "1" * 19, "--notify").code == 0
    assert [text.startswith(f"vtrain wait {'1' * 19} --notify succeeded") for text in chat.texts] == [True]


@pytest.mark.parametrize(
    "target", ["/no/such/program", "false", "http://127.0.0.1:9/", "http://[", "http://a b/", "'"]
)
def test_one_that_is_not_reached_is_a_warning(
    vtrain: Any, vtrain_home: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    add_job(vtrain_home, "1" * 19, "good")
    monkeypatch.setenv("VTRAIN_NOTIFY", target)
    ended = vtrain("wait", "good", "--notify")
    assert ended.code == 0 and "WARNING: VTRAIN_NOTIFY: the notice could not be sent" in ended.err
