"""The options of the commands of emulators.

Typer evaluates the annotations when it builds a command, so this module does not import `annotations`.
"""

from typing import Annotated, ClassVar

from typer import Option

from vtrain.flags.completion import backends
from vtrain.flags.options import FlagGroup


class ClientFlags(FlagGroup, frozen=True):
    """The address of an emulator, and the clients that it answers."""

    heading: ClassVar[str] = "Address"

    host: Annotated[
        str,
        Option(
            "--host",
            metavar="ADDRESS",
            help="Address to listen on.",
        ),
    ] = "127.0.0.1"
    allowed_host: Annotated[
        list[str],
        Option(
            "--allowed-host",
            metavar="NAME",
            help="Another name by which clients reach this machine. Repeatable.",
        ),
    ] = []
    require_token: Annotated[
        bool,
        Option(
            "--require-token/--no-require-token",
            help="Answer only clients with the token, which is part of the printed address. On by default: "
            "without it every user of this machine is answered.",
        ),
    ] = True


class StoragePortFlag(FlagGroup, frozen=True):
    """The port of the emulator of storage alone."""

    heading: ClassVar[str] = "Address"

    port: Annotated[str, Option("--port", metavar="N", help="Port to listen on; 0 picks a free one.")] = "0"


class StartFlags(FlagGroup, frozen=True):
    """The port of the emulator, and how it runs."""

    heading: ClassVar[str] = "Address"

    port: Annotated[str, Option("--port", metavar="N", help="Port to listen on; 0 picks a free one.")] = (
        "8089"
    )
    grpc: Annotated[
        bool,
        Option(
            "--grpc",
            help="Answer gRPC too, for programs written for the cloud. Needs the extra vertex.",
        ),
    ] = False
    detach: Annotated[bool, Option("--detach", help="Return as soon as it answers; it runs on.")] = False


class RunningFlags(FlagGroup, frozen=True):
    """An emulator that runs."""

    heading: ClassVar[str] = "Address"

    port: Annotated[
        str, Option("--port", metavar="N", help="Port of the emulator, where several of them run.")
    ] = ""


class EnvFlags(FlagGroup, frozen=True):
    """The clients that are led to an emulator, or away from it."""

    heading: ClassVar[str] = "Clients"

    grpc: Annotated[
        bool, Option("--grpc", help="Also lead Google's Python library here, unchanged, over gRPC.")
    ] = False
    unset: Annotated[
        bool, Option("--unset", help="Print what takes the variables out of the shell again.")
    ] = False


class EmulatedBackendFlag(FlagGroup, frozen=True):
    """The backend that emulated jobs run in."""

    heading: ClassVar[str] = "Jobs"

    backend: Annotated[
        str,
        Option(
            "--backend",
            metavar="NAME",
            help="Backend that runs the jobs: local, process or docker.",
            autocompletion=backends,
        ),
    ] = "local"
    max_active_jobs: Annotated[
        str,
        Option(
            "--max-active-jobs",
            metavar="N",
            help="Quota of jobs that have not ended, in each region; more are refused with 429. 0: no quota.",
        ),
    ] = "0"
