"""The dashboard on loopback, over jobs of this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from lib.dashboard_service import Board, page_of

if any(find_spec(name) is None for name in ("starlette", "uvicorn", "jinja2")):
    collect_ignore_glob = ["test_*.py"]  # they need the extra dashboard


@pytest.fixture
def serve() -> Any:
    """Serves an application on loopback, as long as the block lasts, and gives its address."""
    from vtrain.emulator.http_server import address, listen, make_server

    @contextmanager
    def serve(app: Any) -> Iterator[str]:
        with listen("127.0.0.1", 0) as listener:
            server = make_server(app)
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
            thread.start()
            try:
                yield address(listener)
            finally:
                server.should_exit = True
                thread.join()

    return serve


@pytest.fixture
def board(vtrain_home: Path, serve: Any) -> Iterator[Board]:
    """The dashboard over the jobs of this test."""
    from vtrain.backends.interface import CommandLine
    from vtrain.backends.registry import find_backend
    from vtrain.emulator.dashboard.dashboard_app import make_app

    backend = find_backend("local")
    with serve(make_app(backend, backend.settings(CommandLine()))) as url:
        made = Board(url)
        yield made
        made.connection.close()


@pytest.fixture
def run(vtrain: Any, tmp_path: Path) -> Any:
    """Runs a script as a job on the backend process, and gives the path of its page."""

    def run(script: str, *words: str, name: str = "job", code: int = 0) -> str:
        (tmp_path / "train.py").write_text(script)
        folder = f"--local-package-path={tmp_path}"
        line = ("custom-jobs", "local-run", "--backend=process", f"--display-name={name}", folder)
        ended = vtrain(*line, "--script=train.py", *words)
        assert ended.code == code, ended.err
        listed = vtrain("custom-jobs", "list", "--backend=local", "--format=value(name)", "--limit=1")
        return page_of(listed.out.strip())

    return run
