"""`vtrain custom-jobs`: where each of its commands lives. A module is imported when it is called."""

from __future__ import annotations

from vtrain.flags.command import CommandInfo

COMMANDS = (
    CommandInfo(name="create", handler="vtrain.commands.create:create", takes_remainder=True),
    CommandInfo(name="local-run", handler="vtrain.commands.local_run:local_run", takes_remainder=True),
    CommandInfo(name="list", handler="vtrain.commands.jobs:list_jobs"),
    CommandInfo(name="describe", handler="vtrain.commands.jobs:describe"),
    CommandInfo(name="cancel", handler="vtrain.commands.jobs:cancel"),
    CommandInfo(name="stream-logs", handler="vtrain.commands.watch_jobs:stream_logs"),
    CommandInfo(name="wait", handler="vtrain.commands.watch_jobs:wait"),
    CommandInfo(name="delete", handler="vtrain.commands.jobs:delete"),
)
