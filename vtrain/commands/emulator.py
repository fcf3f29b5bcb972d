"""`vtrain emulator`: its commands. What a command works with is imported when it runs."""

from __future__ import annotations

from vtrain.flags.command import CommandInfo
from vtrain.flags.options import CommonFlags, EmulatorFlags

COMMANDS = (
    CommandInfo(
        name="storage",
        handler="vtrain.commands.emulator_storage:storage",
        summary="Serve the local buckets as Cloud Storage does, until Ctrl-C or SIGTERM.",
        details="Prints the line that clients need in their environment: "
        "STORAGE_EMULATOR_HOST=http://127.0.0.1:PORT. Without --require-token it wants no credentials: "
        "whoever reaches the address may read and write every bucket, web pages excepted.",
        flags=(
            EmulatorFlags,
            CommonFlags,
        ),
    ),
)
