"""`vtrain emulator storage` as a script uses it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lib.storage_service import Http

from vtrain.extras import command_in_a_clone, install_command

pytest.importorskip("uvicorn")
pytest.importorskip("google_crc32c")

pytestmark = pytest.mark.end_to_end

COMMAND = (sys.executable, "-m", "vtrain", "emulator", "storage")


@contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[str]]:
    """A service that has ended afterwards."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*COMMAND, *words], text=True, **streams) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_it_says_where_it_answers_and_ends_when_told(number: int, code: int, vtrain_home: Path) -> None:
    with started() as process:
        assert process.stdout is not None
        name, _, url = process.stdout.readline().strip().partition("=")
        assert name == "STORAGE_EMULATOR_HOST"
        http = Http(url)
        assert http("POST", "/storage/v1/b", {"name": "made"}).status == 200
        assert (vtrain_home / "buckets" / "made").is_dir()
        process.send_signal(number)  # the connection is still open
        assert process.wait(timeout=120) == code
        http.connection.close()
        assert process.stderr is not None
        assert (
            process.stderr.read().splitlines()[0] == "Cloud Storage answers there. Press Ctrl-C to stop it."
        )
    assert not list((vtrain_home / "storage" / "uploads").iterdir())


def test_a_token_is_made_for_each_start_and_printed_in_the_address() -> None:
    with started() as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip().partition("=")[2]
        address, _, token = url.rpartition("/")
        assert len(token) >= 32
        http = Http(address)
        assert http("GET", "/storage/v1/b").status == 401
        assert http("GET", "/storage/v1/b", authorization=f"Bearer {token}").status == 200
        assert http("GET", "/storage/v1/b", authorization=f"Bearer {token}", host="gcs:1").status == 403
        http.connection.close()


def test_another_name_of_this_machine_is_allowed_by_a_flag() -> None:
    with started("--allowed-host=GCS") as process:
        assert process.stdout is not None
        http = Http(process.stdout.readline().strip().partition("=")[2])
        assert http("GET", "/storage/v1/b", host="gcs:9023").status == 200
        assert http("GET", "/storage/v1/b", host="other:9023").status == 403
        http.connection.close()


def test_the_port_may_be_chosen_and_the_format_too() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with started(f"--port={port}", "--format=json", "--no-require-token") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
    assert json.loads("".join(lines))["url"] == f"http://127.0.0.1:{port}"


def test_a_port_that_is_taken_is_named(vtrain: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = vtrain("emulator", "storage", f"--port={port}")
    assert ended.code == 1
    assert f"127.0.0.1:{port}" in ended.err and "--port" in ended.err
    for wrong in ("x", "-1", "65536", "1.5", ""):
        ended = vtrain("emulator", "storage", f"--port={wrong}")
        assert (ended.code, "--port" in ended.err) == (2, True)


def test_an_address_that_others_reach_is_warned_of(vtrain: Any) -> None:
    elsewhere = ("emulator", "storage", "--host=192.0.2.1")  # no machine has this one
    ended = vtrain(*elsewhere, "--no-require-token")
    assert ended.code == 1
    assert "WARNING" in ended.err and "192.0.2.1" in ended.err and "--no-require-token" in ended.err
    assert "WARNING" not in vtrain(*elsewhere).err


def test_without_the_extra_it_says_how_to_install_it() -> None:
    program = (
        "import sys; sys.modules['uvicorn'] = None; from vtrain.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, "emulator", "storage"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert install_command("emulator") in ended.stderr
    assert f"in a clone of vtrain: {command_in_a_clone('emulator')}" in ended.stderr
