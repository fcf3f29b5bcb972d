"""`vtrain dashboard`: pages about the jobs of this machine, for a browser."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser

from vtrain.backends.base import Backend, CommandLine
from vtrain.backends.registry import LOCAL, find_backend
from vtrain.commands.emulator_storage import needed_modules, port_number, until_interrupted
from vtrain.commands.session import open_console
from vtrain.errors import ConfigError
from vtrain.flags.options import CommonFlags, DashboardFlags, PlaceFlags
from vtrain.output.console import Console
from vtrain.settings import given_backend

HOST = "127.0.0.1"


def dashboard(board: DashboardFlags, place: PlaceFlags, common: CommonFlags) -> None:
    """Serve until a signal comes. Raises UnavailableError where the extra is not installed."""
    console = open_console(common)
    port = port_number(board.port)
    backend = _local_backend(place.backend)
    with needed_modules("dashboard"):
        from vtrain.emulator.dashboard.app import make_app
        from vtrain.emulator.storage.server import serve_app
    app = make_app(backend, backend.settings(CommandLine()), location=place.region)
    with until_interrupted(console):
        opens = not board.no_browser
        serve_app(app, HOST, port, lambda url: _announce(console, url, opens=opens), console.debug)


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


def _announce(console: Console, url: str, *, opens: bool) -> None:
    console.result({"url": url}, "value(url)")
    console.progress("The dashboard answers there. Press Ctrl-C to stop it.")
    # Without a display, the browser may be one that takes this terminal.
    has_display = sys.platform == "darwin" or any(
        map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    )
    if opens and has_display:
        # a browser that $BROWSER names may stay in the foreground
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
