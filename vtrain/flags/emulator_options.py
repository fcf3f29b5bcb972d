"""The options of the commands of emulators."""

from typing import ClassVar

from vtrain.flags.completion import backends
from vtrain.flags.row import FlagGroup, flag, items, switch, text


class ClientFlags(FlagGroup, frozen=True):
    """The address of an emulator, and the clients that it answers."""

    heading: ClassVar[str] = "Address"

    host: str = flag("ADDRESS", "Address to listen on.", default="127.0.0.1")
    allowed_host: list[str] = items("NAME", "Another name by which clients reach this machine. Repeatable.")
    require_token: bool = switch(
        "Answer only clients with the token, which is part of the printed address. On by default: without "
        "it every user of this machine is answered.",
        default=True,
        has_opposite=True,
    )


class StoragePortFlag(FlagGroup, frozen=True):
    """The port of the emulator of storage alone."""

    heading: ClassVar[str] = "Address"

    port: str = flag("N", "Port to listen on; 0 picks a free one.", default="0")


class StartFlags(FlagGroup, frozen=True):
    """The port of the emulator, and how it runs."""

    heading: ClassVar[str] = "Address"

    port: str = flag("N", "Port to listen on; 0 picks a free one.", default="8089")
    grpc: bool = switch("Answer gRPC too, for programs written for the cloud. Needs the extra vertex.")
    detach: bool = switch("Return as soon as it answers; it runs on.")


class RunningFlags(FlagGroup, frozen=True):
    """An emulator that runs."""

    heading: ClassVar[str] = "Address"

    port: str = text("N", "Port of the emulator, where several of them run.")


class EnvFlags(FlagGroup, frozen=True):
    """The clients that are led to an emulator, or away from it."""

    heading: ClassVar[str] = "Clients"

    grpc: bool = switch("Refuse an emulator that does not answer gRPC.")
    unset: bool = switch("Print what takes the variables out of the shell again.")


class EmulatedBackendFlag(FlagGroup, frozen=True):
    """The backend that emulated jobs run in, and the buckets that clients find."""

    heading: ClassVar[str] = "Jobs and buckets"

    backend: str = flag(
        "NAME", "Backend that runs the jobs: local, process or docker.", default="local", offer=backends
    )
    max_active_jobs: str = flag(
        "N",
        "Quota of jobs that have not ended, in each region; more are refused with 429. 0: no quota.",
        default="0",
    )
    bucket: list[str] = items(
        "NAME", "Bucket that a program expects: it is made if it is missing. Repeatable."
    )
