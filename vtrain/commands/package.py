"""`vtrain package`: its commands. What a command works with is imported when it runs."""

from __future__ import annotations

from vtrain.flags.command import CommandInfo
from vtrain.flags.job_options import EntryFlags, ImageFlags, TrainerFlags
from vtrain.flags.options import CommonFlags, DryRunFlag, OutputDirFlag

COMMANDS = (
    CommandInfo(
        name="image",
        handler="vtrain.commands.packages:image",
        summary="Build a container image of a trainer, and print its name.",
        details="The image is based on --executor-image-uri. An image of the same files on the same base is "
        "not built again.",
        examples=(
            (
                "Build an image",
                "vtrain package image train.py --executor-image-uri=python:3.12",
            ),
            (
                "Build an image with your own Dockerfile, and push it",
                "vtrain package image . --dockerfile=Dockerfile --push "
                "--output-image-uri=us-docker.pkg.dev/my-project/my-repo/trainer:v1",
            ),
        ),
        flags=(
            EntryFlags,
            TrainerFlags,
            ImageFlags,
            DryRunFlag,
            CommonFlags,
        ),
    ),
    CommandInfo(
        name="sdist",
        handler="vtrain.commands.packages:sdist",
        summary="Package a trainer as a source distribution, and print its path or URI.",
        details="The same files give the same package with the same name.",
        examples=(
            (
                "Write a package into the folder dist",
                "vtrain package sdist . -m trainer.task",
            ),
            (
                "Upload a package to a bucket",
                "vtrain package sdist train.py --output-dir=gs://my-bucket/packages",
            ),
        ),
        flags=(
            EntryFlags,
            TrainerFlags,
            OutputDirFlag,
            CommonFlags,
        ),
    ),
)
