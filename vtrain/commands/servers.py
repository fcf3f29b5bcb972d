"""Servers that answer a client or a browser until Ctrl-C: Cloud Storage, and the dashboard."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vtrain.backends.interface import Backend, CommandLine
from vtrain.backends.registry import LOCAL, find_backend
from vtrain.commands.session import open_console
from vtrain.errors import ConfigError, UnavailableError, UsageError
from vtrain.extras import command_in_a_clone, install_command
from vtrain.flags.emulator_options import ClientFlags, StoragePortFlag
from vtrain.flags.options import CommonFlags, DashboardFlags, PlaceFlags
from vtrain.output.console import Console
from vtrain.properties import is_loopback
from vtrain.settings import given_backend, home_folder

if TYPE_CHECKING:
    from vtrain.emulator.storage.guard import Admission


LARGEST_PORT = 65535
_MODULES = frozenset(
    "starlette uvicorn httptools anyio google_crc32c cryptography certifi jinja2 plotly".split()
)


def storage(clients: ClientFlags, where: StoragePortFlag, common: CommonFlags) -> None:
    """Serve until a signal comes. Raises UnavailableError where the extra is not installed."""
    console = open_console(common)
    port = port_number(where.port)
    admission = admission_of(clients, console)
    with needed_modules():
        from vtrain.emulator.http_server import serve_app
        from vtrain.emulator.storage.storage_app import make_app
    app = make_app(home_folder(), admission)

    def announce(url: str) -> None:
        console.result({"environment": f"STORAGE_EMULATOR_HOST={url}", "url": url}, "value(environment)")
        console.progress("Cloud Storage answers there. Press Ctrl-C to stop it.")

    with until_interrupted(console):
        serve_app(app, clients.host, port, announce, console.debug, token=admission.token)


@contextmanager
def until_interrupted(console: Console) -> Iterator[None]:
    """A block that serves until Ctrl-C, which is its usual end and no error."""
    try:
        yield
    except KeyboardInterrupt:
        console.progress("Stopped.")


@contextmanager
def needed_modules(what: str = "emulator", extra: str = "emulator") -> Iterator[None]:
    """A block that imports what an extra brings. Raises UnavailableError where the extra is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in _MODULES:
            raise
        raise UnavailableError(
            f"The {what} needs {error.name}, which is not installed.",
            hint=f"Install it: {install_command(extra)}\n"
            f"Or, in a clone of vtrain: {command_in_a_clone(extra)}",
        ) from error


def admission_of(clients: ClientFlags, console: Console) -> Admission:
    """The rules for clients, with a new token if one is wanted. Warns of an address that others reach."""
    with needed_modules():
        from vtrain.emulator.storage.guard import Admission, new_token
    if not is_loopback(clients.host) and not clients.require_token:
        console.warn(
            f"Anyone who reaches {clients.host} may read and write every bucket of {home_folder()}. "
            "Leave out --no-require-token to keep others out."
        )
    names = frozenset(name.lower() for name in (clients.host, *clients.allowed_host))
    return Admission(hosts=names, token=new_token() if clients.require_token else "")


def port_number(text: str) -> int:
    """The port that a flag names. Raises UsageError for an invalid one."""
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > LARGEST_PORT:
        raise UsageError(f"--port: {text!r} is not a number from 0 to {LARGEST_PORT}.")
    return int(text)


# the dashboard


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
    import webbrowser
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile("w", prefix="vtrain-", suffix=".html") as page:
        page.write(f'<meta http-equiv="refresh" content="0; url={url}/"><title>vtrain</title>')
        page.flush()
        # a browser that $BROWSER names may stay in the foreground
        threading.Thread(target=webbrowser.open, args=(Path(page.name).as_uri(),), daemon=True).start()
        yield
