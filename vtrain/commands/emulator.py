"""`vtrain emulator`: Vertex AI Training on this machine; its server of buckets is in `servers`."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Any

from vtrain.backends.interface import RuntimeBackend
from vtrain.backends.registry import find_backend, is_choice
from vtrain.commands.servers import admission_of, needed_modules, port_number, until_interrupted
from vtrain.commands.session import open_console, vtrain_argv
from vtrain.emulator import bound_command
from vtrain.emulator.running import (
    Running,
    environment_of,
    find_running,
    make_folder,
    the_running,
    variable_names,
)
from vtrain.emulator.running import stop as stop_running
from vtrain.errors import CommandError, ConfigError, StorageError, UnavailableError, UsageError
from vtrain.extras import install_command
from vtrain.flags.emulator_options import (
    ClientFlags,
    EmulatedBackendFlag,
    EnvFlags,
    RunningFlags,
    StartFlags,
)
from vtrain.flags.grammar import whole_number
from vtrain.flags.options import CommonFlags
from vtrain.https_proxy import leading_here
from vtrain.properties import LEAD_BACK, is_loopback
from vtrain.retry import wait_until
from vtrain.runtime.foreground import run_in_foreground
from vtrain.runtime.home import Home
from vtrain.settings import home_folder
from vtrain.staging import is_bucket_name

PROJECT = "emulator"
"""The project of clients that name none."""
LARGEST_LOG = 1 << 20
"""Bytes of earlier emulators' words that are kept."""
LAST_WORDS = 4096
ANOTHERS_SECONDS = 1.0
"""The time that an emulator takes from its hold on a port to its record."""


def start(where: StartFlags, jobs: EmulatedBackendFlag, clients: ClientFlags, common: CommonFlags) -> None:
    """Serve until a signal comes; with --detach return as soon as it answers."""
    console = open_console(common)
    port = port_number(where.port)
    backend = _checked_backend(jobs.backend)
    project = _checked_project(common.project)
    most_jobs = _quota(jobs)
    _make_buckets(jobs.bucket)
    if where.grpc:
        _check_grpc()
    if not is_loopback(clients.host) and not clients.require_token:
        raise ConfigError(
            f"--host={clients.host}: anyone who reaches that address could run programs on this machine.",
            hint="Leave out --no-require-token.",
        )
    _check_port(port)
    if where.detach:
        running = _start_detached(where, jobs, clients, common)
        console.result(_shown(running), "value(url)")
        console.progress("The emulator answers there. To use it:\n$ " + _env_line(running))
        return
    admission = admission_of(clients, console)
    with needed_modules():
        from vtrain.emulator.server import EmulatorOrder, serve
    order = EmulatorOrder(
        home=home_folder(),
        backend=backend,
        project=project,
        host=clients.host,
        port=port,
        admission=admission,
        grpc=where.grpc,
        most_jobs=most_jobs,
    )

    def announce(running: Running) -> None:
        console.result(_shown(running), "value(url)")
        console.progress("Vertex AI Training answers there until Ctrl-C. In another terminal:")
        console.progress(f"$ {_env_line(running)}")

    with until_interrupted(console):
        serve(order, announce, console.debug)


def stop(where: RunningFlags, common: CommonFlags) -> None:
    """End an emulator; jobs run on."""
    console = open_console(common)
    running = the_running(home_folder(), where.port)
    stop_running(home_folder(), running)
    console.progress(f"Stopped the emulator at port {running.port}.")
    if leading_here() and os.environ["HTTPS_PROXY"].endswith(f":{running.port}"):
        console.progress(f"This shell still leads there. To lead it back:\n$ {LEAD_BACK}")


def status(common: CommonFlags) -> None:
    """Print the emulators of this home that run."""
    console = open_console(common)
    found = find_running(home_folder())
    table = "table(port,url,backend,project,process)"
    # A list does not show tokens.
    bare = [_shown(running) | {"url": running.url.removesuffix(f"/{running.token}")} for running in found]
    console.results(bare, table)
    if not found:
        console.progress("No emulator runs. Start one:\n$ vtrain emulator start --detach")


def env(where: RunningFlags, clients: EnvFlags, common: CommonFlags) -> None:
    """Print the exports that lead clients to an emulator, for `eval`, or what takes them away again."""
    console = open_console(common)
    if clients.unset:
        console.result({"exports": "\n".join(f"unset {name}" for name in variable_names())}, "value(exports)")
        return
    running = the_running(home_folder(), where.port)
    if clients.grpc and not running.grpc:
        raise ConfigError(
            f"The emulator at port {running.port} does not answer gRPC.",
            hint="Start it again: vtrain emulator stop, vtrain emulator start --grpc --detach",
        )
    variables = environment_of(running, home_folder())
    lines = [
        f"export {name}={shlex.quote(value)}" if value else f"unset {name}"
        for name, value in variables.items()
    ]
    console.result({"exports": "\n".join(lines)}, "value(exports)")


def execute(jobs: EmulatedBackendFlag, common: CommonFlags, remainder: tuple[str, ...] | None) -> None:
    """Run a command with an emulator of its own, and end with its exit code."""
    if not remainder or not remainder[0]:
        raise UsageError(
            "exec needs a command.", hint="Put it after --: vtrain emulator exec -- python train_on_vertex.py"
        )
    console = open_console(common)
    backend = _checked_backend(jobs.backend)
    project = _checked_project(common.project)
    _make_buckets(jobs.bucket)
    with needed_modules():
        from vtrain.emulator.server import EmulatorOrder, serving
        from vtrain.emulator.storage.guard import Admission, new_token
    order = EmulatorOrder(
        home=home_folder(),
        backend=backend,
        project=project,
        host="127.0.0.1",
        port=0,
        admission=Admission(token=new_token()),
        grpc=not _missing_for_grpc(),
        most_jobs=_quota(jobs),
    )
    with serving(order, console.debug) as (running, calls):
        code = _run(remainder, environment_of(running, home_folder()))
    if sentence := calls.sentence():
        console.progress(sentence)
    if code:
        raise CommandError("", code)


