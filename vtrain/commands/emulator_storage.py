"""`vtrain emulator storage`: Cloud Storage on this machine."""

from __future__ import annotations

import ipaddress
from secrets import token_urlsafe

from vtrain.commands.session import open_console
from vtrain.errors import InterruptedByUser, UnavailableError, UsageError
from vtrain.extras import install_command
from vtrain.flags.options import CommonFlags, EmulatorFlags
from vtrain.output.console import Console
from vtrain.settings import home_folder

LARGEST_PORT = 65535
_MODULES = frozenset({"starlette", "uvicorn", "google_crc32c"})


def storage(where: EmulatorFlags, common: CommonFlags) -> None:
    """Serve until a signal comes. Raises UnavailableError where the extra is not installed."""
    console = open_console(common)
    port = port_number(where.port)
    try:
        from vtrain.emulator.storage.guard import Admission
        from vtrain.emulator.storage.server import serve
    except ModuleNotFoundError as error:
        if error.name not in _MODULES:
            raise
        raise UnavailableError(
            f"The emulator needs {error.name}, which is not installed.",
            hint=f"Install it: {install_command('emulator')}",
        ) from error
    if not _is_loopback(where.host) and not where.require_token:
        console.warn(
            f"Whoever reaches {where.host} may read and write every bucket of {home_folder()}. "
            "Give --require-token to keep others out."
        )
    names = frozenset(name.lower() for name in (where.host, *where.allowed_host))
    admission = Admission(hosts=names, token=token_urlsafe(24) if where.require_token else "")
    try:
        serve(home_folder(), where.host, port, admission, lambda url: _announce(console, url))
    except KeyboardInterrupt:  # the usual end, and no accident
        raise InterruptedByUser("Stopped.") from None


def _announce(console: Console, url: str) -> None:
    console.result({"environment": f"STORAGE_EMULATOR_HOST={url}", "url": url}, "value(environment)")
    console.progress("Cloud Storage answers there. Press Ctrl-C to stop it.")


def port_number(text: str) -> int:
    """The port that a flag names. Raises UsageError for what is none."""
    if not text.isdecimal() or int(text) > LARGEST_PORT:
        raise UsageError(f"--port: {text!r} is not a number from 0 to {LARGEST_PORT}.")
    return int(text)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
