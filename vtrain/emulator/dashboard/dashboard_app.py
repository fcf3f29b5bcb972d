"""The routes of the dashboard, and the application that serves nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from vtrain.backends import BackendSettings
from vtrain.backends.interface import Backend
from vtrain.emulator.dashboard import OWN_PAGES
from vtrain.emulator.dashboard.handlers import Dashboard, Query
from vtrain.emulator.dashboard.pages import Pages
from vtrain.emulator.dashboard.reader import ArgvOf, JobReader
from vtrain.emulator.storage.guard import Admission, Guard
from vtrain.emulator.storage.storage_refusals import StorageRefusal
from vtrain.errors import ConfigError, NotFoundError, StorageError, UnavailableError, VtrainError

_STATUSES = {NotFoundError: 404, ConfigError: 400, StorageError: 500, UnavailableError: 503}
_JOB = "/jobs/{project}/{location}/{collection}/{id}"


def make_app(
    backend: Backend,
    settings: BackendSettings,
    *,
    location: str = "",
    token: str = "",
    argv_of: ArgvOf | None = None,
) -> ASGIApp:
    """The dashboard alone, for requests that the guard of the emulator admits."""
    table = routes(backend, settings, location=location, argv_of=argv_of)
    pages = Pages()

    async def unknown(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return pages.answer("error.html", error.status_code, message="There is no such page.", hint="")

    app = Starlette(routes=table, exception_handlers={HTTPException: unknown})
    return Guard(app, Admission(pages=OWN_PAGES, token=token))


def routes(
    backend: Backend, settings: BackendSettings, *, location: str = "", argv_of: ArgvOf | None = None
) -> list[BaseRoute]:
    """The pages about the jobs of a local backend; with a location only about those in it.

    They answer GET and HEAD below `/`, `/jobs`, `/compare` and `/dashboard`, and POST where a job is stopped
    or run again, for which `argv_of` is needed.
    """
    board = Dashboard(JobReader(backend, settings, location=location), Pages(), argv_of)
    actions = {f"{_JOB}/stop": board.stop_job, f"{_JOB}/rerun": board.rerun_job}
    table: dict[str, Callable[[Request, Query], Response]] = {
        "/": board.list_jobs,
        "/compare": board.show_comparison,
        _JOB: board.show_job,
        f"{_JOB}/log": board.show_log,
        f"{_JOB}/log/lines": board.log_lines,
        f"{_JOB}/log/text": board.log_text,
        f"{_JOB}/files": board.show_files,
        f"{_JOB}/file": board.send_file,
        "/dashboard/{file}": board.send_static,
    }
    return [
        Route(path, _endpoint(board.pages, handler), methods=[method])
        for method, some in (("GET", table), ("POST", actions))
        for path, handler in some.items()
    ]


def _endpoint(pages: Pages, handler: Callable[[Request, Query], Response]) -> Callable[..., Any]:
    """A handler in a thread, with the query; its errors become pages."""

    async def run(request: Request) -> Response:
        try:
            # a name of a file may hold any bytes
            pairs = parse_qsl(request.scope["query_string"].decode("latin-1"), errors="surrogateescape")
            return await run_in_threadpool(handler, request, dict(pairs))
        except VtrainError as error:
            status = next((status for cls, status in _STATUSES.items() if isinstance(error, cls)), 500)
            return pages.answer("error.html", status, message=error.message, hint=error.hint)
        except (OSError, StorageRefusal) as error:
            return pages.answer("error.html", getattr(error, "status", 500), message=str(error), hint="")

    return run
