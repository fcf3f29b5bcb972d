"""`vtrain emulator`: its commands. What a command works with is imported when it runs."""

from __future__ import annotations

from vtrain.flags.command import CommandInfo
from vtrain.flags.options import CommonFlags, EmulatorFlags

COMMANDS = (
    CommandInfo(
        name="storage",
        handler="vtrain.commands.emulator_storage:storage",
        summary="Serve the local buckets with the API of Cloud Storage, until Ctrl-C or SIGTERM.",
        details="Prints the environment variable for clients: STORAGE_EMULATOR_HOST=http://127.0.0.1:PORT. "
        "Without --require-token no credentials are needed: every program that can reach the address can "
        "read and write every bucket. Requests of web pages are refused.",
        examples=(
            ("Serve the buckets on a port of your choice", "vtrain emulator storage --port=9023"),
            ("Serve them to a container", "vtrain emulator storage --host=0.0.0.0 --require-token"),
        ),
        flags=(
            EmulatorFlags,
            CommonFlags,
        ),
    ),
)
