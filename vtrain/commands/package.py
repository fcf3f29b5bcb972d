"""`vtrain package`: where each of its commands lives."""

from __future__ import annotations

from vtrain.flags.command import CommandInfo

COMMANDS = (
    CommandInfo(name="image", handler="vtrain.commands.package_image:image"),
    CommandInfo(name="sdist", handler="vtrain.commands.package_sdist:sdist"),
)
