"""Servers that answer a client or a browser until Ctrl-C: Cloud Storage, the dashboard, TensorBoard."""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from vtrain.backends.interface import Backend, CommandLine
from vtrain.backends.registry import LOCAL, find_backend
from vtrain.commands.session import Session, open_console, open_named, open_session, vtrain_argv
from vtrain.errors import CommandError, ConfigError, UnavailableError, UsageError
from vtrain.extras import command_in_a_clone, install_command, pip_install
from vtrain.flags.emulator_options import ClientFlags, StoragePortFlag
from vtrain.flags.options import BoardFlags, CommonFlags, DashboardFlags, PlaceFlags
from vtrain.messages.custom_job import CustomJob
from vtrain.output.console import Console
from vtrain.properties import is_loopback
from vtrain.runtime.default_output import BUCKET
from vtrain.runtime.foreground import run_in_foreground
from vtrain.runtime.replica.vertex_view import OUTPUT_FOLDERS
from vtrain.settings import given_backend, home_folder
from vtrain.staging import LocalBuckets, join_uri

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
    with needed_modules("dashboard", "dashboard"):
        from vtrain.emulator.dashboard.dashboard_app import make_app
        from vtrain.emulator.http_server import serve_app
        from vtrain.emulator.storage.guard import new_token
    token = new_token()
    app = make_app(
        backend,
        backend.settings(CommandLine()),
        location=place.region,
        token=token,
        argv_of=partial(vtrain_argv, is_repeated=True),
    )
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


# TensorBoard


PROGRAM = "tensorboard"
INTERRUPTED_CODE = 130
LOGS = OUTPUT_FOLDERS["AIP_TENSORBOARD_LOG_DIR"]
HOW_TO_WRITE = "Trainers write them to the folder in the variable AIP_TENSORBOARD_LOG_DIR."


def tensorboard(
    board: BoardFlags, place: PlaceFlags, common: CommonFlags, remainder: tuple[str, ...] | None
) -> None:
    """Run TensorBoard until Ctrl-C."""
    program = _program()
    if board.job:
        session, name = open_named(common, place, board.job)
        logs = _logs_of(session, name)
    else:
        session = open_session(common, place)
        logs = _all_logs(session)
    if not logs.startswith("gs://") and not any(Path(logs).rglob("*tfevents*")):
        session.console.warn(f"There are no logs for TensorBoard in {logs} yet. {HOW_TO_WRITE}")
    session.console.progress(f"TensorBoard shows {logs}. Ctrl-C ends it.")
    code = run_in_foreground([program, f"--logdir={logs}", *(remainder or ())])
    if code not in (0, INTERRUPTED_CODE):
        raise CommandError("", code)


def _program() -> str:
    """TensorBoard as the shell finds it, else beside vtrain. Raises UnavailableError where it is neither."""
    beside = Path(sys.executable).with_name(PROGRAM)
    found = shutil.which(PROGRAM) or (str(beside) if os.access(beside, os.X_OK) else "")
    if not found:
        hint = f"Install it:\n$ {pip_install(PROGRAM)}"
        raise UnavailableError("TensorBoard is not installed.", hint=hint)
    return found


def _logs_of(session: Session, name: str) -> str:
    """The folder or URI of a job's logs. Raises ConfigError for a job without a base output directory."""
    job = session.jobs.get(name)
    output = job.job_spec.output_uri if isinstance(job, CustomJob) else ""
    if not output:
        hint = "Give --base-output-dir=gs://BUCKET/FOLDER when you create the job."
        raise ConfigError("The job has no base output directory, and so no folder of logs.", hint=hint)
    uri = join_uri(output, LOGS)
    return str(LocalBuckets(session.settings.home).local_path(uri)) if session.is_local else uri


def _all_logs(session: Session) -> str:
    """The folder with the logs of all jobs of this machine that chose no output directory of their own."""
    if not session.is_local:
        message = f"TensorBoard can show one job of the backend {session.backend.name} at a time."
        raise ConfigError(message, hint="Name the job: vtrain tensorboard JOB")
    return str(LocalBuckets(session.settings.home).local_path(BUCKET))
