"""`vtrain emulator`: its commands. What a command works with is imported when it runs."""

from __future__ import annotations

from vtrain.flags.command import CommandInfo
from vtrain.flags.emulator_options import (
    ClientFlags,
    EmulatedBackendFlag,
    EnvFlags,
    RunningFlags,
    StartFlags,
    StoragePortFlag,
)
from vtrain.flags.options import COMMAND, CommonFlags

_SERVICE = "vtrain.commands.emulator_service"

COMMANDS = (
    CommandInfo(
        name="start",
        handler=f"{_SERVICE}:start",
        summary="Serve the API of Vertex AI Training over this machine's jobs, until Ctrl-C or SIGTERM.",
        details="One port answers Vertex AI, Cloud Logging, Cloud Storage and requests for credentials. "
        "`vtrain emulator env` prints what leads gcloud, vtrain and Google's libraries to it. Every project "
        "is this machine: the jobs are those of `vtrain ps`, and run on when the emulator ends. "
        "Requests without the token of the printed address, and those of web pages, are refused.",
        examples=(
            ("Start it in the background", "vtrain emulator start --detach"),
            ("Run its jobs in containers", "vtrain emulator start --backend=docker --port=9000"),
        ),
        flags=(StartFlags, EmulatedBackendFlag, ClientFlags, CommonFlags),
    ),
    CommandInfo(
        name="stop",
        handler=f"{_SERVICE}:stop",
        summary="End a running emulator; its jobs run on.",
        examples=(("End the one at a port", "vtrain emulator stop --port=8089"),),
        flags=(RunningFlags, CommonFlags),
    ),
    CommandInfo(
        name="status",
        handler=f"{_SERVICE}:status",
        summary="List the running emulators.",
        examples=(("Print their addresses", "vtrain emulator status --format='value(url)'"),),
        flags=(CommonFlags,),
    ),
    CommandInfo(
        name="env",
        handler=f"{_SERVICE}:env",
        summary="Print the exports that lead gcloud, vtrain and Google's libraries to an emulator.",
        examples=(
            ("Print them for one of several", "vtrain emulator env --port=8089"),
            ("For programs that speak gRPC", "vtrain emulator env --grpc"),
            ("Print what leads a shell back to Google", "vtrain emulator env --unset"),
        ),
        flags=(RunningFlags, EnvFlags, CommonFlags),
    ),
    CommandInfo(
        name="exec",
        handler=f"{_SERVICE}:execute",
        summary="Run a command with an emulator of its own, and end with the command's exit code.",
        details="The emulator listens on a free port as long as the command runs. A Python program that was "
        "written for the cloud needs no change: its HTTPS to Google's hosts is led here, and its gRPC too, "
        "if the extra vertex is installed.",
        examples=(
            ("Run a program of the SDK", "vtrain emulator exec -- python train_on_vertex.py"),
            (
                "List jobs by gcloud",
                "vtrain emulator exec -- gcloud ai custom-jobs list --region=us-central1",
            ),
        ),
        flags=(EmulatedBackendFlag, CommonFlags),
        takes_remainder=True,
        remainder=COMMAND,
    ),
    CommandInfo(
        name="storage",
        handler="vtrain.commands.servers:storage",
        summary="Serve the local buckets with the API of Cloud Storage, until Ctrl-C or SIGTERM.",
        details="Prints the variable for clients: STORAGE_EMULATOR_HOST=http://127.0.0.1:PORT/TOKEN. "
        "Requests without the token, and those of web pages, are refused.",
        examples=(
            ("Serve the buckets on a port of your choice", "vtrain emulator storage --port=9023"),
            ("Serve them to a container", "vtrain emulator storage --host=0.0.0.0"),
        ),
        flags=(StoragePortFlag, ClientFlags, CommonFlags),
    ),
)
