"""Flags of what only this machine can do with a job. The annotations are evaluated at every start."""

import os
import re
from typing import TYPE_CHECKING, ClassVar

from vtrain.errors import ConfigError, UsageError
from vtrain.flags.completion import files, one_of
from vtrain.flags.grammar import duration_seconds
from vtrain.flags.options import LOCAL
from vtrain.flags.row import FlagGroup, flag, switch, text
from vtrain.settings import user_path

if TYPE_CHECKING:
    from vtrain.runtime.debugging import Debugger
    from vtrain.runtime.job_order import SimulatedPreemption

AIP_DIRS_FLAG = "--aip-dirs"
PYTHON_FLAG = "--python"
ENVIRONMENT_FLAG = "--environment"
ENVIRONMENTS = ("current", "new")
AIP_DIRS = ("gs", "local")
DEBUGPY_FLAG = "--debugpy"
PREEMPTION_FLAG = "--simulate-preemption"
_REPLICA = re.compile(r"workerpool\d+-\d+")
_VERSION = re.compile(r"3(\.\d{1,3}){0,2}")


class RuntimeFlags(FlagGroup, frozen=True):
    """Flags that only local backends take, for every kind of job."""

    heading: ClassVar[str] = LOCAL

    simulate_preemption: str | None = flag(
        "DURATION[,REPLICA]", "After DURATION, restart a replica as Vertex AI would."
    )
    aip_dirs: str | None = flag(
        "FORM", "AIP_MODEL_DIR and others: as gs:// URIs (gs) or paths (local).", offer=one_of(*AIP_DIRS)
    )
    python_downloads: bool = switch("Download the Python that the trainer needs, if it is missing.")
    python: str | None = flag(
        "VERSION|PATH", "Python of the trainer's environment, such as 3.12.", offer=files
    )
    environment: str | None = flag(
        "current|new",
        "Run in your active Python as it is, or in an environment.",
        offer=one_of(*ENVIRONMENTS),
    )


class LocalFlags(RuntimeFlags, frozen=True):
    """Flags that only local backends take, with those for a job that runs once."""

    debugpy: str = text("PORT", "Install debugpy, and wait at this port for a debugger.")
    debugpy_wait: bool = switch(
        "Wait for the debugger before the trainer starts.", default=True, has_opposite=True
    )


def python_request(flags: RuntimeFlags) -> str:
    """The version of `--python`, or the absolute path of its interpreter; "" where it is not given.

    A virtual environment may be named by its folder. Raises UsageError for a text that is neither, and
    ConfigError for a path that leads to no interpreter.
    """
    text = flags.python
    if text is None or _VERSION.fullmatch(text):
        return text or ""
    if "/" not in text:
        raise UsageError(
            f"{PYTHON_FLAG}: expected a version such as 3.12, or the path of an interpreter, found {text!r}."
        )
    path = user_path(text).absolute()
    path = path / "bin" / "python" if path.is_dir() else path
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise ConfigError(f"{PYTHON_FLAG}: there is no Python at {path}.")
    return str(path)


def active_environment(flags: RuntimeFlags) -> str:
    """The interpreter for `--environment=current`: that of `--python`, else the active one; else "".

    Raises UsageError and ConfigError as `python_request` does, and where no Python is active.
    """
    text = flags.environment
    if text not in (None, *ENVIRONMENTS):
        raise UsageError(f"{ENVIRONMENT_FLAG}: expected {' or '.join(ENVIRONMENTS)}, found {text!r}.")
    if text != "current":
        return ""
    asked = python_request(flags)
    if asked and "/" not in asked:
        raise UsageError(
            f"{ENVIRONMENT_FLAG}=current takes {PYTHON_FLAG}=PATH, not a version: nothing is installed."
        )
    from vtrain.runtime.environments.active_python import active_python, version_of

    python = asked or active_python(os.environ)
    version_of(python)  # raises for anything but a Python
    return python


class InteractiveFlag(FlagGroup, frozen=True):
    """The switch that lets a trainer read the keyboard."""

    heading: ClassVar[str] = LOCAL

    interactive: bool = switch("Let a single replica read the keyboard: breakpoint(), input().", short="-i")


def aip_dirs_form(flags: RuntimeFlags) -> str:
    """`--aip-dirs`, empty where it is not given. Raises UsageError for another word."""
    if flags.aip_dirs is not None and flags.aip_dirs not in AIP_DIRS:
        raise UsageError(f"{AIP_DIRS_FLAG}: expected gs or local, found {flags.aip_dirs!r}.")
    return flags.aip_dirs or ""


def debugger_of(flags: LocalFlags) -> "Debugger | None":
    """The debugger of `--debugpy`, if any. Raises UsageError for no port, ConfigError for one in use."""
    text = flags.debugpy
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:6]) <= 65535:
        raise UsageError(f"{DEBUGPY_FLAG}: expected a port such as 5678, found {text!r}.")
    import socket  # for this flag alone

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", int(text)))
        except OSError as error:
            hint = f"Give another one: {DEBUGPY_FLAG}=5679"
            raise ConfigError(f"Port {text} cannot be used: {error.strerror}.", hint=hint) from error
    from vtrain.runtime.debugging import Debugger

    return Debugger(port=int(text), waits=flags.debugpy_wait)


def simulated_preemption(flags: RuntimeFlags) -> "SimulatedPreemption | None":
    """The preemption of `--simulate-preemption`, if any. Raises UsageError where it does not parse."""
    text = flags.simulate_preemption
    if text is None:
        return None
    duration, comma, replica = text.partition(",")
    after_seconds = duration_seconds(duration, PREEMPTION_FLAG)
    if comma and not _REPLICA.fullmatch(replica):
        raise UsageError(
            f"{PREEMPTION_FLAG}: {replica!r} is not the name of a replica.", hint="Write 30s,workerpool1-0."
        )
    from vtrain.runtime.job_order import SimulatedPreemption

    return SimulatedPreemption(after_seconds=after_seconds, replica=replica)
