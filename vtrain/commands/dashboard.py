"""`vtrain dashboard`: pages about the jobs of this machine, for a browser."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from vtrain.backends.base import Backend, CommandLine
from vtrain.backends.registry import LOCAL, find_backend
from vtrain.commands.emulator_storage import needed_modules, port_number, until_interrupted
from vtrain.commands.session import open_console
from vtrain.errors import ConfigError
from vtrain.flags.options import CommonFlags, DashboardFlags, PlaceFlags
from vtrain.settings import given_backend

HOST = "127.0.0.1"


def dashboard(board: DashboardFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """Serve until a signal comes. Raises UnavailableError where the extra is not installed."""
    console = open_console(common)
    port = port_number(board.port)
    backend = _local_backend(place.backend)
    with needed_modules("dashboard"):
        from vtrain.emulator.dashboard.dashboard_app import make_app
        from vtrain.emulator.http_server import serve_app
        from vtrain.emulator.storage.guard import new_token
    token = new_token()
    app = make_app(backend, backend.settings(CommandLine()), location=place.region, token=token)
    with until_interrupted(console), ExitStack() as stack:

        def announce(url: str) -> None:
            console.result({"url": url}, "value(url)")
            console.progress("The dashboard answers there. Press Ctrl-C to stop it.")
            if not board.no_browser and _has_display():
                with suppress(OSError):  # without a place for that page, the address has to do
                    stack.enter_context(_browser(url))

        serve_app(app, HOST, port, announce, console.debug, token=token)


def _local_backend(flag: str) -> Backend:
    """The backend whose jobs are shown. Raises ConfigError for a flag that names one of a service."""
    given = given_backend(flag)
    backend = find_backend(given.value if given is not None else LOCAL)
    if backend.is_local:
        return backend
    if flag:
        raise ConfigError(
            f"The dashboard shows jobs of this machine, and --backend={flag} has none here.",
            hint="Leave --backend out. For Vertex AI, see https://console.cloud.google.com/vertex-ai/training.",
        )
    return find_backend(LOCAL)


def _has_display() -> bool:
    """Whether a browser can be seen: without a display, it may be one that takes this terminal."""
    names = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return sys.platform == "darwin" or any(map(os.environ.get, names))


@contextmanager
def _browser(url: str) -> Iterator[None]:
    """A browser that is led to the address by a private page, as others can read its command line."""
    with NamedTemporaryFile("w", prefix="vtrain-", suffix=".html") as page:
        page.write(f'<meta http-equiv="refresh" content="0; url={url}/"><title>vtrain</title>')
        page.flush()
        # a browser that $BROWSER names may stay in the foreground
        threading.Thread(target=webbrowser.open, args=(Path(page.name).as_uri(),), daemon=True).start()
        yield
