"""`vtrain package`: its commands. What a command works with is imported when it runs."""

from __future__ import annotations

from vtrain.flags.command import CommandInfo
from vtrain.flags.options import CommonFlags, DryRunFlag, ImageFlags, OutputDirFlag, TrainerFlags

COMMANDS = (
    CommandInfo(
        name="image",
        handler="vtrain.commands.package_image:image",
        summary="Build a trainer's container image, and print its name.",
        details="The image is built on --executor-image-uri, in layers: dependencies, extra packages, code. "
        "What was built before of the same files, on the same base, is not built again.",
        flags=(
            TrainerFlags,
            ImageFlags,
            DryRunFlag,
            CommonFlags,
        ),
    ),
    CommandInfo(
        name="sdist",
        handler="vtrain.commands.package_sdist:sdist",
        summary="Package a trainer as an sdist, and print where it lies.",
        details="The same files give the same bytes and the same name, and what is there is not made again.",
        flags=(
            TrainerFlags,
            OutputDirFlag,
            CommonFlags,
        ),
    ),
)
