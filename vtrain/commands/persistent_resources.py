"""`vtrain persistent-resources`: its commands. What a command works with is imported when it runs."""

from __future__ import annotations

from vtrain.flags.command import CommandInfo
from vtrain.flags.options import CommonFlags, DryRunFlag, ListFlags, PlaceFlags
from vtrain.flags.persistent_resources import PersistentResourceFlags, ResourceNameFlag

COMMANDS = (
    CommandInfo(
        name="create",
        handler="vtrain.commands.resources:create",
        summary="Create a persistent resource. It goes on after the command; `describe` tells its state.",
        flags=(
            PersistentResourceFlags,
            DryRunFlag,
            PlaceFlags,
            CommonFlags,
        ),
    ),
    CommandInfo(
        name="list",
        handler="vtrain.commands.resources:list_resources",
        summary="List persistent resources, but for clusters of Ray: as a table on a terminal, as YAML "
        "elsewhere.",
        flags=(
            ListFlags,
            PlaceFlags,
            CommonFlags,
        ),
    ),
    CommandInfo(
        name="describe",
        handler="vtrain.commands.resources:describe",
        summary="Print one persistent resource.",
        flags=(
            ResourceNameFlag,
            PlaceFlags,
            CommonFlags,
        ),
    ),
    CommandInfo(
        name="delete",
        handler="vtrain.commands.resources:delete",
        summary="Remove a persistent resource. What runs on it is cancelled.",
        flags=(
            ResourceNameFlag,
            PlaceFlags,
            CommonFlags,
        ),
    ),
    CommandInfo(
        name="reboot",
        handler="vtrain.commands.resources:reboot",
        summary="Start the machines of a persistent resource anew. Nothing may run on it.",
        flags=(
            ResourceNameFlag,
            PlaceFlags,
            CommonFlags,
        ),
    ),
)
