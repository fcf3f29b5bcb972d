"""`vtrain package image`: the trainer's container image, without a job."""

from __future__ import annotations

from vtrain.backends.image_order import ImageOrder, with_engine
from vtrain.commands.drafting import warn_all
from vtrain.commands.entry import with_entry
from vtrain.commands.session import check_current_folder, open_console
from vtrain.containers.image_names import PUBLISHED_PLATFORM, check_tag_name, read_image_name
from vtrain.core.submission import MadeImage, make_trainer_image, plan_trainer_image, would_make
from vtrain.errors import ConfigError, UsageError
from vtrain.flags.containers import platform_name, pull_policy
from vtrain.flags.job_options import EntryFlags, ImageFlags, TrainerFlags
from vtrain.flags.options import CommonFlags, DryRunFlag
from vtrain.flags.request import check_format, trainer_source
from vtrain.output.live_progress import live_progress
from vtrain.packaging.source import TrainerSource
from vtrain.settings import user_path

COMMAND = "vtrain package image"


def image(
    entry: EntryFlags, trainer: TrainerFlags, build: ImageFlags, run: DryRunFlag, common: CommonFlags
) -> None:
    """Build a trainer's container image, unless it exists, and print its name."""
    console = open_console(common)
    check_current_folder()
    order = _order(build)
    trainer = with_entry(entry, trainer, COMMAND, is_context=bool(build.dockerfile))
    source = _source(trainer, build)
    if not (build.print_dockerfile or run.dry_run):
        order = with_engine(order)
    plan = plan_trainer_image(source, trainer.executor_image_uri, order, strict=trainer.strict)
    if build.print_dockerfile:
        console.write(plan.dockerfile.encode())
        return
    warn_all(console, plan.warnings)
    name = build.output_image_uri or plan.name
    if run.dry_run:
        console.progress(would_make(plan))
        made = MadeImage(name=name, id="", digest="", built=False)
    else:
        with live_progress(console) as tell:
            made = make_trainer_image(plan, order, name, tell)
    document = {"image": made.name, "id": made.id, "digest": made.digest, "built": made.built}
    console.result(document, "value(image)")


def _order(build: ImageFlags) -> ImageOrder:
    """The order for the build. Raises UsageError and ConfigError for flags that contradict each other."""
    pull, platform = pull_policy(build.pull), platform_name(build.platform)
    if build.output_image_uri:
        check_tag_name(build.output_image_uri, "--output-image-uri")
    if build.push:
        _check_pushed_name(build.output_image_uri)
    return ImageOrder(
        platform=platform or (PUBLISHED_PLATFORM if build.push else ""),
        pull=pull,
        push=build.push,
        dockerfile=user_path(build.dockerfile) if build.dockerfile else None,
    )


def _check_pushed_name(name: str) -> None:
    if not name:
        raise UsageError("--push needs --output-image-uri=REGISTRY/NAME:TAG.")
    if not read_image_name(name).registry:
        raise ConfigError(
            f"--push: {name} names no registry.", hint=f"Put it in front, as in docker.io/{name}."
        )


def _source(trainer: TrainerFlags, build: ImageFlags) -> TrainerSource:
    check_format(trainer)
    if trainer.package_format == "sdist":
        raise UsageError("package image makes no sdist.", hint="Take 'vtrain package sdist'.")
    if build.dockerfile:
        return _own_source(trainer)
    source = trainer_source(trainer)
    if source is None or not (source.python_module or source.script):
        raise UsageError(
            "What to package is not given.",
            hint=f"Name a script, or a module of a folder: {COMMAND} . -m MODULE. Or give --dockerfile=FILE.",
        )
    return source


def _own_source(trainer: TrainerFlags) -> TrainerSource:
    """The context of the user's own Dockerfile, which says itself what is installed and run."""
    flags = {
        "--python-module": trainer.python_module,
        "--script": trainer.script,
        "--requirements": trainer.requirements,
        "--extra-packages": trainer.extra_packages,
        "--extra-dirs": trainer.extra_dirs,
        "--executor-image-uri": trainer.executor_image_uri,
    }
    given = [flag for flag, value in flags.items() if value]
    if given:
        raise UsageError(
            f"{given[0]} and --dockerfile exclude each other: the file says what is in the image."
        )
    folder = user_path(trainer.local_package_path or ".")
    return TrainerSource(folder=folder.absolute())