def _checked_backend(name: str) -> str:
    """The backend of jobs. Raises ConfigError for one that runs none on this machine."""
    if not is_choice(name) and not isinstance(find_backend(name), RuntimeBackend):
        raise ConfigError(
            f"--backend={name}: emulated jobs run on this machine.", hint="Take local, process or docker."
        )
    return name


def _quota(jobs: EmulatedBackendFlag) -> int:
    """The most jobs that a region may have. Raises UsageError for anything else."""
    number = whole_number(jobs.max_active_jobs, "--max-active-jobs")
    if number < 0:
        raise UsageError(f"--max-active-jobs: {number} is negative.", hint="Take 0 for no quota.")
    return number


def _make_buckets(names: list[str]) -> None:
    """Make what is missing of some buckets. Raises UsageError for a bad name, and StorageError."""
    for name in names:
        if not is_bucket_name(name):
            raise UsageError(f"--bucket: {name!r} is not the name of a bucket.", hint="Leave out gs://.")
    if names:
        make_folder(home_folder())
    for name in names:
        try:
            (Home(home_folder()).buckets / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"Cannot make {error.filename}: {error.strerror}.") from error


def _checked_project(given: str | None) -> str:
    """The project of clients that name none. Raises ConfigError for what no project is called."""
    if given and not re.fullmatch(r"[A-Za-z0-9.:_-]{1,100}", given):
        raise ConfigError(f"--project: {given!r} is not the id of a project.")
    return given or PROJECT


def _missing_for_grpc() -> str:
    """The first package that gRPC needs and that is not installed."""
    for name in ("grpc", "cryptography", "google.cloud.aiplatform_v1"):
        with suppress(ModuleNotFoundError):
            if find_spec(name) is not None:
                continue
        return name
    return ""


def _check_grpc() -> None:
    if missing := _missing_for_grpc():
        raise UnavailableError(
            f"--grpc needs {missing}, which is not installed.",
            hint=f"Install it: {install_command('vertex')}",
        )


def _start_detached(
    where: StartFlags, jobs: EmulatedBackendFlag, clients: ClientFlags, common: CommonFlags
) -> Running:
    """Start the same command in a session of its own, and wait until it answers."""
    flags = [f"--port={where.port}", f"--backend={jobs.backend}", f"--host={clients.host}"]
    flags += [f"--max-active-jobs={jobs.max_active_jobs}", f"--verbosity={common.verbosity}"]
    flags += [f"--project={common.project}"] if common.project else []
    flags += [f"--allowed-host={name}" for name in clients.allowed_host]
    switches = {"--grpc": where.grpc, "--no-require-token": not clients.require_token}
    flags += [flag for flag, given in switches.items() if given]
    make_folder(home_folder())
    argv = vtrain_argv(("emulator", "start", *flags))
    with _log().open("ab") as log:
        if log.tell() > LARGEST_LOG:
            log.truncate(0)
        nothing = subprocess.DEVNULL
        child = subprocess.Popen(argv, stdin=nothing, stdout=nothing, stderr=log, start_new_session=True)
    return _until_answering(child, port_number(where.port))


def _check_port(port: int) -> None:
    """Raise UnavailableError where an emulator of this home has the port."""
    for running in find_running(home_folder()):
        if running.port == port:
            hint = f"To use it:\n$ {_env_line(running)}"
            raise UnavailableError(f"An emulator answers at port {port} already.", hint=hint)


def _until_answering(child: subprocess.Popen[bytes], port: int) -> Running:
    """The emulator that a child has become. Raises UnavailableError where it has ended instead."""
    # Its record tells, and not what it prints: settings of the user may silence that.
    found: list[Running] = []

    def has_come() -> bool:
        found[:] = [one for one in find_running(home_folder()) if one.process == child.pid]
        return bool(found) or child.poll() is not None

    wait_until(has_come, inf, longest=0.1)
    if not found:
        wait_until(lambda: _check_port(port), ANOTHERS_SECONDS)
        raise UnavailableError(_why_ended(child.wait()), hint=f"All of its words: {_log()}")
    return found[0]


def _log() -> Path:
    return Home(home_folder()).emulator / "emulator.log"


def _why_ended(code: int) -> str:
    """The error that an emulator has printed before it ended with a code."""
    with _log().open("rb") as log:
        log.seek(max(_log().stat().st_size - LAST_WORDS, 0))
        lines = [line for line in log.read().decode("utf-8", "replace").splitlines() if line]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return errors[-1] if errors else f"The emulator has ended with exit code {code}."


def _run(argv: tuple[str, ...], variables: dict[str, str]) -> int:
    """The exit code of a command with these variables; empty ones are unset."""
    environment = dict(os.environ)
    for name, value in variables.items():
        environment.pop(name, None)
        if value:
            environment[name] = value
    starter = [sys.executable, "-I", "-S", bound_command.__file__, str(os.getpid())]
    return run_in_foreground([*starter, *argv], env=environment)


def _shown(running: Running) -> dict[str, Any]:
    return {name: getattr(running, name) for name in Running.__struct_fields__}


def _env_line(running: Running) -> str:
    return f'eval "$(vtrain emulator env --port={running.port}{" --grpc" if running.grpc else ""})"'
